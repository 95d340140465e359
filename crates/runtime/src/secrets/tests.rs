//! What is replaced, what is left alone, and that nothing breaks.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn variables(pairs: &[(&str, &str)]) -> Redactor {
    Redactor::new(pairs.iter().map(|(name, value)| (name.into(), value.into())))
}

fn text(redactor: &Redactor, text: &str) -> String {
    redactor.redact_text(text).0
}

/// Tokens as others write them, put together so that no scanner takes this file for a leak.
fn tokens() -> Vec<(&'static str, String)> {
    let long = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2dE3f";
    let part = |length: usize| long.chars().cycle().take(length).collect::<String>();
    vec![
        ("aws-access-key-id", format!("AKIA{}", "ABCDEFGH12345678")),
        ("aws-access-key-id", format!("ASIA{}", "ABCDEFGH12345678")),
        ("github-token", format!("ghp_{}", part(36))),
        ("github-token", format!("gho_{}", part(36))),
        ("github-token", format!("ghs_{}", part(36))),
        ("github-token", format!("github_pat_{}_{}", part(22), part(59))),
        ("gitlab-token", format!("glpat-{}", part(20))),
        ("slack-token", format!("xoxb-{}-{}", part(12), part(24))),
        ("slack-token", format!("xapp-1-{}", part(40))),
        ("stripe-key", format!("sk_live_{}", part(24))),
        ("stripe-key", format!("rk_live_{}", part(24))),
        ("model-key", format!("sk-proj-{}", part(48))),
        ("model-key", format!("sk-ant-api03-{}", part(95))),
        ("google-key", format!("AIza{}", part(35))),
        ("npm-token", format!("npm_{}", part(36))),
        ("pypi-token", format!("pypi-AgE{}", part(60))),
        ("jwt", format!("eyJ{}.eyJ{}.{}", part(30), part(60), part(43))),
        ("jwt", format!("eyJ{}.eyJ{}", part(30), part(60))),
    ]
}

#[test]
fn tokens_are_known_by_how_they_look() {
    let redactor = Redactor::none();
    for (rule, token) in tokens() {
        let marker = format!("[redacted:{rule}]");
        for (before, after) in [
            ("", ""),
            ("token is ", " now"),
            ("\"", "\""),
            ("x=", "&y=1"),
            ("line\\n", "\\n"),
            ("\u{1b}[31m", "\u{1b}[0m"),
            ("%20", "%20"),
            ("(", ")"),
        ] {
            let expected = (format!("{before}{marker}{after}"), Counts::from([(rule, 1)]));
            assert_eq!(redactor.redact_text(&format!("{before}{token}{after}")), expected);
        }
    }
}

#[test]
fn a_token_behind_a_name_has_the_name_of_its_own_rule() {
    for (rule, token) in tokens() {
        let (_, counts) = Redactor::none().redact_text(&format!("api_token = \"{token}\""));
        assert_eq!(counts, Counts::from([(rule, 1)]), "{token}");
    }
}

#[test]
fn values_behind_names_are_replaced_in_common_syntaxes() {
    let table = [
        ("password=hunter22", "password=[]"),
        ("password=short", "password=short"),
        ("PASSWORD=\"correct horse battery\"", "PASSWORD=\"[]\""),
        ("password: hunter22", "password: []"),
        ("{\"password\": \"hunter22\"}", "{\"password\": \"[]\"}"),
        ("{\\\"password\\\": \\\"hunter22\\\"}", "{\\\"password\\\": \\\"[]\\\"}"),
        ("'client_secret' => 'hunter22'", "'client_secret' => '[]'"),
        ("config[\"api_key\"] = \"hunter22\"", "config[\"api_key\"] = \"[]\""),
        ("https://example.org/?token=hunter22&x=1", "https://example.org/?token=[]&x=1"),
        ("login --password hunter22 --user ana", "login --password [] --user ana"),
        ("login --password=hunter22", "login --password=[]"),
        (r#"["login","--password","hunter22","x"]"#, r#"["login","--password","[]","x"]"#),
        (r#"argv = ["--api-key", "hunter22"]"#, r#"argv = ["--api-key", "[]"]"#),
        (r#"["--no-password", "--verbose-please"]"#, r#"["--no-password", "--verbose-please"]"#),
        ("X-Api-Key: hunter22", "X-Api-Key: []"),
        ("<password>hunter22</password>", "<password>[]</password>"),
        ("dbPassword := `hunter22`", "dbPassword := `[]`"),
        ("export DB_PASSWORD_PROD=hunter22; ls", "export DB_PASSWORD_PROD=[]; ls"),
        ("token=correcthorse", "token=[]"),
        ("password=hunter22\u{1b}[0m", "password=[]\u{1b}[0m"),
        ("password: hunter22[0]", "password: hunter22[0]"),
        ("secret: pässwörter1", "secret: []"),
        // Code, references and other words are left alone.
        ("password = getpass()", "password = getpass()"),
        ("token = self.config.token", "token = self.config.token"),
        ("password: SecretString,", "password: SecretString,"),
        ("password=${DB_PASSWORD}", "password=${DB_PASSWORD}"),
        ("password=<your password>", "password=<your password>"),
        ("if password == \"hunter22\"", "if password == \"hunter22\""),
        ("tokens=12345678", "tokens=12345678"),
        ("token_type: bearer_of_news", "token_type: bearer_of_news"),
        ("password_file=/run/secrets/x", "password_file=/run/secrets/x"),
        ("password=********", "password=********"),
        (
            "the password is a secret, and so is the token",
            "the password is a secret, and so is the token",
        ),
    ];
    for (input, expected) in table {
        let expected = expected.replace("[]", "[redacted:assignment]");
        assert_eq!(text(&Redactor::none(), input), expected);
    }
}

#[test]
fn keys_headers_and_addresses_are_replaced() {
    let key =
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----";
    let aws = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz";
    let table = [
        (format!("a\n{key}\nb"), "a\n[redacted:private-key]\nb"),
        (format!("a\n{}", &key[..50]), "a\n[redacted:private-key]"),
        (key.replace('\n', "\\n"), "[redacted:private-key]"),
        ("-----BEGIN PUBLIC KEY-----".to_owned(), "-----BEGIN PUBLIC KEY-----"),
        (
            "Authorization: Bearer abcdef123".to_owned(),
            "Authorization: Bearer [redacted:authorization]",
        ),
        (
            "authorization: Basic dXNlcjpwYXNz\r\n".to_owned(),
            "authorization: Basic [redacted:authorization]\r\n",
        ),
        (
            "-H 'Authorization: token abcdef1234'".to_owned(),
            "-H 'Authorization: token [redacted:authorization]'",
        ),
        (
            "{\"Authorization\": \"hunter2222\"}".to_owned(),
            "{\"Authorization\": \"[redacted:authorization]\"}",
        ),
        (
            "{\\\"Authorization\\\": \\\"Bearer abcdef123\\\"}".to_owned(),
            "{\\\"Authorization\\\": \\\"Bearer [redacted:authorization]\\\"}",
        ),
        ("Bearer abcdefghij0123456789".to_owned(), "Bearer [redacted:authorization]"),
        (
            "the bearer of this letter-without-digits".to_owned(),
            "the bearer of this letter-without-digits",
        ),
        ("postgres://ana:hunter2@db/x".to_owned(), "postgres://ana:[redacted:url-password]@db/x"),
        ("redis://:hunter2@db".to_owned(), "redis://:[redacted:url-password]@db"),
        (
            "https://abcdefghij0123456789@host/x".to_owned(),
            "https://[redacted:url-password]@host/x",
        ),
        ("ssh://git@example.org/x".to_owned(), "ssh://git@example.org/x"),
        ("https://example.org:8080/a@b".to_owned(), "https://example.org:8080/a@b"),
        (
            format!("aws_secret_access_key = {aws}"),
            "aws_secret_access_key = [redacted:aws-secret-key]",
        ),
        (
            format!("\"SecretAccessKey\": \"{aws}\""),
            "\"SecretAccessKey\": \"[redacted:aws-secret-key]\"",
        ),
    ];
    for (input, expected) in table {
        assert_eq!(text(&Redactor::none(), &input), expected);
    }
}

#[test]
fn values_of_the_environment_are_found_in_all_their_forms() {
    let value = "p@ss/wörd \"1\"";
    let redactor = variables(&[("DB_PASSWORD", value)]);
    let encoded = |text: &str| text.to_owned();
    let forms = [
        encoded(value),
        encoded("cEBzcy93w7ZyZCAiMSI="),
        encoded("cEBzcy93w7ZyZCAiMSI"),
        encoded("p%40ss%2Fw%C3%B6rd%20%221%22"),
        encoded("p%40ss%2fw%c3%b6rd%20%221%22"),
        encoded("p%40ss%2Fw%C3%B6rd+%221%22"),
        encoded("704073732f77c3b6726420223122"),
        encoded("704073732F77C3B6726420223122"),
        encoded("p@ss/wörd \\\"1\\\""),
        encoded("p@ss/w\\u00f6rd \\\"1\\\""),
        encoded("p@ss\\/wörd \\\"1\\\""),
    ];
    for form in forms {
        let found = redactor.redact_text(&format!("<{form}>"));
        let expected = ("<[redacted:environment]>".to_owned(), Counts::from([("environment", 1)]));
        assert_eq!(found, expected, "{form}");
    }
    // As part of a longer text that was encoded as a whole, at each of the three places.
    use base64::Engine as _;
    for user in ["a", "an", "ana"] {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{value}!"));
        let found = text(&redactor, &format!("x {pair} y"));
        assert!(found.contains("[redacted:environment]"), "{found}");
    }
}

#[test]
fn the_beginning_of_a_value_at_the_very_end_is_replaced() {
    let redactor = variables(&[("API_TOKEN", "correct-horse-battery")]);
    assert_eq!(text(&redactor, "it is correct-horse-b"), "it is [redacted:environment]");
    assert_eq!(text(&redactor, "it is correct-horse-b, no"), "it is correct-horse-b, no");
    assert_eq!(text(&redactor, "it is corre"), "it is corre");
    let half = &"636f72726563742d686f727365"[..20];
    assert_eq!(text(&redactor, half), "[redacted:environment]");
}

#[test]
fn values_that_say_nothing_are_not_looked_for() {
    let directory = std::env::temp_dir();
    let directory = directory.to_str().unwrap();
    let redactor = variables(&[
        ("A_TOKEN", "true"),
        ("B_TOKEN", "enabled"),
        ("C_TOKEN", "1234567"),
        ("D_TOKEN", "aaaaaaaaaa"),
        ("E_TOKEN", directory),
        ("PATH", "plain-value"),
        ("SESSION", "01kggtstag494h28jgxgpqnqc9"),
        ("BUILD_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
    ]);
    let input = format!(
        "true enabled 1234567 aaaaaaaaaa {directory} plain-value 01kggtstag494h28jgxgpqnqc9 \
         00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
    );
    assert_eq!(text(&redactor, &input), input);
    // A number of eight digits, a path that is not there, and a key that looks like a hash are.
    let hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let redactor =
        variables(&[("A_TOKEN", "12345678"), ("B_TOKEN", "/no/such/path"), ("API_KEY", hash)]);
    let marker = "[redacted:environment]";
    assert_eq!(text(&redactor, &format!("12345678 /no/such/path {hash}")), [marker; 3].join(" "));
}

#[test]
fn a_password_in_an_address_of_the_environment_is_found_alone() {
    let redactor = variables(&[("DATABASE_URL", "postgres://ana:hunter22x@db/x")]);
    assert_eq!(text(&redactor, "it is hunter22x"), "it is [redacted:environment]");
    assert_eq!(text(&redactor, "postgres is up"), "postgres is up");
}

#[test]
fn every_line_of_a_key_in_the_environment_is_found() {
    let value = "-----BEGIN KEY-----\nabcdefghijklmnop1\nqrstuvwxyz0123456\n-----END KEY-----\n";
    let redactor = variables(&[("DEPLOY_KEY", value)]);
    assert_eq!(text(&redactor, "  qrstuvwxyz0123456\r\n"), "  [redacted:environment]\r\n");
}

#[test]
fn what_is_ours_is_never_touched() {
    let ours = [
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "01kggtstag494h28jgxgpqnqc9",
        "2026-01-31T23:59:59.123Z",
        "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
        "AL0wQq0lMt5qfmSACIpLIFEpHL+Ew8g5ebm8WS6PV45m3mizdA4IDJoUBcn9/8zBzJTyo8IWkjnfhZjfobEnBA==",
    ];
    // Values that are parts of them.
    let redactor = variables(&[
        ("A_KEY", "aabbcc"),
        ("B_KEY", "gtstag"),
        ("C_KEY", "2026-01-31"),
        ("D_KEY", "XQJ8ZX9"),
        ("E_KEY", "WS6PV45m3m"),
        ("F_KEY", "ddeeff-and-more"),
    ]);
    for text in ours {
        for around in ["{}", "\"{}\"", "hash {} and", "{\"event_hash\":\"{}\"}", "sha256:{}"] {
            let input = around.replace("{}", text);
            let redacted = redactor.redact(input.as_bytes());
            assert_eq!((redacted.bytes.as_ref(), redacted.counts.len()), (input.as_bytes(), 0));
            assert!(matches!(redacted.bytes, Cow::Borrowed(_)));
        }
    }
    for text in &ours[..3] {
        for around in ["token={}", "{\"gate_token\":\"{}\"}", "Bearer {}", "https://a:{}@b"] {
            let input = around.replace("{}", text);
            assert_eq!(self::text(&redactor, &input), input);
        }
    }
    assert_eq!(text(&redactor, "aabbcc gtstag"), "[redacted:environment] [redacted:environment]");
}

#[test]
fn overlapping_secrets_become_one() {
    let redactor = variables(&[("A_KEY", "abcdefgh"), ("B_KEY", "efghijkl"), ("C_KEY", "cdefgh")]);
    let found = redactor.redact_text("xabcdefghijklx");
    assert_eq!(found, ("x[redacted:environment]x".to_owned(), Counts::from([("environment", 1)])));
    let found = redactor.redact_text("password=zzabcdefghzz");
    assert_eq!(found.0, "password=[redacted:environment]");
}

/// The name of a rule can itself be somebody's password.
#[test]
fn replacements_are_not_replaced() {
    let redactor =
        variables(&[("A_KEY", "environment"), ("B_KEY", "redacted"), ("C_KEY", "x[redac")]);
    let once = text(&redactor, "my environment, xx[redacted");
    assert_eq!(once, "my [redacted:environment], x[redacted:environment]");
    assert_eq!(redactor.redact_text(&once), (once.clone(), Counts::new()));
    // Only the names of rules make a replacement.
    assert_eq!(text(&Redactor::none(), "password=[redacted:by me]x"), "password=[redacted:by me]x");
}

#[test]
fn values_are_walked_with_their_names() {
    let redactor = variables(&[("A_KEY", "opensesame")]);
    let mut value = json!({
        "password": "hunter22",
        "pin": "1234",
        "token": "01kggtstag494h28jgxgpqnqc9",
        "opensesame": 1,
        "opensesame!": [{"text": "say opensesame", "n": 12_345_678, "none": null}],
        "note": "all is well",
    });
    let counts = redactor.redact_value(&mut value);
    let expected = json!({
        "password": "[redacted:assignment]",
        "pin": "1234",
        "token": "01kggtstag494h28jgxgpqnqc9",
        "[redacted:environment]": 1,
        "[redacted:environment]!": [{"text": "say [redacted:environment]", "n": 12_345_678, "none": null}],
        "note": "all is well",
    });
    assert_eq!(value, expected);
    assert_eq!(counts, Counts::from([("assignment", 1), ("environment", 3)]));
    assert_eq!(redactor.redact_value(&mut value), Counts::new());
    assert_eq!(value, expected);

    let mut twins = json!({"opensesame": 1, "b3BlbnNlc2FtZQ==": 2});
    redactor.redact_value(&mut twins);
    assert_eq!(twins, json!({"[redacted:environment]": 2, "[redacted:environment] 2": 1}));
}

#[test]
fn bytes_that_are_no_text_are_redacted_too() {
    let redactor = variables(&[("A_KEY", "opensesame")]);
    let redacted = redactor.redact(b"\xff\xfeopensesame\x00\x80");
    assert_eq!(redacted.bytes.as_ref(), b"\xff\xfe[redacted:environment]\x00\x80");
}

#[test]
fn a_redactor_tells_nobody_what_it_knows() {
    let redactor = variables(&[("A_KEY", "opensesame")]);
    assert_eq!(format!("{redactor:?}"), "Redactor { .. }");
}

/// The vector in `docs/formats/secrets.md`.
#[test]
fn a_binding_is_an_hmac_under_a_derived_key() {
    let key = [1; 32];
    let trace = "01kggtstag494h28jgxgpqnqc9";
    let bound = binding(&key, trace, b"curl -u ana:hunter22 https://example.org");
    let page = include_str!("../../../../docs/formats/secrets.md");
    assert!(page.contains(&bound.to_hex()), "{bound}");
    assert_ne!(bound, binding(&[2; 32], trace, b"curl -u ana:hunter22 https://example.org"));
    assert_ne!(
        bound,
        binding(&key, "01kggtsvsc4vywcde6ht4r3fd0", b"curl -u ana:hunter22 https://example.org")
    );
    assert_ne!(bound, binding(&key, trace, b"curl -u ana:hunter23 https://example.org"));
}

#[test]
fn every_rule_is_in_the_list_and_on_the_page() {
    let page = include_str!("../../../../docs/formats/secrets.md");
    for rule in RULES {
        assert!(page.contains(&format!("| `{rule}` |")), "{rule}");
    }
    for (rule, _) in tokens() {
        assert!(RULES.contains(&rule), "{rule}");
    }
}

/// Texts that would take a careless matcher forever.
#[test]
fn hostile_texts_are_redacted_in_reasonable_time() {
    let redactor = variables(&[("A_KEY", &"ab".repeat(200)), ("B_KEY", "aaaaaaab")]);
    let pieces = [
        "token=",
        "password=(",
        "sk-",
        "eyJ",
        "eyJaaaaa.",
        "://",
        "://a:",
        "authorization:",
        "bearer ",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "AKIA",
        "ghp_",
        "github_pat_",
        "a",
        "ab",
        "[",
        "[redacted:",
        "[redacted:jwt]",
        "--token ",
        "secret_",
        "\"secret\":\"",
    ];
    for piece in pieces {
        let text = piece.repeat(200_000 / piece.len());
        let _ = redactor.redact(text.as_bytes());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_redacted_once(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        values in proptest::collection::vec("[ -~é]{0,20}", 0..4),
    ) {
        check_once(&bytes, &values);
    }

    /// Texts made of what the rules look for, next to each other and in each other.
    #[test]
    fn pieces_of_secrets_are_redacted_once(
        pieces in proptest::collection::vec(0..48usize, 0..24),
        values in proptest::collection::vec("[a-c\\[\\]:redact=]{6,9}", 0..4),
    ) {
        let mut known: Vec<String> = tokens().into_iter().map(|(_, token)| token).collect();
        known.extend(values.iter().cloned());
        known.extend(
            [
                "password=", "token: ", "\"secret\":\"", "\"", " ", "\\n", "Bearer ", "://a:", "@", "=",
                "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "[redacted:jwt]", "abc",
                "[redacted:", "]", "authorization: ", "01kggtstag494h28jgxgpqnqc9", "12345678",
                "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "/", ".", "%20",
            ]
            .map(str::to_owned),
        );
        let text: String = pieces.iter().map(|at| &*known[at % known.len()]).collect();
        check_once(text.as_bytes(), &values);
    }

    #[test]
    fn a_value_of_the_environment_never_stays(
        before in "[ -~]{0,40}",
        after in "[ -~]{0,40}",
        value in "[!-~]{12,30}",
    ) {
        let redactor = variables(&[("A_TOKEN", &value)]);
        let redacted = text(&redactor, &format!("{before} {value} {after}"));
        prop_assert!(!redacted.contains(&value), "{redacted}");
    }
}

/// Redacting again finds nothing.
fn check_once(bytes: &[u8], values: &[String]) {
    let variables = values.iter().map(|value| ("A_TOKEN".into(), value.into()));
    let redactor = Redactor::new(variables);
    let once = redactor.redact(bytes);
    let twice = redactor.redact(&once.bytes);
    assert_eq!(twice.bytes, once.bytes, "{}", String::from_utf8_lossy(&once.bytes));
    assert_eq!(twice.counts, Counts::new());
}

#[test]
fn what_follows_an_option_that_tells_a_secret_is_one_in_a_list_of_words() {
    let mut command = json!([
        "server",
        "--password",
        "hunter2hunter2",
        "--port",
        "--api-key",
        "zq81zq81zq",
        "-v",
        "--token",
        "--verbose-mode",
        "--token-file",
        "/etc/hostname",
        ["--password", "hunter2hunter2"],
        "--token",
        7,
        "hunter2hunter2"
    ]);
    let counts = Redactor::none().redact_value(&mut command);
    let gone = "[redacted:assignment]";
    assert_eq!(
        command,
        json!([
            "server",
            "--password",
            gone,
            "--port",
            "--api-key",
            gone,
            "-v",
            "--token",
            "--verbose-mode",
            "--token-file",
            "/etc/hostname",
            ["--password", gone],
            "--token",
            7,
            "hunter2hunter2"
        ])
    );
    assert_eq!(counts, Counts::from([("assignment", 3)]));
}

#[test]
fn a_secret_that_is_written_with_escapes_is_found() {
    let token = ["hp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    for text in [
        format!(r#"{{"a":"\u0067{token}"}}"#),
        format!(r#"{{"a":"\u0067\u0068p_\u0030{}"}}"#, token.get(4..).unwrap()),
        format!(r#"{{"a":"{{\"b\":\"\\u0067{token}\"}}"}}"#),
    ] {
        let redacted = Redactor::none().redact(text.as_bytes());
        let told = String::from_utf8(redacted.bytes.into_owned()).unwrap();
        assert!(told.contains(r#"[redacted:github-token]"#) && !told.contains("CDEFG"), "{told}");
        assert_eq!(redacted.counts.len(), 1);
        assert!(Redactor::none().redact(told.as_bytes()).counts.is_empty());
    }
    let url = r#"{"u":"https:\/\/ana:hunter22\u0021@example.org\/x"}"#;
    let redacted = Redactor::none().redact(url.as_bytes());
    assert_eq!(
        &*redacted.bytes,
        br#"{"u":"https:\/\/ana:[redacted:url-password]@example.org\/x"}"#
    );
}
