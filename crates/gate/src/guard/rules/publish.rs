//! What cannot be taken back because it happens elsewhere: releases, deployments, data.

use countersign_format::risk::RiskClass;

use crate::Decision;
use crate::guard::rule::Example::Run;
use crate::guard::rule::{Matcher, Rule};
use crate::guard::scene::Step;

pub(super) static RULES: &[Rule] = &[
    Rule {
        id: "publish",
        because: "publishes something that cannot be taken back",
        decision: Decision::Ask,
        risk: RiskClass::Critical,
        matches: Matcher::Step(publishes),
        must: &[
            Run("npm publish"),
            Run("cargo publish --allow-dirty"),
            Run("twine upload dist/*"),
            Run("python3 -m twine upload dist/*"),
            Run("docker push ana/image"),
            Run("gem push x.gem"),
            Run("gh release create v1"),
            Run("poetry publish"),
            Run("npm --access public publish"),
        ],
        must_not: &[
            Run("cargo publish --dry-run"),
            Run("npm pack"),
            Run("docker build ."),
            Run("gh release list"),
            Run("npm run publish-docs"),
        ],
    },
    Rule {
        id: "deploy",
        because: "changes machines that others use",
        decision: Decision::Ask,
        risk: RiskClass::Critical,
        matches: Matcher::Step(deploys),
        must: &[
            Run("terraform apply -auto-approve"),
            Run("terraform -chdir=infra destroy"),
            Run("kubectl delete ns prod"),
            Run("kubectl -n prod apply -f x.yml"),
            Run("helm upgrade app chart"),
            Run("aws ec2 terminate-instances --instance-ids i-1"),
            Run("vercel --prod"),
            Run("gh pr merge 7"),
        ],
        must_not: &[
            Run("terraform plan"),
            Run("kubectl get pods"),
            Run("aws s3 ls"),
            Run("kubectl apply --dry-run=client -f x.yml"),
            Run("helm lint chart"),
            Run("gh pr create"),
        ],
    },
    Rule {
        id: "database-loss",
        because: "deletes data from a database",
        decision: Decision::Ask,
        risk: RiskClass::Critical,
        matches: Matcher::Step(loses_data),
        must: &[
            Run("psql -c 'DROP TABLE users'"),
            Run("mysql -e 'truncate table users'"),
            Run("redis-cli FLUSHALL"),
            Run("sqlite3 x.db 'DELETE FROM users'"),
            Run("dropdb app"),
            Run("psql <<EOF\ndrop schema public cascade;\nEOF\n"),
        ],
        must_not: &[
            Run("psql -c 'SELECT 1'"),
            Run("sqlite3 x.db .tables"),
            Run("sqlite3 x.db 'delete from users where id = 1'"),
            Run("echo 'DROP TABLE users'"),
        ],
    },
];

fn publishes(step: &Step) -> bool {
    const PAIRS: &[(&str, &str)] = &[
        ("bun", "publish"),
        ("cargo", "publish"),
        ("cargo", "yank"),
        ("docker", "push"),
        ("flit", "publish"),
        ("gem", "push"),
        ("gradle", "publish"),
        ("gradlew", "publish"),
        ("hatch", "publish"),
        ("helm", "push"),
        ("mvn", "deploy"),
        ("npm", "publish"),
        ("npm", "unpublish"),
        ("nuget", "push"),
        ("pdm", "publish"),
        ("pnpm", "publish"),
        ("podman", "push"),
        ("poetry", "publish"),
        ("twine", "upload"),
        ("uv", "publish"),
        ("vsce", "publish"),
        ("yarn", "publish"),
    ];
    if step.flag("", &["dry-run"]) {
        return false;
    }
    let module = step
        .args
        .windows(2)
        .any(|pair| matches!(pair, [option, name] if option.text == "-m" && name.text == "twine"));
    let (first, second) = step.subcommand();
    module && step.has("upload")
        || PAIRS
            .iter()
            .any(|(program, verb)| step.is(&[program]) && step.operands().any(|word| word == *verb))
        || step.is(&["gh"])
            && first == "release"
            && matches!(second, "create" | "upload" | "delete")
        || step.is(&["docker", "podman"]) && (first, second) == ("image", "push")
}

fn deploys(step: &Step) -> bool {
    const PAIRS: &[(&[&str], &[&str])] = &[
        (&["terraform", "tofu", "terragrunt", "pulumi"], &["apply", "destroy", "up", "import"]),
        (
            &["kubectl", "oc"],
            &["apply", "delete", "replace", "patch", "scale", "drain", "rollout", "create", "edit"],
        ),
        (&["helm"], &["install", "upgrade", "uninstall", "rollback", "delete"]),
        (
            &["fly", "flyctl", "heroku", "netlify", "wrangler", "firebase", "serverless"],
            &["deploy"],
        ),
        (&["ansible-playbook"], &[]),
    ];
    const FORGE: &[(&str, &str)] = &[
        ("pr", "merge"),
        ("repo", "delete"),
        ("secret", "set"),
        ("secret", "delete"),
        ("workflow", "run"),
    ];
    const CLOUDS: &[&str] = &["aws", "gcloud", "az", "gsutil"];
    const LOSSES: &[&str] = &["delete", "terminate", "destroy", "rm", "rb", "remove", "purge"];
    if step.flag("", &["dry-run", "check"]) {
        return false;
    }
    let says = |verbs: &[&str]| step.operands().any(|word| verbs.contains(&word));
    let loses = |word: &str| LOSSES.contains(&word.split('-').next().unwrap_or_default());
    PAIRS.iter().any(|(programs, verbs)| step.is(programs) && (verbs.is_empty() || says(verbs)))
        || step.is(CLOUDS) && step.operands().any(loses)
        || step.is(&["vercel"]) && step.has("--prod")
        || step.is(&["gh"]) && FORGE.contains(&step.subcommand())
}

fn loses_data(step: &Step) -> bool {
    const CLIENTS: &[&str] = &[
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "mongosh",
        "mongo",
        "redis-cli",
        "cqlsh",
        "clickhouse-client",
    ];
    if step.is(&["dropdb", "dropuser"]) {
        return true;
    }
    let mut texts = step.args.iter().chain(&step.input).map(|word| word.text.to_lowercase());
    step.is(CLIENTS)
        && texts.any(|text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let said = |pair: &[&str]| words.windows(pair.len()).any(|window| window == pair);
            let drops = ["table", "database", "schema", "index", "collection"];
            drops.iter().any(|what| said(&["drop", what]))
                || said(&["truncate"])
                || said(&["delete", "from"]) && !said(&["where"])
                || matches!(&*text, "flushall" | "flushdb")
                || text.contains(".dropdatabase(")
                || text.contains(".drop(")
        })
}
