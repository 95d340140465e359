//! What a program in the sandbox cannot do: read the keys, touch the store, write elsewhere, reach the
//! network or other processes.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use countersign_runtime::sandbox::{Concealment, Level, NetworkReach};
use countersign_runtime::tools::Toolbox;

use super::place::{Place, SECRET, at_each_level, exec, isolation, names, run, shell, text};

#[test]
fn keys_cannot_be_read() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        let read = run(&toolbox, &exec(["cat", place.key.to_str().unwrap()]));
        let (status, stdout, stderr) = text(&read);
        match isolation(&toolbox).keys {
            Concealment::Open => assert_eq!((status, stdout.as_str()), (Some(0), SECRET)),
            _ => {
                assert_eq!((status, stdout.as_str()), (Some(1), ""));
                assert!(stderr.starts_with("cat: "), "{stderr}");
            }
        }
    });
}

#[test]
fn the_store_can_neither_be_read_nor_changed() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        if isolation(&toolbox).store == Concealment::Open {
            assert_eq!(isolation(&toolbox).level, Level::None);
            return;
        }
        for script in [
            "cat .countersign/log/events.jsonl",
            "echo forged >> .countersign/log/events.jsonl",
            "echo forged > .countersign/forged",
            ": > .countersign/log/events.jsonl",
            "truncate -s 0 .countersign/log/events.jsonl",
            "rm .countersign/log/events.jsonl",
            "rm -r .countersign",
            "mv .countersign gone",
            "mkdir .countersign/more",
            "ln .countersign/log/events.jsonl src/copy",
            "ln -s ../.countersign src/link && cat src/link/log/events.jsonl",
            "chmod 777 .countersign/log/events.jsonl",
            "umount .countersign && cat .countersign/log/events.jsonl",
            "mount -t tmpfs none .countersign",
            // A namespace of its own, in which it may mount what it likes.
            "python3 -c 'import ctypes; c = ctypes.CDLL(None); c.unshare(0x10020000); \
             c.umount2(b\".countersign\", 2); c.umount2(b\".\", 2); \
             print(open(\".countersign/log/events.jsonl\").read())'",
        ] {
            let (status, stdout, stderr) = text(&run(&toolbox, &shell(script)));
            // With Landlock alone modes can be changed, which lets nobody in.
            let changed_mode = script.starts_with("chmod") && status == Some(0);
            assert!(changed_mode || status.unwrap() != 0, "{script}: {stdout}{stderr}");
            assert!(changed_mode || !stderr.is_empty(), "{script}");
            assert_eq!(stdout, "", "{script}");
            place.assert_untouched();
        }
    });
}

#[test]
fn a_store_deeper_in_the_workspace_cannot_be_moved_away() {
    let place = Place::new();
    let store = place.root.join("a/b/store");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("x"), SECRET).unwrap();
    let mut setting = place.setting();
    setting.hidden.push(store.clone());
    let toolbox = Toolbox::new(setting).unwrap();
    if isolation(&toolbox).level == Level::None {
        return;
    }
    for script in ["mv a away", "mv a/b away", "mv a/b/store away", "cat a/b/store/x"] {
        let (status, stdout, _) = text(&run(&toolbox, &shell(script)));
        assert_ne!(status, Some(0), "{script}");
        assert_eq!(stdout, "");
    }
    assert_eq!(fs::read_to_string(store.join("x")).unwrap(), SECRET);
}

#[test]
fn nothing_can_be_written_outside_the_workspace() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        if isolation(&toolbox).level == Level::None {
            assert!(!isolation(&toolbox).missing.is_empty());
            return;
        }
        let outside = place.outside.display();
        for script in [
            format!("touch {outside}/new"),
            format!("echo forged > {outside}/kept"),
            format!("echo forged >> {outside}/kept"),
            format!("truncate -s 0 {outside}/kept"),
            format!("python3 -c 'import os; os.truncate(\"{outside}/kept\", 0)'"),
            format!("rm {outside}/kept"),
            format!("mkdir {outside}/new"),
            format!("mv {outside}/kept src/stolen"),
            format!("ln -s {outside} src/link && touch src/link/new"),
            format!("ln src/main {outside}/new"),
            "touch /etc/countersign-test".to_owned(),
            "echo 0 > /proc/sys/kernel/core_pattern".to_owned(),
            "mknod src/disk b 254 0".to_owned(),
        ] {
            let (status, stdout, stderr) = text(&run(&toolbox, &shell(&script)));
            assert!(status.unwrap() > 0, "{script}: {stdout}{stderr}");
            assert!(!stderr.is_empty(), "{script}");
            place.assert_untouched();
        }
        assert!(!fs::exists("/etc/countersign-test").unwrap());
        let changed = run(&toolbox, &shell(&format!("chmod 700 {outside}/kept")));
        // Landlock knows nothing of modes.
        assert_eq!(changed.exit_status() == Some(0), isolation(&toolbox).level == Level::Files);
    });
}

#[test]
fn the_workspace_and_what_is_granted_can_be_written() {
    at_each_level(|| {
        let place = Place::new();
        let cache = place.outside.join("cache");
        fs::create_dir(&cache).unwrap();
        let mut setting = place.setting();
        setting.write.push(cache.clone());
        let toolbox = Toolbox::new(setting).unwrap();
        let script = format!(
            "set -e; echo new > src/new; mv src/new src/moved; rm src/main; mkdir src/d; \
             mv src/moved src/d/moved; ln -s d src/link; mkfifo src/pipe; chmod 700 src/d; \
             echo cached > {}/x; echo temporary > $TMPDIR/x; cat $TMPDIR/x; echo > /dev/null",
            cache.display()
        );
        let script = if isolation(&toolbox).level == Level::None {
            script.replace("$TMPDIR", "src")
        } else {
            script
        };
        assert_eq!(
            text(&run(&toolbox, &shell(&script))),
            (Some(0), "temporary\n".to_owned(), String::new())
        );
        assert_eq!(fs::read_to_string(place.root.join("src/d/moved")).unwrap(), "new\n");
        assert_eq!(fs::read_to_string(cache.join("x")).unwrap(), "cached\n");
        let made = run(&toolbox, &shell("echo top > top"));
        if isolation(&toolbox).level == Level::Files {
            // The price of a store that only Landlock protects, and it is said.
            let said =
                format!("nothing can be made or removed directly in `{}`", place.root.display());
            assert!(isolation(&toolbox).missing.contains(&said));
            assert_ne!(made.exit_status(), Some(0));
        } else {
            assert_eq!(made.exit_status(), Some(0));
            assert_eq!(fs::read_to_string(place.root.join("top")).unwrap(), "top\n");
        }
    });
}

#[test]
fn a_search_through_the_workspace_finds_no_store_and_does_not_fail() {
    let place = Place::new();
    let toolbox = place.toolbox();
    if isolation(&toolbox).level == Level::Full {
        let found = run(&toolbox, &shell("grep -r . . && ls -A .countersign"));
        assert_eq!(text(&found), (Some(0), "./src/main:main\n".to_owned(), String::new()));
    }
}

fn connect(listener: &TcpListener) -> String {
    format!(
        "import socket; socket.create_connection(('127.0.0.1', {}), 5).send(b'x')",
        listener.local_addr().unwrap().port()
    )
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

#[test]
fn no_tcp_connection_is_made() {
    at_each_level(|| {
        let place = Place::new();
        let listener = listener();
        let toolbox = place.toolbox();
        let outcome = run(&toolbox, &exec(["python3", "-c", &connect(&listener)]));
        let (status, _, stderr) = text(&outcome);
        let accepted = listener.accept();
        match isolation(&toolbox).network {
            NetworkReach::Private | NetworkReach::TcpBlocked => {
                assert_eq!(status, Some(1));
                assert!(stderr.contains("Error"), "{stderr}");
                assert_eq!(accepted.unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            reach => {
                assert_eq!((reach, status), (NetworkReach::Open, Some(0)), "{stderr}");
                accepted.unwrap();
            }
        }
    });
}

#[test]
fn no_datagram_gets_out_of_a_full_sandbox() {
    at_each_level(|| {
        let place = Place::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        let script = format!(
            "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', {port}))"
        );
        let toolbox = place.toolbox();
        let outcome = run(&toolbox, &exec(["python3", "-c", &script]));
        let received = socket.recv(&mut [0; 8]);
        match isolation(&toolbox).network {
            NetworkReach::Private => {
                assert_eq!(received.unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            // It is recorded that no more than TCP is blocked.
            _ => assert_eq!((outcome.exit_status(), received.unwrap()), (Some(0), 1)),
        }
    });
}

#[test]
fn a_granted_network_is_there() {
    at_each_level(|| {
        let place = Place::new();
        let listener = listener();
        let mut setting = place.setting();
        setting.network = true;
        let toolbox = Toolbox::new(setting).unwrap();
        assert_eq!(isolation(&toolbox).network, NetworkReach::Granted);
        let outcome = run(&toolbox, &exec(["python3", "-c", &connect(&listener)]));
        assert_eq!(text(&outcome), (Some(0), String::new(), String::new()));
        listener.accept().unwrap();
    });
}

#[test]
fn a_program_can_talk_to_itself_over_its_own_loopback() {
    let place = Place::new();
    let toolbox = place.toolbox();
    if isolation(&toolbox).network == NetworkReach::Private {
        let script = "import socket\n\
                      s = socket.create_server(('127.0.0.1', 0))\n\
                      c = socket.create_connection(s.getsockname())\n\
                      c.send(b'heard'); c.close()\n\
                      print(s.accept()[0].recv(9).decode())";
        let outcome = run(&toolbox, &exec(["python3", "-c", script]));
        assert_eq!(text(&outcome), (Some(0), "heard\n".to_owned(), String::new()));
    }
}

#[test]
fn sockets_of_services_are_out_of_reach_of_a_full_sandbox() {
    let place = Place::new();
    let toolbox = place.toolbox();
    if isolation(&toolbox).level != Level::Full {
        return;
    }
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    for directory in [temporary.path(), &place.outside] {
        let socket = directory.join("service");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
        let connect =
            format!("import socket; socket.socket(socket.AF_UNIX).connect('{}')", socket.display());
        let (status, _, stderr) = text(&run(&toolbox, &exec(["python3", "-c", &connect])));
        assert_eq!(status, Some(1));
        let said = ["FileNotFoundError", "ConnectionRefusedError"];
        assert!(said.iter().any(|said| stderr.contains(said)), "{stderr}");
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_full_sandbox_shows_no_other_process_no_disk_and_no_old_temporary_file() {
    let place = Place::new();
    let toolbox = place.toolbox();
    if isolation(&toolbox).level != Level::Full {
        return;
    }
    let script = "import os\n\
                  print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid())\n\
                  print(sorted(os.listdir('/dev')))\n\
                  print(sorted(os.listdir('/tmp')), sorted(os.listdir('/run')))\n\
                  print(sorted(int(f) for f in os.listdir('/proc/self/fd')))";
    let outcome = run(&toolbox, &exec(["python3", "-c", script]));
    let links = fs::read_dir("/run")
        .map_or(0, |entries| entries.flatten().filter(|entry| entry.path().is_symlink()).count());
    let (status, stdout, stderr) = text(&outcome);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let mut lines = stdout.lines();
    let processes = lines.next();
    // Where the system masks its `/proc`, there is no other, and that is recorded.
    if isolation(&toolbox).missing.is_empty() {
        assert_eq!(processes, Some("[1, 2] 2"));
    }
    assert_eq!(
        lines.next(),
        Some(
            "['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', \
             'tty', 'urandom', 'zero']"
        )
    );
    if links == 0 {
        assert_eq!(lines.next(), Some("[] []"));
    } else {
        lines.next();
    }
    // The last is the listing itself.
    assert_eq!(lines.next(), Some("[0, 1, 2, 3]"));
}

#[test]
fn a_tool_cannot_signal_or_look_into_the_recorder() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        if isolation(&toolbox).level == Level::None {
            return;
        }
        let recorder = std::process::id();
        let key = place.key.display();
        for script in [
            format!("kill -0 {recorder}"),
            format!("cat /proc/{recorder}/environ"),
            format!("cat /proc/{recorder}/root{key}"),
            format!("cat /proc/1/root{key}"),
            format!("for p in /proc/[0-9]*; do cat $p/root{key} && exit 0; done; exit 1"),
        ] {
            let (status, stdout, stderr) = text(&run(&toolbox, &shell(&script)));
            assert_ne!(status, Some(0), "{script}: {stderr}");
            assert_eq!(stdout, "", "{script}");
        }
    });
}

#[test]
fn root_in_a_sandbox_is_not_what_it_was() {
    let place = Place::new();
    if !rustix::process::geteuid().is_root() || isolation(&place.toolbox()).level == Level::None {
        return;
    }
    let status = place.sh("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status");
    let expected = "CapEff:\t00000000000004fb\nCapBnd:\t00000000000004fb\nNoNewPrivs:\t1\n";
    assert_eq!(text(&status), (Some(0), expected.to_owned(), String::new()));
    // Files of others are still root's to work on.
    let theirs = place.root.join("src/theirs");
    fs::write(&theirs, "").unwrap();
    std::os::unix::fs::chown(&theirs, Some(1234), Some(1234)).unwrap();
    fs::set_permissions(&theirs, PermissionsExt::from_mode(0o600)).unwrap();
    let script = "echo mine >> src/theirs && stat -c %u src/theirs && chown 77 src/theirs";
    assert_eq!(text(&place.sh(script)), (Some(0), "1234\n".to_owned(), String::new()));
}

#[test]
fn a_workspace_among_temporary_files_is_the_only_one_of_them_that_is_seen() {
    let place = Place::below(std::path::Path::new("/tmp"));
    let toolbox = place.toolbox();
    if isolation(&toolbox).level != Level::Full {
        return;
    }
    let seen = format!(
        "ls {}; cat src/main; echo new > src/new; ls -A .countersign",
        place.root.parent().unwrap().display()
    );
    let outcome = run(&toolbox, &shell(&seen));
    assert_eq!(text(&outcome), (Some(0), "work\nmain\n".to_owned(), String::new()));
    assert_eq!(fs::read_to_string(place.root.join("src/new")).unwrap(), "new\n");
    place.assert_untouched();
}

#[test]
fn temporary_files_are_gone_after_the_call() {
    at_each_level(|| {
        let place = Place::new();
        let scratch = place.outside.join("scratch");
        fs::create_dir(&scratch).unwrap();
        let mut setting = place.setting();
        setting.environment.insert("TMPDIR".into(), scratch.clone().into());
        let toolbox = Toolbox::new(setting).unwrap();
        let level = isolation(&toolbox).level;
        let outcome = run(&toolbox, &shell("echo x > $TMPDIR/x && cat $TMPDIR/x"));
        assert_eq!(text(&outcome), (Some(0), "x\n".to_owned(), String::new()));
        let left = if level == Level::None { vec!["x".to_owned()] } else { Vec::new() };
        assert_eq!(names(&scratch), left);
    });
}
