//! How calls end: by themselves, by signals, by limits, by being stopped; and that nothing is left.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use countersign_runtime::sandbox::{Level, Stop};
use countersign_runtime::tools::{Ended, ToolCall, Toolbox};

use super::place::{Place, at_each_level, exec, isolation, run, shell, text};

/// Longer than any call here takes, shorter than what it would wait for.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn every_exit_status_is_the_programs_own() {
    let place = Place::new();
    let toolbox = place.toolbox();
    thread::scope(|scope| {
        for part in 0..4 {
            let toolbox = &toolbox;
            scope.spawn(move || {
                for status in (part * 64)..(part + 1) * 64 {
                    let outcome = run(toolbox, &shell(&format!("exit {status}")));
                    assert_eq!(outcome.ended, Ended::Exited(status));
                }
            });
        }
    });
}

#[test]
fn a_signal_is_told_from_a_status() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        for signal in [1, 6, 9, 11, 15] {
            let outcome = run(&toolbox, &shell(&format!("kill -{signal} $$")));
            assert_eq!(outcome.ended, Ended::Signalled(signal));
            assert_eq!(outcome.exit_status(), Some(-signal));
        }
        let shown = run(&toolbox, &shell("sh -c 'kill -9 $$'; echo $?"));
        assert_eq!(text(&shown).1, "137\n");
    });
}

#[test]
fn much_output_is_counted_and_not_kept() {
    at_each_level(|| {
        let place = Place::new();
        let mut setting = place.setting();
        setting.output_bytes = 1000;
        let toolbox = Toolbox::new(setting).unwrap();
        let script = "import sys\n\
                      for _ in range(50):\n    \
                          sys.stdout.write('o' * 1000000)\n    \
                          sys.stderr.write('e' * 1000000)\n\
                      sys.exit(7)";
        let outcome = run(&toolbox, &exec(["python3", "-c", script]));
        assert_eq!(outcome.ended, Ended::Exited(7));
        assert_eq!(outcome.stdout.bytes, [b'o'; 1000]);
        assert_eq!(outcome.stderr.bytes, [b'e'; 1000]);
        assert_eq!((outcome.stdout.dropped, outcome.stderr.dropped), (49_999_000, 49_999_000));
    });
}

#[test]
fn a_program_that_does_not_end_in_time_is_ended() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        let mut setting = place.setting();
        setting.tool_seconds = 1;
        let toolbox = Toolbox::new(setting).unwrap();
        // It ignores the polite request, and so does its child.
        let script = "trap '' TERM; exec 3> src/held; echo begun; sleep 1000 & sleep 1000";
        let began = Instant::now();
        let outcome = run(&toolbox, &shell(script));
        assert!(began.elapsed() < SOON);
        assert_eq!(outcome.ended, Ended::TimedOut);
        assert_eq!(outcome.exit_status(), None);
        assert_eq!(outcome.reason(), "no end within 1 s");
        assert_eq!(outcome.stdout.bytes, b"begun\n");
        assert!(fifo.is_ended());
    });
}

#[test]
fn a_program_is_asked_before_it_is_killed() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        let toolbox = place.toolbox();
        let stop = Stop::default();
        let script = "trap 'echo tidied; exit 0' TERM; echo begun > src/held; \
                      while :; do sleep 0.05; done";
        let outcome = thread::scope(|scope| {
            let call = scope.spawn(|| toolbox.run(&shell(script), &stop));
            assert_eq!(fifo.line(), "begun\n");
            stop.set();
            call.join().unwrap()
        });
        assert_eq!((outcome.ended, outcome.stdout.bytes), (Ended::Stopped, b"tidied\n".to_vec()));
    });
}

#[test]
fn a_program_without_outputs_is_asked_too() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        let toolbox = place.toolbox();
        let stop = Stop::default();
        let script = "trap 'sleep 0.3; echo tidied > src/said; exit 0' TERM; exec >&- 2>&-; \
                      echo begun > src/held; while :; do sleep 0.05; done";
        thread::scope(|scope| {
            let call = scope.spawn(|| toolbox.run(&shell(script), &stop));
            assert_eq!(fifo.line(), "begun\n");
            stop.set();
            assert_eq!(call.join().unwrap().ended, Ended::Stopped);
        });
        let said = std::fs::read_to_string(place.root.join("src/said")).unwrap();
        assert_eq!(said, "tidied\n");
    });
}

#[test]
fn a_stop_ends_all_that_was_started() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        let toolbox = place.toolbox();
        let stop = Stop::default();
        let script = daemon("time.sleep(1000)", "time.sleep(1000)");
        let outcome = thread::scope(|scope| {
            let call = scope.spawn(|| toolbox.run(&exec(["python3", "-c", &script]), &stop));
            assert_eq!(fifo.line(), "daemon\n");
            stop.set();
            call.join().unwrap()
        });
        assert_eq!(outcome.ended, Ended::Stopped);
        assert!(fifo.is_ended());
    });
}

#[test]
fn a_stop_that_is_set_already_starts_nothing() {
    let place = Place::new();
    let stop = Stop::default();
    stop.set();
    let outcome = place.toolbox().run(&shell("echo > src/ran"), &stop);
    assert_eq!(outcome.ended, Ended::Stopped);
    assert!(!place.root.join("src/ran").exists());
}

#[test]
fn a_tool_that_kills_the_process_above_it_ends_with_it() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        let mut fifo = place.fifo("src/held");
        let script = "exec 3> src/held; kill -9 $PPID; sleep 2; echo alive; exit 3";
        let outcome = run(&toolbox, &shell(script));
        if isolation(&toolbox).level == Level::Full {
            // There it is the first of its namespace, which nobody inside can kill.
            assert_eq!(text(&outcome), (Some(3), "alive\n".to_owned(), String::new()));
        } else {
            assert_eq!((outcome.ended, outcome.stdout.bytes), (Ended::Signalled(9), Vec::new()));
        }
        assert!(fifo.is_ended());
    });
}

#[test]
fn a_tool_that_stops_the_process_above_it_is_ended_all_the_same() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        let mut setting = place.setting();
        setting.tool_seconds = 1;
        let toolbox = Toolbox::new(setting).unwrap();
        let began = Instant::now();
        let outcome = run(&toolbox, &shell("exec 3> src/held; kill -STOP $PPID; sleep 1000"));
        assert!(began.elapsed() < SOON);
        assert_eq!(outcome.ended, Ended::TimedOut);
        assert!(fifo.is_ended());
    });
}

/// A program that leaves a daemon behind, by the book: two forks, a session of its own, no
/// environment, no output, the pipe open.
fn daemon(daemon: &str, program: &str) -> String {
    format!(
        "import os, time\n\
         if os.fork() == 0:\n    \
             os.setsid()\n    \
             if os.fork() == 0:\n        \
                 held = os.open('src/held', os.O_WRONLY)\n        \
                 null = os.open('/dev/null', os.O_RDWR)\n        \
                 for standard in range(3): os.dup2(null, standard)\n        \
                 os.write(held, b'daemon\\n')\n        \
                 {daemon}\n    \
             os._exit(0)\n\
         {program}\n"
    )
}

#[test]
fn a_daemon_ends_with_the_call() {
    at_each_level(|| {
        let place = Place::new();
        let mut fifo = place.fifo("src/held");
        // The program waits for its daemon, which it sees by a file.
        let script = daemon(
            "open('src/up', 'w').close(); time.sleep(1000)",
            "while not os.path.exists('src/up'): time.sleep(0.01)",
        );
        let outcome = run(&place.toolbox(), &exec(["python3", "-c", &script]));
        assert_eq!(outcome.ended, Ended::Exited(0), "{:?}", text(&outcome));
        assert_eq!(fifo.line(), "daemon\n");
        assert!(fifo.is_ended());
    });
}

#[test]
fn a_process_in_the_background_does_not_hold_the_call_up() {
    at_each_level(|| {
        let place = Place::new();
        let began = Instant::now();
        let outcome = place.sh("sleep 1000 & echo done");
        assert!(began.elapsed() < SOON);
        assert_eq!(text(&outcome), (Some(0), "done\n".to_owned(), String::new()));
    });
}

#[test]
fn what_is_printed_shortly_after_the_program_ended_is_kept() {
    let place = Place::new();
    let outcome = place.sh("(sleep 0.1; echo late) & echo now");
    assert_eq!(text(&outcome), (Some(0), "now\nlate\n".to_owned(), String::new()));
}

#[test]
fn a_program_that_closes_its_output_is_still_waited_for() {
    at_each_level(|| {
        let place = Place::new();
        let outcome = place.sh("echo out; exec >&- 2>&-; sleep 1; exit 5");
        assert_eq!(text(&outcome), (Some(5), "out\n".to_owned(), String::new()));
    });
}

#[test]
fn memory_is_limited() {
    at_each_level(|| {
        let place = Place::new();
        let mut setting = place.setting();
        setting.memory_bytes = 128 << 20;
        let toolbox = Toolbox::new(setting).unwrap();
        let take =
            |bytes: u32| run(&toolbox, &exec(["python3", "-c", &format!("bytearray({bytes})")]));
        assert_eq!(take(32 << 20).ended, Ended::Exited(0));
        let (status, _, stderr) = text(&take(512 << 20));
        assert_eq!(status, Some(1));
        assert!(stderr.ends_with("MemoryError\n"), "{stderr}");
    });
}

#[test]
fn reserving_addresses_is_not_using_memory() {
    let place = Place::new();
    let script = "import mmap; mmap.mmap(-1, 64 << 30, prot=0, flags=mmap.MAP_PRIVATE | \
                  mmap.MAP_ANONYMOUS | 0x4000)";
    let outcome = run(&place.toolbox(), &exec(["python3", "-c", script]));
    assert_eq!(text(&outcome), (Some(0), String::new(), String::new()));
}

#[test]
fn no_core_is_left() {
    let place = Place::new();
    assert_eq!(text(&place.sh("ulimit -c; ulimit -Hc")).1, "0\n0\n");
}

#[test]
fn many_calls_run_at_once() {
    let place = Place::new();
    let toolbox = place.toolbox();
    let mut fifo = place.fifo("src/held");
    let count = 32;
    thread::scope(|scope| {
        let calls: Vec<_> = (0..count)
            .map(|number| {
                let toolbox = toolbox.clone();
                scope.spawn(move || {
                    // Each waits until all are there.
                    let script = format!(
                        "echo {number} > src/held; while ! [ -e src/go ]; do sleep 0.05; done; \
                         cat; echo error >&2; exit {number}"
                    );
                    let call = ToolCall::Exec {
                        argv: Vec::new(),
                        shell: Some(script),
                        cwd: None,
                        env: BTreeMap::new(),
                        stdin: Some(format!("{number}")),
                    };
                    run(&toolbox, &call)
                })
            })
            .collect();
        let mut begun: Vec<i32> = (0..count).map(|_| fifo.line().trim().parse().unwrap()).collect();
        begun.sort_unstable();
        assert_eq!(begun, (0..count).collect::<Vec<_>>());
        std::fs::write(place.root.join("src/go"), "").unwrap();
        for (number, call) in (0..).zip(calls) {
            let outcome = call.join().unwrap();
            let expected = (Some(number), number.to_string(), "error\n".to_owned());
            assert_eq!(text(&outcome), expected);
        }
    });
    assert!(isolation(&toolbox).level >= Level::None);
}
