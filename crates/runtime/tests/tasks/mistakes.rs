//! Every mistake is explained where it stands.

use crate::{LEAST, faults};

/// Mistakes in what stands above the first table: line 1 of the file.
const ABOVE: &[(&str, &[&str])] = &[
    (
        "input_artifacts = \"a\"",
        &[
            "line 1, column 19: input_artifacts: must be an array of strings, found the string \"a\"",
        ],
    ),
    (
        "input_artifacts = [\"/etc/passwd\", \"a/../b\", \"\", \"x/\", \".\", 'a\\b']",
        &[
            "line 1, column 20: input_artifacts[0]: path is absolute, it must be relative to the workspace root",
            "line 1, column 35: input_artifacts[1]: path has a `..` component",
            "line 1, column 45: input_artifacts[2]: path is empty",
            "line 1, column 49: input_artifacts[3]: must name a file, found the directory `x/`",
            "line 1, column 55: input_artifacts[4]: must name a file, found the directory `.`",
            "line 1, column 60: input_artifacts[5]: path contains a backslash, components are separated by `/`",
        ],
    ),
    (
        "input_artifacts = [\"a\", \"b\", \"a\"]",
        &["line 1, column 30: input_artifacts[2]: `a` is listed twice"],
    ),
    (
        "constraints = [1, \"\", true]",
        &[
            "line 1, column 16: constraints[0]: must be a string, found the integer 1",
            "line 1, column 19: constraints[1]: must not be empty",
            "line 1, column 23: constraints[2]: must be a string, found true",
        ],
    ),
    (
        "constraints = [\"a\\u0000\", \"\\uFFFF\"]",
        &[
            "line 1, column 16: constraints[0]: must not hold a NUL character",
            "line 1, column 27: constraints[1]: must not hold the noncharacter U+FFFF",
        ],
    ),
    (
        "policy_profile = \"Strict\"",
        &[
            "line 1, column 18: policy_profile: must be one of: strict, default, lenient; found `Strict`; did you mean `strict`?",
        ],
    ),
    (
        "policy_profile = false",
        &["line 1, column 18: policy_profile: must be a string, found false"],
    ),
    (
        "requested_roles = [\"planner\", \"executor\", \"auditor\"]",
        &[
            "line 1, column 19: requested_roles: planner, executor and critic must be there, missing: critic",
        ],
    ),
    (
        "requested_roles = []",
        &[
            "line 1, column 19: requested_roles: planner, executor and critic must be there, missing: planner, executor, critic",
        ],
    ),
    (
        "requested_roles = [\"planner\", \"executor\", \"critic\", \"operator\", \"recorder\"]",
        &[
            "line 1, column 53: requested_roles[3]: must be one of: planner, executor, critic, auditor; found `operator`",
            "line 1, column 65: requested_roles[4]: must be one of: planner, executor, critic, auditor; found `recorder`",
        ],
    ),
    (
        "requested_roles = [\"planner\", \"executor\", \"critics\"]",
        &[
            "line 1, column 43: requested_roles[2]: must be one of: planner, executor, critic, auditor; found `critics`; did you mean `critic`?",
        ],
    ),
    (
        "requested_roles = [\"planner\", \"executor\", \"critic\", \"planner\"]",
        &["line 1, column 53: requested_roles[3]: `planner` is listed twice"],
    ),
    (
        "requested_roles = { planner = true }",
        &["line 1, column 19: requested_roles: must be an array of strings, found a table"],
    ),
    (
        "tags = [\"a\", \"a\", \" \"]",
        &[
            "line 1, column 14: tags[1]: `a` is listed twice",
            "line 1, column 19: tags[2]: must not be empty",
        ],
    ),
    ("objektive = \"x\"", &["line 1, column 1: objektive: unknown key, did you mean `objective`?"]),
    (
        "\"a b\".c = 1",
        &[
            "line 1, column 1: \"a b\": unknown key, the keys here are: task_id, objective, input_artifacts, constraints, policy_profile, requested_roles, tags, limits, sandbox, policy, agents, steps",
        ],
    ),
    ("limits = 3", &["line 1, column 10: limits: must be a table, found the integer 3"]),
    (
        "sandbox = \"none\"",
        &["line 1, column 11: sandbox: must be a table, found the string \"none\""],
    ),
    ("policy = []", &["line 1, column 10: policy: must be a table, found an array"]),
    ("agents = 1979-05-27", &["line 1, column 10: agents: must be a table, found a date or time"]),
];

/// Mistakes in what stands below the least task: from line 9 of the file.
const BELOW: &[(&str, &[&str])] = &[
    (
        "[limits]\ntime_seconds = 0\ntool_calls = -4\ntool_seconds = 1.5\noutput_bytes = \"8 MiB\"",
        &[
            "line 10, column 16: limits.time_seconds: must be between 1 and 31536000, found 0",
            "line 11, column 14: limits.tool_calls: must be between 1 and 1000000, found -4",
            "line 12, column 16: limits.tool_seconds: must be an integer, found the float 1.5",
            "line 13, column 16: limits.output_bytes: must be an integer, found the string \"8 MiB\"",
        ],
    ),
    (
        "limits.parallel = 3\n[limits]\nmemory_bytes = 99999999999999999999\nparallel = 33",
        &[
            "line 9, column 1: steps[0].actions[0].limits: unknown key, the keys here are: argv, shell, cwd, env, stdin, success, tool, risk, justification, idempotent, retries",
            "line 11, column 16: limits.memory_bytes: must be between 1048576 and 9007199254740991, found 99999999999999999999",
            "line 12, column 12: limits.parallel: must be between 1 and 32, found 33",
        ],
    ),
    (
        "[limits]\nparalel = 3\nseconds = 4",
        &[
            "line 10, column 1: limits.paralel: unknown key, did you mean `parallel`?",
            "line 11, column 1: limits.seconds: unknown key, the keys here are: time_seconds, tool_calls, tool_seconds, output_bytes, memory_bytes, parallel",
        ],
    ),
    ("[limts]", &["line 9, column 2: limts: unknown key, did you mean `limits`?"]),
    (
        "[sandbox]\nrequire = \"ful\"\nnetwork = \"no\"\nwrite = \"/x\"\npass_env = [3]",
        &[
            "line 10, column 11: sandbox.require: must be one of: none, files, full; found `ful`; did you mean `full`?",
            "line 11, column 11: sandbox.network: must be true or false, found the string \"no\"",
            "line 12, column 9: sandbox.write: must be an array of strings, found the string \"/x\"",
            "line 13, column 13: sandbox.pass_env[0]: must be a string, found the integer 3",
        ],
    ),
    (
        "[sandbox]\nwrite = [\"a/b\", \"/\", \"/a/../b\", \"/a//b\", \"/a\\u0000\", \"/a\", \"/a\"]",
        &[
            "line 10, column 10: sandbox.write[0]: must be an absolute directory, found `a/b`",
            "line 10, column 17: sandbox.write[1]: must be a directory below `/`",
            "line 10, column 22: sandbox.write[2]: must not have an empty, `.` or `..` component",
            "line 10, column 33: sandbox.write[3]: must not have an empty, `.` or `..` component",
            "line 10, column 42: sandbox.write[4]: must not hold a NUL character",
            "line 10, column 60: sandbox.write[6]: `/a` is listed twice",
        ],
    ),
    (
        "[sandbox]\npass_env = [\"A=B\", \"1A\", \"LC_*\"]",
        &[
            "line 10, column 13: sandbox.pass_env[0]: found `A=B`, a variable is named by letters, digits and `_`, not starting with a digit",
            "line 10, column 20: sandbox.pass_env[1]: found `1A`, a variable is named by letters, digits and `_`, not starting with a digit",
            "line 10, column 26: sandbox.pass_env[2]: found `LC_*`, a variable is named by letters, digits and `_`, not starting with a digit",
        ],
    ),
    (
        "[policy]\nfallbacks = 1\nrevisions = -1\nmin_evidence = 0\nquestion_seconds = nan\nagent_tries = 11",
        &[
            "line 10, column 13: policy.fallbacks: must be true or false, found the integer 1",
            "line 11, column 13: policy.revisions: must be between 0 and 100, found -1",
            "line 12, column 16: policy.min_evidence: must be between 1 and 100, found 0",
            "line 13, column 20: policy.question_seconds: must be an integer, found the float nan",
            "line 14, column 15: policy.agent_tries: must be between 1 and 10, found 11",
        ],
    ),
    (
        "[policy]\nfallback = true",
        &["line 10, column 1: policy.fallback: unknown key, did you mean `fallbacks`?"],
    ),
    (
        "[agents.planner]\nkind = \"comand\"",
        &[
            "line 10, column 8: agents.planner.kind: must be one of: built-in, command, prompt; found `comand`; did you mean `command`?",
        ],
    ),
    (
        "[agents.executor]\ncommand = [\"x\"]",
        &[
            "line 9, column 1: agents.executor.kind: missing, must be one of: built-in, command, prompt",
        ],
    ),
    (
        "[agents.critic]\nkind = \"command\"\nsecond = 1",
        &[
            "line 9, column 1: agents.critic.command: missing, must be an array of strings",
            "line 11, column 1: agents.critic.second: unknown key, the keys here are: kind, command, time_seconds, output_bytes, pass_env",
        ],
    ),
    (
        "[agents.critic]\nkind = \"prompt\"\ncommand = []\ntime_seconds = 0\noutput_bytes = 2_000_000_000",
        &[
            "line 11, column 11: agents.critic.command: must not be empty, its first entry is the program",
            "line 12, column 16: agents.critic.time_seconds: must be between 1 and 31536000, found 0",
            "line 13, column 16: agents.critic.output_bytes: must be between 1 and 1073741824, found 2000000000",
        ],
    ),
    (
        "[agents.critic]\nkind = \"prompt\"\ncommand = \"my-model\"\npass_env = \"A\"",
        &[
            "line 11, column 11: agents.critic.command: must be an array of strings, found the string \"my-model\"",
            "line 12, column 12: agents.critic.pass_env: must be an array of strings, found the string \"A\"",
        ],
    ),
    (
        "[agents.auditor]\nkind = \"built-in\"\ncommand = [\"x\"]",
        &[
            "line 11, column 11: agents.auditor.command: must not be given: a built-in agent runs no command",
        ],
    ),
    (
        "[agents.operator]\nkind = \"built-in\"\n[agents.plannr]",
        &[
            "line 9, column 9: agents.operator: no agent has this role, the roles are: planner, executor, critic, auditor",
            "line 11, column 9: agents.plannr: unknown role, did you mean `planner`?",
        ],
    ),
    (
        "[agents]\ncritic = \"prompt\"",
        &["line 10, column 10: agents.critic: must be a table, found the string \"prompt\""],
    ),
    (
        "[steps.actions.env]\n\"A=B\" = \"\"\n\"\" = \"\"\nC = 3\nD = \"\\u0000\"",
        &[
            "line 10, column 1: steps[0].actions[0].env.\"A=B\": a variable's name must not be empty or hold `=` or a NUL character",
            "line 11, column 1: steps[0].actions[0].env.\"\": a variable's name must not be empty or hold `=` or a NUL character",
            "line 12, column 5: steps[0].actions[0].env.C: must be a string, found the integer 3",
            "line 13, column 5: steps[0].actions[0].env.D: must not hold a NUL character",
        ],
    ),
    (
        "shell = \"x\"\ncwd = \"/etc\"\nenv = [\"A=B\"]\nstdin = 3",
        &[
            "line 6, column 1: steps[0].actions[0]: exactly one of `argv` and `shell` must be given",
            "line 10, column 7: steps[0].actions[0].cwd: path is absolute, it must be relative to the workspace root",
            "line 11, column 7: steps[0].actions[0].env: must be a table, found an array",
            "line 12, column 9: steps[0].actions[0].stdin: must be a string, found the integer 3",
        ],
    ),
    (
        "risk = \"high\"\njustification = \"\"\nidempotent = \"yes\"\nretries = 11",
        &[
            "line 9, column 8: steps[0].actions[0].risk: must be one of: low, standard, elevated, critical; found `high`",
            "line 10, column 17: steps[0].actions[0].justification: must not be empty",
            "line 11, column 14: steps[0].actions[0].idempotent: must be true or false, found the string \"yes\"",
            "line 12, column 11: steps[0].actions[0].retries: must be between 0 and 10, found 11",
        ],
    ),
    (
        "success = [300, 1, 1, \"x\"]",
        &[
            "line 9, column 12: steps[0].actions[0].success[0]: must be between -255 and 255, found 300",
            "line 9, column 20: steps[0].actions[0].success[2]: 1 is listed twice",
            "line 9, column 23: steps[0].actions[0].success[3]: must be an integer, found the string \"x\"",
        ],
    ),
    (
        "success = []\npath = \"x\"\nargs = []",
        &[
            "line 9, column 11: steps[0].actions[0].success: must not be empty, some exit status is success",
            "line 10, column 1: steps[0].actions[0].path: `exec` takes no `path`, it takes: argv, shell, cwd, env, stdin, success",
            "line 11, column 1: steps[0].actions[0].args: unknown key, did you mean `argv`?",
        ],
    ),
    (
        "success = 0",
        &[
            "line 9, column 11: steps[0].actions[0].success: must be an array of integers, found the integer 0",
        ],
    ),
    (
        "[[steps.actions]]\ntool = \"file_red\"\nargv = 3",
        &[
            "line 10, column 8: steps[0].actions[1].tool: must be one of: exec, file_read, file_write, file_delete; found `file_red`; did you mean `file_read`?",
        ],
    ),
    (
        "[[steps.actions]]\npath = \"x\"",
        &[
            "line 9, column 1: steps[0].actions[1].tool: missing, must be one of: exec, file_read, file_write, file_delete",
        ],
    ),
    (
        "[[steps.actions]]\ntool = \"exec\"",
        &["line 9, column 1: steps[0].actions[1]: exactly one of `argv` and `shell` must be given"],
    ),
    (
        "[[steps.actions]]\ntool = \"exec\"\nargv = []\n[[steps.actions]]\ntool = \"exec\"\nargv = [\"\", \"a\\u0000\", 3]",
        &[
            "line 11, column 8: steps[0].actions[1].argv: must not be empty, its first entry is the program",
            "line 14, column 9: steps[0].actions[2].argv[0]: must not be empty, it is the program",
            "line 14, column 13: steps[0].actions[2].argv[1]: must not hold a NUL character",
            "line 14, column 24: steps[0].actions[2].argv[2]: must be a string, found the integer 3",
        ],
    ),
    (
        "[[steps.actions]]\ntool = \"exec\"\nshell = \"\"\n[[steps.actions]]\ntool = \"exec\"\nshell = [\"x\"]",
        &[
            "line 11, column 9: steps[0].actions[1].shell: must not be empty, it is a script",
            "line 14, column 9: steps[0].actions[2].shell: must be a string, found an array",
        ],
    ),
    (
        "[[steps.actions]]\ntool = \"file_read\"\npath = \"../x\"\nargv = [\"a\"]\nidempotent = false\nsuccess = [0]",
        &[
            "line 11, column 8: steps[0].actions[1].path: path has a `..` component",
            "line 12, column 1: steps[0].actions[1].argv: `file_read` takes no `argv`, it takes: path",
            "line 13, column 14: steps[0].actions[1].idempotent: must be true, a `file_read` is always idempotent",
            "line 14, column 1: steps[0].actions[1].success: `file_read` takes no `success`, it takes: path",
        ],
    ),
    (
        "[[steps.actions]]\ntool = \"file_write\"\npath = \".git/config\"\n[[steps.actions]]\ntool = \"file_delete\"",
        &[
            "line 9, column 1: steps[0].actions[1].content: missing, must be a string",
            "line 11, column 8: steps[0].actions[1].path: path leads into `.git`, which agents may not write",
            "line 12, column 1: steps[0].actions[2].path: missing, must be a string",
        ],
    ),
    (
        "[[steps.claims]]\ntext = \"\"\nconfidence = \"sure\"\nevidence = []\n[[steps.claims]]\nevidence = [\"stdot\", \"stdout\", \"stdout\"]\nclaim = 1",
        &[
            "line 10, column 8: steps[0].claims[0].text: must not be empty",
            "line 11, column 14: steps[0].claims[0].confidence: must be one of: low, medium, high; found `sure`",
            "line 12, column 12: steps[0].claims[0].evidence: must not be empty, a claim rests on something",
            "line 13, column 1: steps[0].claims[1].text: missing, must be a string",
            "line 14, column 13: steps[0].claims[1].evidence[0]: must be one of: stdout, stderr, input, output; found `stdot`; did you mean `stdout`?",
            "line 14, column 32: steps[0].claims[1].evidence[2]: `stdout` is listed twice",
            "line 15, column 1: steps[0].claims[1].claim: unknown key, the keys here are: text, confidence, evidence",
        ],
    ),
    (
        "[[steps]]\nid = \"S 1\"\ngoal = \"x\"\nassumptions = \"a\"\nexpected_evidence = [{}]\nactions = []\nclaims = 3",
        &[
            "line 9, column 1: steps[1].objective: missing, must be a string",
            "line 10, column 6: steps[1].id: found `S 1`, an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit",
            "line 11, column 1: steps[1].goal: unknown key, the keys here are: id, objective, assumptions, expected_evidence, after, fallback_for, actions, claims",
            "line 12, column 15: steps[1].assumptions: must be an array of strings, found the string \"a\"",
            "line 13, column 22: steps[1].expected_evidence[0]: must be a string, found a table",
            "line 14, column 11: steps[1].actions: must not be empty, a step does something",
            "line 15, column 10: steps[1].claims: must be an array of tables, found the integer 3",
        ],
    ),
    (
        "[[steps]]",
        &[
            "line 9, column 1: steps[1].objective: missing, must be a string",
            "line 9, column 1: steps[1].id: missing, must be a string",
            "line 9, column 1: steps[1].actions: missing, must be an array of tables",
        ],
    ),
    (
        "[[steps]]\nid = \"s\"\nobjective = \"x\"\nactions = [3]",
        &[
            "line 10, column 6: steps[1].id: `s` is the id of steps[0] already",
            "line 12, column 12: steps[1].actions[0]: must be a table, found the integer 3",
        ],
    ),
];

/// Mistakes in how steps follow each other; every step has an action.
const ORDERS: &[(&str, &[&str])] = &[
    (
        "after = [\"s\", \"nope\", \"s\", 4]\nfallback_for = \"gone\"",
        &[
            "line 14, column 15: steps[1].after[1]: no step has the id `nope`",
            "line 14, column 23: steps[1].after[2]: `s` is listed twice",
            "line 14, column 28: steps[1].after[3]: must be a string, found the integer 4",
            "line 15, column 16: steps[1].fallback_for: no step has the id `gone`",
        ],
    ),
    (
        "after = \"s\"\nfallback_for = [\"s\"]",
        &[
            "line 14, column 9: steps[1].after: must be an array of strings, found the string \"s\"",
            "line 15, column 16: steps[1].fallback_for: must be a string, found an array",
        ],
    ),
    ("after = [\"a\"]", &["line 14, column 10: steps[1].after[0]: waits for itself: `a` → `a`"]),
    (
        "fallback_for = \"a\"",
        &["line 14, column 16: steps[1].fallback_for: waits for itself: `a` → `a`"],
    ),
    (
        "after = [\"s\"]\nfallback_for = \"s\"",
        &[
            "line 15, column 16: steps[1].fallback_for: `s` is in `after` too, a step cannot wait for both its success and its failure",
        ],
    ),
    (
        "after = [\"s\", \"b\"]\n[[steps]]\nid = \"b\"\nobjective = \"x\"\nactions = [{ tool = \"exec\", shell = \"x\" }]\nafter = [\"a\"]",
        &["line 19, column 10: steps[2].after[0]: waits for itself: `b` → `a` → `b`"],
    ),
    (
        "fallback_for = \"b\"\n[[steps]]\nid = \"b\"\nobjective = \"x\"\nactions = [{ tool = \"exec\", shell = \"x\" }]\nafter = [\"s\", \"a\"]",
        &["line 19, column 15: steps[2].after[1]: waits for itself: `b` → `a` → `b`"],
    ),
];

/// Documents that are wrong as a whole, or no TOML.
const WHOLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "line 1, column 1: task_id: missing, must be a string",
            "line 1, column 1: objective: missing, must be a string",
            "line 1, column 1: steps: missing, a built-in planner proposes what stands in `steps`",
        ],
    ),
    (
        "task_id = 3\nobjective = [\"x\"]\nsteps = []",
        &[
            "line 1, column 11: task_id: must be a string, found the integer 3",
            "line 2, column 13: objective: must be a string, found an array",
            "line 3, column 9: steps: must not be empty, a built-in planner proposes what stands in `steps`",
        ],
    ),
    (
        "task_id = \"My Task\"\nobjective = \" \\n\"\nsteps = 3",
        &[
            "line 1, column 11: task_id: found `My Task`, an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit",
            "line 2, column 13: objective: must not be empty",
            "line 3, column 9: steps: must be an array of tables, found the integer 3",
        ],
    ),
    (
        "\u{feff}task_id = \"t\"",
        &["line 1, column 1: the file must not start with a byte order mark"],
    ),
    ("# a\ntask_id = \"t\0\"", &["line 2, column 13: the file must not hold a NUL character"]),
    (
        "task_id = True\nobjective =\nsteps = 'x\n[limits\n[a]b\nx = 01",
        &[
            "line 1, column 11: `True` is no value, did you mean `true`?",
            "line 2, column 12: missing value",
            "line 3, column 11: string is not closed, expected `'`",
            "line 4, column 8: unclosed table, expected `]`",
            "line 5, column 4: unexpected key or value, expected newline, `#`",
            "line 6, column 5: unexpected leading zero",
        ],
    ),
    (
        "task_id = \"t\" objective = \"o\"",
        &["line 1, column 15: unexpected key or value, expected newline, `#`"],
    ),
    (
        "task_id = yes\ntags = [\"a\"\nobjective = \"o\"\n[[steps]]\nid = \"s\"",
        &[
            "line 1, column 11: `yes` is no value, text must be quoted",
            "line 3, column 1: missing comma between array elements, expected `,`",
        ],
    ),
    ("objective = \"\"\"\nnever ends", &["line 2, column 11: string is not closed, expected `\"`"]),
    (
        "tags = [\"a\", \"\\q\"]\ntags = []",
        &[
            "line 1, column 16: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\\`, `\"`, `x`, `u`, `U`",
            "line 2, column 1: `tags` is given twice",
        ],
    ),
];

/// Found by fuzzing: the parser does not say where, and what was wrong in line 1 was not told.
#[test]
fn what_is_nested_too_deeply_hides_no_other_mistake() {
    let deep = ".".repeat(100);
    for (before, line) in [("", 1), ("\n", 2)] {
        let expected = [
            "line 1, column 1: something in the file is nested too deeply".to_owned(),
            format!(
                "line {line}, column 1: unquoted keys cannot be empty, expected letters, numbers, \
                 `-`, `_`"
            ),
        ];
        assert_eq!(faults(&format!("{before}{deep}")), expected);
    }
}

#[test]
fn every_mistake_is_explained() {
    for (text, expected) in ABOVE {
        assert_eq!(faults(&format!("{text}\n{LEAST}")), *expected, "{text}");
    }
    for (text, expected) in BELOW {
        assert_eq!(faults(&format!("{LEAST}{text}\n")), *expected, "{text}");
    }
    let step = "[[steps]]\nid = \"a\"\nobjective = \"x\"\nactions = [\n{ tool = \"exec\", shell = \"x\" }]";
    for (text, expected) in ORDERS {
        assert_eq!(faults(&format!("{LEAST}{step}\n{text}\n")), *expected, "{text}");
    }
    for (text, expected) in WHOLES {
        assert_eq!(faults(text), *expected, "{text}");
    }
}
