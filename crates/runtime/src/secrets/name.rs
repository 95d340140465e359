//! Names that tell a secret: of environment variables, of members, of settings in texts.

/// Parts of names of variables that hold secrets.
const SECRET_PARTS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "BEARER",
    "COOKIE",
    "COOKIES",
    "CRED",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "DSN",
    "JWT",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PAT",
    "PRIVATE",
    "PWD",
    "SECRET",
    "SECRETS",
    "SESSION",
    "TOKEN",
    "TOKENS",
    "WEBHOOK",
];
/// Ends of such parts, where words are written together.
const SECRET_ENDS: &[&str] =
    &["ACCESSKEY", "APIKEY", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATEKEY", "SECRET", "TOKEN"];
/// Parts that leave no doubt.
const PLAIN_PARTS: &[&str] = &[
    "API",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE",
    "SECRET",
    "SECRETS",
    "TOKEN",
];
/// Last parts of names that tell something about a secret, and not the secret.
const ABOUT: &[&str] = &[
    "ADDRESS",
    "ALGORITHM",
    "ATTEMPTS",
    "AUDIENCE",
    "BUS",
    "CLASS",
    "COUNT",
    "DESKTOP",
    "DIR",
    "DIRECTORY",
    "DOMAIN",
    "DRIVER",
    "ENABLED",
    "ENDPOINT",
    "EXPIRES",
    "EXPIRY",
    "FILE",
    "FORMAT",
    "HOST",
    "ISSUER",
    "KIND",
    "LABEL",
    "LENGTH",
    "LIFETIME",
    "LIMIT",
    "MANAGER",
    "MAX",
    "METHOD",
    "MIN",
    "MODE",
    "NAME",
    "PATH",
    "PORT",
    "PROVIDER",
    "REGION",
    "REQUIRED",
    "ROUNDS",
    "SIZE",
    "SOCK",
    "SOCKET",
    "STATUS",
    "STORE",
    "TIMEOUT",
    "TTL",
    "TYPE",
    "URI",
    "URL",
    "USED",
    "VERSION",
];
/// Variables of the desktop and the shell that only sound so, and public keys.
const HARMLESS: &[&str] =
    &["DESKTOP_SESSION", "GDMSESSION", "GPG_KEY", "OLDPWD", "PWD", "XDG_SESSION_ID"];
/// Our own variables, of which only a passphrase is a secret.
const OURS: &str = "COUNTERSIGN_";

/// Whether a variable of this name is taken to hold a secret.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts: Vec<&str> = parts(&name).collect();
    let about =
        parts.last().is_some_and(|last| ABOUT.contains(last) && !parts.contains(&"WEBHOOK"))
            || name.ends_with("KEY_ID");
    let secret = |part: &&str| {
        SECRET_PARTS.contains(part) || SECRET_ENDS.iter().any(|end| part.ends_with(end))
    };
    if HARMLESS.contains(&&*name) || about {
        return false;
    }
    if name.starts_with(OURS) {
        return parts.contains(&"PASSPHRASE");
    }
    parts.iter().any(secret)
}

/// Whether there is no doubt about a variable of this name, so that even what looks like a hash is
/// its secret.
pub(super) fn is_plainly_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    parts(&name).any(|part| {
        PLAIN_PARTS.contains(&part) || SECRET_ENDS.iter().any(|end| part.ends_with(end))
    })
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty())
}

/// Words that tell a setting in a text, or a member, in lower case.
pub(super) const SETTINGS: &[&str] = &[
    "access-key",
    "access_key",
    "accesskey",
    "account_key",
    "accountkey",
    "api-key",
    "api_key",
    "apikey",
    "auth_key",
    "client_key",
    "credential",
    "encryption_key",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "privatekey",
    "secret",
    "signing_key",
    "token",
];

/// Where the name goes on that `word` ends in; `None` if it is another word or tells something else.
pub(super) fn setting_ends(text: &[u8], word_end: usize) -> Option<usize> {
    const REST_MAX: usize = 40;
    let rest = text.get(word_end..).unwrap_or_default();
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_' || **byte == b'-';
    let length = rest.iter().take(REST_MAX + 1).take_while(is_part).count();
    let rest = rest.get(..length).filter(|_| length <= REST_MAX)?;
    let last = text.get(word_end.checked_sub(1)?)?;
    // `tokens` and `tokenizer` are other words; `tokenValue` and `TOKEN_VALUE` are not.
    let goes_on = |next: &u8| {
        next.is_ascii_lowercase() || next.is_ascii_uppercase() && last.is_ascii_uppercase()
    };
    if rest.first().is_some_and(goes_on) {
        return None;
    }
    let rest = String::from_utf8_lossy(rest);
    let last = rest.rsplit(['_', '-']).next().unwrap_or_default().to_ascii_uppercase();
    (!ABOUT.contains(&&*last) && last != "ID").then_some(word_end + length)
}

/// Whether a member of this name is taken to hold a secret.
pub(super) fn is_secret_member(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    SETTINGS.iter().any(|word| {
        let mut places = lower.match_indices(word);
        places.any(|(at, _)| setting_ends(name.as_bytes(), at + word.len()) == Some(name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_by_the_parts_of_their_names() {
        let secret = [
            "API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "npm_config__authToken",
            "SESSION_ID",
            "SENTRY_DSN",
            "SLACK_WEBHOOK_URL",
            "COOKIE",
            "COUNTERSIGN_PASSPHRASE",
            "APIKEY",
            "MYSECRET",
            "HTTP_AUTH",
        ];
        let plain = [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "KEYBOARD",
            "MONKEY",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "SSH_AUTH_SOCK",
            "XDG_SESSION_TYPE",
            "DBUS_SESSION_BUS_ADDRESS",
            "TOKEN_TYPE",
            "PASSWORD_FILE",
            "AWS_ACCESS_KEY_ID",
            "COUNTERSIGN_CONFIG",
            "GPG_KEY",
            "COMPASS",
        ];
        for name in secret {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in plain {
            assert!(!is_secret_variable(name), "{name}");
        }
    }

    #[test]
    fn members_are_told_by_whole_words() {
        for name in
            ["password", "clientSecret", "api_key", "X-Api-Key", "authToken", "DB_PASSWORD_PROD"]
        {
            assert!(is_secret_member(name), "{name}");
        }
        for name in [
            "tokens",
            "tokenizer",
            "secretary",
            "token_type",
            "public_key",
            "key_id",
            "password_file",
        ] {
            assert!(!is_secret_member(name), "{name}");
        }
    }
}
