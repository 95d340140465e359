//! What is mounted a second time is hidden there too.

use std::fs;
use std::path::Path;
use std::process::Command;

use countersign_runtime::sandbox::Concealment;

use super::place::{Place, SECRET, at_each_level, isolation, run, shell, text};

/// Names the place of the test that runs among the mounts of the other.
const PLACE: &str = "COUNTERSIGN_TEST_PLACE";
/// How the process that mounts ends where it may not.
const MAY_NOT: i32 = 77;

/// Enters namespaces, mounts what the arguments say, and becomes what they name.
const MOUNTER: &str = "import ctypes, os, sys\n\
    c = ctypes.CDLL(None)\n\
    uid, gid = os.getuid(), os.getgid()\n\
    def put(name, text):\n    \
        with open('/proc/self/' + name, 'w') as f: f.write(text)\n\
    def mount(source, place, flags):\n    \
        if c.mount(source and source.encode(), place.encode(), None, flags, None): sys.exit(77)\n\
    if c.unshare(0x10020000): sys.exit(77)\n\
    put('setgroups', 'deny'); put('gid_map', f'{gid} {gid} 1'); put('uid_map', f'{uid} {uid} 1')\n\
    mount(None, '/', 0x44000)\n\
    mount(sys.argv[1], sys.argv[2], 0x1000)\n\
    mount(sys.argv[3], sys.argv[4], 0x5000)\n\
    os.execv(sys.argv[5], sys.argv[5:])";

/// Not a test by itself: the one that runs where something is mounted twice.
#[test]
fn tools_see_no_alias() {
    let Some(top) = std::env::var_os(PLACE) else { return };
    let place = Place::at(Path::new(&top));
    let keys = place.outside.join("keys/executor.key");
    let ledger = place.outside.join("all/work/.countersign/log/events.jsonl");
    for file in [&keys, &ledger] {
        assert_eq!(fs::read_to_string(file).unwrap(), SECRET);
    }
    at_each_level(|| {
        let toolbox = place.toolbox();
        for file in [&keys, &ledger, &place.key, &place.ledger] {
            let read = run(&toolbox, &shell(&format!("cat {}", file.display())));
            let (status, stdout, _) = text(&read);
            match isolation(&toolbox).keys {
                Concealment::Open => assert_eq!((status, stdout.as_str()), (Some(0), SECRET)),
                _ => assert_eq!((status, stdout.as_str()), (Some(1), "")),
            }
        }
        let written = run(&toolbox, &shell("echo new > src/new && cat src/new"));
        assert_eq!(text(&written), (Some(0), "new\n".to_owned(), String::new()));
    });
}

#[test]
fn what_is_mounted_a_second_time_is_hidden_there_too() {
    let place = Place::new();
    for directory in ["keys", "all"] {
        fs::create_dir(place.outside.join(directory)).unwrap();
    }
    let output = Command::new("/usr/bin/python3")
        .args(["-c", MOUNTER])
        .args([place.top.join("config/keys"), place.outside.join("keys")])
        .args([&place.top, &place.outside.join("all")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::aliases::tools_see_no_alias"])
        .env(PLACE, &place.top)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MAY_NOT) {
        // Whoever may not mount has no aliases but those of the system.
        assert!(!isolation(&place.toolbox()).missing.is_empty());
        return;
    }
    assert!(output.status.success(), "{said}{complaint}");
    assert!(said.contains("1 passed"), "{said}");
}
