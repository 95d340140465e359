//! Archives built to attack: each is refused for what it is, soon, and after little of it was read.

use std::time::{Duration, Instant};

use crate::archive::{gzip, tar};
use crate::table::{cases, good};
use crate::{answer, nothing_kept, verdict_on};

/// What a refusal may take: a second, and more in a build that is not optimised as the product is.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 8 } else { 1 });

/// Of these, more than the first thing that is wrong is told.
const OF_MANY: [&str; 3] = ["chains in a capsule", "trees of records", "deep actions"];

/// Places and checksums that depend on how long the good archive is.
fn plain(message: &str) -> String {
    let begins = [
        ("the tar header at byte ", " has bytes behind the end of a text", "HIDDEN"),
        ("the tar header at byte ", " is GNU's, not POSIX's", "GNU"),
        ("the tar header at byte ", " is in no dialect that is known", "MAGIC"),
        ("the tar header at byte ", " has a wrong checksum", "CHECKSUM"),
        ("data follows the end of the tar, at byte ", "", "AFTER"),
        ("a second gzip member follows the first one, at byte ", "", "SECOND"),
        ("bytes follow the gzip stream, from byte ", " on", "TRAILING"),
        ("the gzip checksum is ", "", "CRC"),
        ("the gzip length is ", "", "LENGTH"),
        ("the compressed bytes cannot be inflated after ", " bytes", "CORRUPT"),
        ("member `ppp", "`: the name has more than 255 bytes", "LONG"),
        ("member `cafe\u{301}` has the name of another", "", "COMPOSITION"),
        ("more than a record of zeros", "", "LONG END"),
    ];
    if message.ends_with("this is a bomb") {
        return "BOMB".to_owned();
    }
    if let Some(rest) = message.strip_prefix("the extended header at byte ") {
        let words = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return format!("the extended header at byte AT{words}");
    }
    let found =
        begins.iter().find(|(start, end, _)| message.starts_with(start) && message.ends_with(end));
    found.map_or_else(|| message.to_owned(), |(_, _, name)| (*name).to_owned())
}

#[test]
fn archives_built_to_attack_are_refused_for_what_they_are() {
    assert_eq!(answer(&gzip(&tar(&good())), &[]), (4, vec![]));
    let cases = cases();
    assert!(cases.len() >= 90, "{}", cases.len());
    for (name, file, expected) in cases {
        let start = Instant::now();
        let (verdict, read) = verdict_on(&file, &[], &nothing_kept());
        let taken = start.elapsed();
        let messages: Vec<_> =
            verdict.report.failures.iter().map(|failure| plain(&failure.message)).collect();
        // Where the place in the archive is told, the words for it are enough.
        let expected =
            if expected.starts_with("more than a record") { "LONG END" } else { expected };
        assert!(taken < TIME_MAX, "{name}: {taken:?}");
        match OF_MANY.contains(&name) {
            true => assert_eq!(messages.first().map(String::as_str), Some(expected), "{name}"),
            false => assert_eq!(messages, [expected], "{name}"),
        }
        // A bomb is known long before its end.
        let most = if name == "trees of records" || name == "leaves" { 2 << 20 } else { 1 << 20 };
        assert!(read <= most, "{name}: {read} bytes");
    }
}
