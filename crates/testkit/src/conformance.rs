//! What every store must do, whatever it is built on.
//!
//! Each function takes a way to open a handle on one and the same empty store, and panics where the
//! store breaks its contract. What happens to files behind the store's back is tested elsewhere.

use std::sync::Barrier;
use std::time::Duration;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_runtime::store::{Appended, Blobs, Head, LedgerId, Ledgers, StoreError};

/// Long enough for any wait that is to end in success.
const PATIENCE: Duration = Duration::from_secs(30);

/// The `number`th trace.
#[must_use]
pub fn trace(number: u64) -> LedgerId {
    LedgerId::Trace(Ulid::from_parts(Timestamp::from_millis(1_700_000_000_000), number.into()))
}

fn done(appended: Appended) -> Head {
    assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
    match appended {
        Appended::Done(head) | Appended::Moved(head) => head,
    }
}

/// Runs the whole suite; `open` is called with the name of a test and yields a store of its own.
pub fn all<S: Ledgers + Blobs, H: Fn() -> S + Sync>(open: impl Fn(&str) -> H) {
    lines_are_read_back_as_they_were_appended(&open("lines"));
    an_append_that_expects_another_head_learns_the_current_one(&open("conflict"));
    what_is_not_a_line_is_refused(&open("refused"));
    one_of_many_appenders_wins_each_round(&open("race"));
    batches_of_many_threads_never_mix(&open("batches"));
    ledgers_with_lines_are_listed(&open("list"));
    a_follower_gets_lines_as_they_come(&open("follow"));
    artifacts_are_stored_once_and_verified(&open("artifacts"));
    artifacts_can_be_streamed(&open("streamed"));
}

fn lines_are_read_back_as_they_were_appended<S: Ledgers>(open: &dyn Fn() -> S) {
    let store = open();
    for id in [LedgerId::Log, trace(1)] {
        assert_eq!(store.head(id).unwrap(), Head::EMPTY);
        assert_eq!(store.read(id, Head::EMPTY, 100).unwrap(), b"");
        let one = done(store.append(id, Head::EMPTY, b"{\"a\":1}\n").unwrap());
        let two = done(store.append(id, one, b"{\"b\":2}\n{\"c\":3}\n").unwrap());
        assert_eq!((one, two), (Head::at(8), Head::at(24)));
        for store in [&store, &open()] {
            assert_eq!(store.head(id).unwrap(), two);
            assert_eq!(
                store.read(id, Head::EMPTY, 100).unwrap(),
                b"{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n"
            );
            assert_eq!(store.read(id, one, 1).unwrap(), b"{\"b\":2}\n", "at least one line");
            assert_eq!(store.read(id, one, 15).unwrap(), b"{\"b\":2}\n", "never half a line");
            assert_eq!(store.read(id, two, 100).unwrap(), b"");
            assert!(matches!(
                store.read(id, Head::at(9), 100),
                Err(StoreError::NotALineStart { .. })
            ));
            assert!(matches!(store.read(id, Head::at(25), 100), Err(StoreError::CutBack { .. })));
        }
        let mut batch = store.begin(id).unwrap();
        assert_eq!((batch.head(), batch.torn_tail()), (two, None));
        assert_eq!(batch.read(one, 100).unwrap(), b"{\"b\":2}\n{\"c\":3}\n");
        batch.sync().unwrap();
        assert_eq!(batch.repair_tail(two).unwrap(), None);
        assert_eq!(batch.append(b"{}\n").unwrap(), Head::at(27));
        assert_eq!(batch.append(b"{}\n").unwrap(), Head::at(30));
    }
}

fn an_append_that_expects_another_head_learns_the_current_one<S: Ledgers>(open: &dyn Fn() -> S) {
    let (ours, theirs) = (open(), open());
    let first = done(ours.append(trace(1), Head::EMPTY, b"{\"by\":1}\n").unwrap());
    let refused = theirs.append(trace(1), Head::EMPTY, b"{\"by\":2}\n").unwrap();
    assert_eq!(refused, Appended::Moved(first));
    let second = done(theirs.append(trace(1), first, b"{\"by\":2}\n").unwrap());
    let refused = ours.append(trace(1), first, b"{\"by\":1}\n").unwrap();
    assert_eq!(refused, Appended::Moved(second));
    let lines = ours.read(trace(1), Head::EMPTY, 100).unwrap();
    assert_eq!(lines, b"{\"by\":1}\n{\"by\":2}\n");
}

fn what_is_not_a_line_is_refused<S: Ledgers>(open: &dyn Fn() -> S) {
    let store = open();
    let long = [vec![b'x'; 1 << 20], b"x\n".to_vec()].concat();
    let cases: [&[u8]; 8] =
        [b"", b"{}", b"\n", b"{}\n\n", b"{}\r\n", b"\0\n", b"{}\n{}", long.as_slice()];
    for bytes in cases {
        let refused = store.append(trace(1), Head::EMPTY, bytes);
        assert!(matches!(refused, Err(StoreError::NotLines { .. })), "{refused:?}");
    }
    assert_eq!(store.head(trace(1)).unwrap(), Head::EMPTY);
    let longest = long.split_at(1).1;
    let head = done(store.append(trace(1), Head::EMPTY, longest).unwrap());
    assert_eq!(store.read(trace(1), Head::EMPTY, 1).unwrap(), longest);
    assert_eq!(head.bytes, longest.len() as u64);
}

fn one_of_many_appenders_wins_each_round<S: Ledgers, H: Fn() -> S + Sync>(open: &H) {
    const APPENDERS: usize = 4;
    const ROUNDS: usize = 20;
    let shared = open();
    let round = Barrier::new(APPENDERS);
    let wins: usize = std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..APPENDERS)
            .map(|number| {
                let (shared, round) = (&shared, &round);
                // Half of them share a handle, as threads of one process do.
                scope.spawn(move || {
                    let own = open();
                    let store = if number % 2 == 0 { shared } else { &own };
                    let (mut head, mut wins) = (Head::EMPTY, 0);
                    for _ in 0..ROUNDS {
                        round.wait();
                        match store.append(trace(1), head, b"{\"round\":\"x\"}\n").unwrap() {
                            Appended::Done(now) => (head, wins) = (now, wins + 1),
                            Appended::Moved(now) => head = now,
                        }
                    }
                    wins
                })
            })
            .collect();
        appenders.into_iter().map(|appender| appender.join().unwrap()).sum()
    });
    assert_eq!(wins, ROUNDS);
    assert_eq!(shared.head(trace(1)).unwrap().bytes, (ROUNDS * 14) as u64);
}

fn batches_of_many_threads_never_mix<S: Ledgers, H: Fn() -> S + Sync>(open: &H) {
    let shared = open();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let shared = &shared;
            scope.spawn(move || {
                let own = open();
                let store = if number % 2 == 0 { shared } else { &own };
                for _ in 0..10 {
                    let mut batch = store.begin(LedgerId::Log).unwrap();
                    let before = batch.head().bytes;
                    let line = format!("{{\"at\":{before},\"by\":{number}}}\n");
                    batch.append(line.as_bytes()).unwrap();
                    let second = format!("{{\"at\":{before}}}\n");
                    batch.append(second.as_bytes()).unwrap();
                }
            });
        }
    });
    let mut at = 0;
    let mut count = 0;
    while let Some(pair) = pair_at(&shared, at) {
        assert!(pair.starts_with(&format!("{{\"at\":{at},")), "{pair}");
        assert!(pair.ends_with(&format!("{{\"at\":{at}}}\n")), "{pair}");
        at += pair.len() as u64;
        count += 1;
    }
    assert_eq!(count, 40);
}

fn pair_at<S: Ledgers>(store: &S, at: u64) -> Option<String> {
    let first = store.read(LedgerId::Log, Head::at(at), 1).unwrap();
    let next = Head::at(at + first.len() as u64);
    let second = store.read(LedgerId::Log, next, 1).unwrap();
    (!first.is_empty()).then(|| String::from_utf8([first, second].concat()).unwrap())
}

fn ledgers_with_lines_are_listed<S: Ledgers>(open: &dyn Fn() -> S) {
    let store = open();
    assert_eq!(store.list().unwrap(), []);
    drop(store.begin(trace(3)).unwrap());
    assert_eq!(store.list().unwrap(), [], "one without lines is as good as none");
    for id in [trace(2), trace(1), LedgerId::Log] {
        let _ = done(store.append(id, Head::EMPTY, b"{}\n").unwrap());
    }
    assert_eq!(store.list().unwrap(), [LedgerId::Log, trace(1), trace(2)]);
    for id in store.list().unwrap() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}

fn a_follower_gets_lines_as_they_come<S: Ledgers, H: Fn() -> S + Sync>(open: &H) {
    let store = open();
    let first = done(store.append(trace(1), Head::EMPTY, b"{\"n\":1}\n").unwrap());
    let mut follower = store.follow(trace(1), Head::EMPTY).unwrap();
    assert_eq!(follower.next(PATIENCE).unwrap().unwrap(), b"{\"n\":1}\n");
    assert_eq!(follower.next(Duration::ZERO).unwrap(), None);
    let seen = store.wait(0, Duration::ZERO);
    std::thread::scope(|scope| {
        scope.spawn(|| done(open().append(trace(1), first, b"{\"n\":2}\n{\"n\":3}\n").unwrap()));
        assert_eq!(follower.next(PATIENCE).unwrap().unwrap(), b"{\"n\":2}\n{\"n\":3}\n");
    });
    assert_eq!(follower.head(), Head::at(24));
    assert_ne!(store.wait(seen, PATIENCE), seen, "whoever waits for any change is woken too");
    let mut early = open().follow(trace(2), Head::EMPTY).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| done(open().append(trace(2), Head::EMPTY, b"{\"n\":4}\n").unwrap()));
        assert_eq!(early.next(PATIENCE).unwrap().unwrap(), b"{\"n\":4}\n");
    });
}

fn artifacts_are_stored_once_and_verified<S: Blobs>(open: &dyn Fn() -> S) {
    let store = open();
    for bytes in [b"".as_slice(), b"some bytes", &[0; 100_000]] {
        let hash = Hash::of(bytes);
        assert_eq!(store.stat(&hash).unwrap(), None);
        assert!(matches!(store.get(&hash, 1), Err(StoreError::Missing { .. })));
        assert_eq!(store.put(bytes).unwrap(), hash);
        assert_eq!(store.put(bytes).unwrap(), hash, "a second time changes nothing");
        let again = open();
        assert_eq!(again.put(bytes).unwrap(), hash);
        assert_eq!(again.stat(&hash).unwrap(), Some(bytes.len() as u64));
        assert_eq!(again.get(&hash, bytes.len() as u64).unwrap(), bytes);
        if let Some(less) = (bytes.len() as u64).checked_sub(1) {
            assert!(matches!(again.get(&hash, less), Err(StoreError::TooLarge { .. })));
        }
        let mut copy = Vec::new();
        assert_eq!(again.copy_to(&hash, &mut copy).unwrap(), bytes.len() as u64);
        assert_eq!(copy, bytes);
        assert!(again.remove(&hash).unwrap());
        assert!(!again.remove(&hash).unwrap());
        assert!(matches!(store.get(&hash, 1), Err(StoreError::Missing { .. })));
        assert_eq!(store.put(bytes).unwrap(), hash, "what was removed can be stored again");
        assert_eq!(store.get(&hash, u64::MAX).unwrap(), bytes);
    }
}

fn artifacts_can_be_streamed<S: Blobs>(open: &dyn Fn() -> S) {
    let store = open();
    let bytes: Vec<u8> = (0..=255).cycle().take(200_001).collect();
    let streamed = store.put_reader(&mut bytes.as_slice(), 200_001).unwrap();
    assert_eq!(streamed, (Hash::of(&bytes), 200_001));
    assert_eq!(store.put_reader(&mut bytes.as_slice(), u64::MAX).unwrap(), streamed);
    assert_eq!(store.get(&streamed.0, u64::MAX).unwrap(), bytes);
    let refused = store.put_reader(&mut [7; 11].as_slice(), 10);
    assert!(matches!(refused, Err(StoreError::TooLarge { max: 10 })), "{refused:?}");
    assert_eq!(store.stat(&Hash::of(&[7; 11])).unwrap(), None);
}
