use super::*;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags};

use super::super::root::read_current;

const SWAPS_MIN: usize = 100_000;
const TRIES_MIN: usize = 2_000;
const TRIES_MAX: usize = 2_000_000;

/// A workspace whose directory `d` changes its name with a link that leads outside, all the time.
struct Stage {
    ground: Ground,
    real: FileRoot,
    outside: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let ground = Ground::new(&[("d/a.md", "v0")]);
        let outside = directory();
        std::os::unix::fs::symlink(outside.path(), ground.path("l")).expect("link");
        let real = FileRoot::open(&ground.path("d")).expect("directory");
        Self { ground, real, outside }
    }

    /// Calls `attempt` until there were enough of both, or it says that it saw enough.
    fn swap_while(&self, mut attempt: impl FnMut(usize) -> bool) -> (usize, usize) {
        let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
        let mut tries = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (d, l) = (self.ground.path("d"), self.ground.path("l"));
                while !stop.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE)
                        .expect("swap");
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            });
            // A failed assertion must not leave the thread running: the scope would wait for it.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                while tries < TRIES_MAX
                    && (tries < TRIES_MIN || swaps.load(Ordering::Relaxed) < SWAPS_MIN)
                {
                    tries += 1;
                    if attempt(tries) {
                        break;
                    }
                }
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(payload) = ended {
                std::panic::resume_unwind(payload);
            }
        });
        (tries, swaps.into_inner())
    }

    fn real(&self, path: &str) -> Option<String> {
        let path = WorkspacePath::parse(path).expect("path");
        let bytes = read_current(&self.real, &path, 100).expect("read");
        bytes.map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    fn outside(&self) -> Tree {
        let mut tree = Tree::new();
        collect(self.outside.path(), "", &mut tree);
        tree
    }
}

#[test]
fn nothing_is_written_outside_while_a_directory_is_swapped_for_a_link() {
    let stage = Stage::new();
    let mut now = "v0".to_owned();
    let (mut applied, mut conflicts, mut refused) = (0_usize, 0_usize, 0_usize);
    let (tries, swaps) = stage.swap_while(|number| {
        let wanted =
            [update("d/a.md", &format!("v{number}")), create(&format!("d/n{number}.md"), "new")];
        let own = |path: &str| (path == "d/a.md").then(|| hash(&now));
        let seen = Seen::default();
        match plan(&stage.ground.root, &wishes(&wanted), &|_| true, &seen, &own) {
            Ok(planned) => {
                let content = |index: usize| Some(wanted[index].text.clone().into_bytes());
                let mut keep = |_: &str, _: &[u8]| panic!("nobody edits");
                let tag = format!("t{number}");
                let root = &stage.ground.root;
                match super::super::apply(root, &tag, &planned, &content, &mut keep) {
                    Ok(()) => {
                        applied += 1;
                        now = format!("v{number}");
                    }
                    Err(ApplyFailed::Conflict { .. }) => conflicts += 1,
                    Err(failed) => panic!("{failed:?}"),
                }
            }
            Err(_) => refused += 1,
        }
        assert_eq!(stage.real("a.md").as_ref(), Some(&now));
        let expected = (now == format!("v{number}")).then(|| "new".to_owned());
        assert_eq!(stage.real(&format!("n{number}.md")), expected);
        false
    });
    println!(
        "{swaps} swaps, {tries} tries: {applied} applied, {conflicts} conflicts, {refused} refused"
    );
    assert_eq!(stage.outside(), Tree::new());
    let files = stage.ground.tree();
    assert!(!files.keys().any(|path| path.contains(".countersign-")), "{files:?}");
    assert_eq!(files.len(), applied + 2, "{files:?}");
    assert!(swaps >= SWAPS_MIN && applied >= 10 && conflicts >= 10 && refused >= 10);
}

/// The test above can tell: a writer that goes by the path alone is caught.
#[test]
fn a_writer_that_follows_paths_writes_outside_under_the_same_swaps() {
    let stage = Stage::new();
    let write = |root: &Path, path: &str| fs::write(root.join(path), "new");
    let (tries, swaps) = stage.swap_while(|number| {
        let _ = write(stage.ground.held.path(), &format!("d/n{}.md", number % 100));
        !stage.outside().is_empty()
    });
    println!("caught after {tries} writes and {swaps} swaps");
    assert_ne!(stage.outside(), Tree::new());
}

#[test]
fn a_directory_that_becomes_a_link_between_calls_is_a_conflict() {
    let ground = Ground::new(&[("d/a.md", "old"), ("b.md", "old")]);
    let outside = directory();
    let wanted = [update("b.md", "new"), update("d/a.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let killed = run.apply_with(|_, change, path| match (change, path) {
        (Change::Exchange, "d/a.md") => Event::Crash,
        _ => Event::Nothing,
    });
    assert!(killed.is_none());
    assert_eq!(ground.read("b.md").as_deref(), Some("new"));
    fs::rename(ground.path("d"), ground.path("e")).expect("rename");
    std::os::unix::fs::symlink(outside.path(), ground.path("d")).expect("link");
    assert_eq!(
        run.apply().expect_err("conflict").to_string(),
        "`d/a.md` lies behind a link or something else that is no directory since the files were \
         planned; none of the files is written"
    );
    assert_eq!(ground.read("b.md").as_deref(), Some("old"));
    assert_eq!(ground.read("e/a.md").as_deref(), Some("old"));
    assert_eq!(fs::read_dir(outside.path()).expect("list").count(), 0);
}
