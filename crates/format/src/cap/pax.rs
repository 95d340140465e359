//! Extended headers, of which only the one is read that Python's `tarfile` writes for every file:
//! the fraction of a second of its time.

/// Bytes that an extended header may have.
pub(super) const EXTENDED_BYTES_MAX: u64 = 1_024;

/// Whether an extended header says nothing but a time.
pub(super) fn check(body: &[u8]) -> Result<(), String> {
    let mut rest = body;
    while !rest.is_empty() {
        let (record, behind) = record(rest).ok_or("cannot be read")?;
        let (key, value) = record.split_once('=').ok_or("cannot be read")?;
        if key != "mtime" {
            return Err(format!("sets `{key}`"));
        }
        let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b'-';
        if value.is_empty() || value.len() > 32 || !value.bytes().all(plain) {
            return Err("has a time that is no number".to_owned());
        }
        rest = behind;
    }
    Ok(())
}

/// A record is its own length in decimal, a blank, a key, `=`, a value and a line break.
fn record(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let digits = bytes.iter().position(|&byte| byte == b' ')?;
    let length = std::str::from_utf8(bytes.get(..digits)?).ok()?;
    if digits > 4 || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (record, rest) = bytes.split_at_checked(length.parse().ok()?)?;
    let record = std::str::from_utf8(record.get(digits + 1..)?).ok()?;
    Some((record.strip_suffix('\n')?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_may_be_said_of_a_file() {
        assert_eq!(check(b""), Ok(()));
        assert_eq!(check(b"27 mtime=1794766928.8986742\n"), Err("cannot be read".to_owned()));
        assert_eq!(check(b"29 mtime=1794766928.89867425\n"), Ok(()));
        assert_eq!(check(b"14 path=../x1\n"), Err("sets `path`".to_owned()));
        assert_eq!(check(b"11 size=99\n"), Err("sets `size`".to_owned()));
        assert_eq!(check(b"11 mtime=x\n"), Err("has a time that is no number".to_owned()));
        assert_eq!(check(b"9 mtime=\n"), Err("has a time that is no number".to_owned()));
        for broken in [&b"0 \n"[..], b"x", b"99999999999 a=b\n", b"8 mtime\n", b"7 a=\xff\xfe\n"] {
            assert_eq!(check(broken), Err("cannot be read".to_owned()), "{broken:?}");
        }
    }
}
