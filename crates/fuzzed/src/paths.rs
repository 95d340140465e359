//! Paths: one that an agent may write stays below the root, and no other spelling gets past a guard.

use std::path::{Component, Path};

use countersign_format::path::{
    PROTECTED, PathFault, WorkspacePath, check_component, check_readable,
};
use countersign_format::risk::RiskClass;
use countersign_format::text::to_nfc;
use countersign_gate::guard::{Proposed, Strictness, judge};
use countersign_gate::{Decision, relative_to, tidied};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "paths",
    holds: |data| holds(data, WorkspacePath::parse),
    twin: |data| {
        holds(data, |path| match WorkspacePath::parse(path) {
            Err(PathFault::DotComponent(_) | PathFault::Protected(_)) => {
                WorkspacePath::parse(&path.replace("..", "__").replace(".g", "_g"))
            }
            parsed => parsed,
        });
    },
    tries: 15_000,
    words: "/·//·.·..·../·./·~·\\·:·://·C:· ·.git·.GIT·git~1·.git ·::$INDEX_ALLOCATION·\
        .countersign·\u{200d}·\u{ff0e}·\u{130}·\u{17f}·\u{212a}·CON·nul.txt·com\u{b9}·\
        e\u{301}·\u{e9}·i\u{307}·.env·id_rsa·.ssh/·a·\u{0}·\n·.mcp.json",
};

fn holds(data: &[u8], parse: fn(&str) -> Result<WorkspacePath, PathFault>) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if parse(text).is_ok() {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        assert!(Path::new(text).components().all(plain), "it leads elsewhere: {text:?}");
        for part in text.split('/') {
            let alone = check_component(part);
            // A home directory stands at the beginning of a path only.
            assert!(matches!(alone, Ok(()) | Err(PathFault::Home)), "a component: {alone:?}");
            let folded = part.to_ascii_lowercase();
            assert!(!PROTECTED.contains(&&*folded), "a protected name: {part:?}");
        }
        assert_eq!(check_readable(text), Ok(()), "what may be written may be read");
        assert_eq!(tidied(text), text.trim(), "it is tidy");
        let below = format!("/a/b/{text}");
        assert_eq!(relative_to("/a/b/", &below), text, "below a root");
        one_file_in_any_case(text);
    }
    // Blanks around a whole path are nobody's wish; around a component they belong to its name.
    if text.split('/').all(|part| part.trim() == part) {
        let tidy = tidied(text);
        assert_eq!(tidied(&tidy), tidy, "tidied twice it is another");
    }
    spellings_are_judged_alike(text);
}

fn one_file_in_any_case(text: &str) {
    let key = |text: &str| WorkspacePath::parse(text).map(|path| path.collision_key());
    let own = key(text);
    for other in [text.to_ascii_uppercase(), text.to_ascii_lowercase()] {
        // A capital letter may melt into one with the mark behind it where the small one does not.
        assert_eq!(key(&to_nfc(&other)), own, "the case of a letter makes another file");
    }
}

/// What a guard says of a path does not depend on how it is written.
fn spellings_are_judged_alike(text: &str) {
    if text.is_empty() || text.starts_with(['/', '~', '\\']) || text.contains(':') {
        return;
    }
    let own = written_to(text);
    for other in [format!("./{text}"), format!("x/../{text}"), text.replace('/', "//")] {
        assert_eq!(written_to(&other), own, "{other:?} is judged otherwise than {text:?}");
    }
    if text.is_ascii() {
        assert_eq!(written_to(&text.to_ascii_uppercase()), own, "{text:?} in capitals");
    }
}

fn written_to(path: &str) -> Decision {
    let paths = [path.to_owned()];
    let action = Proposed {
        tool: "write",
        argv: &[],
        shell: None,
        paths: &paths,
        content: Some("text"),
        stdin: None,
        env: None,
        risk: RiskClass::Low,
        network_granted: false,
    };
    judge(&action, Strictness::Default).decision()
}
