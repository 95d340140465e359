use super::*;

use std::io::{Seek as _, Write as _};

use proptest::prelude::*;

use super::super::apply::Aftermath;

/// Who edits while an answer is applied, and what must not be lost of it.
#[derive(Default)]
struct Person {
    edits: usize,
    touched: Vec<String>,
    /// Edits that the person has not undone or replaced.
    live: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy)]
enum Edit {
    /// Writes into the file, as simple editors do.
    Into,
    /// Renames a new file onto it, as careful editors do.
    Onto,
    Remove,
    /// Brings the old bytes back.
    Restore,
}

impl Person {
    fn edit(&mut self, ground: &Ground, path: &str, edit: Edit, old: Option<&String>) {
        let now = ground.read(path);
        self.live.retain(|(at, text)| at != path || Some(text) != now.as_ref());
        self.touched.push(path.to_owned());
        self.edits += 1;
        let text = format!("edit {}", self.edits);
        match (edit, old) {
            (Edit::Remove, _) => {
                let _ = fs::remove_file(ground.path(path));
                return;
            }
            (Edit::Restore, Some(old)) => {
                ground.write(path, old);
                return;
            }
            (Edit::Into, _) => ground.write(path, &text),
            (Edit::Onto | Edit::Restore, _) => {
                ground.write("person.tmp", &text);
                ground.write(path, "");
                fs::rename(ground.path("person.tmp"), ground.path(path)).expect("rename");
            }
        }
        self.live.push((path.to_owned(), text));
    }

    /// Every edit is in its place or was handed over.
    fn check(&self, run: &Run<'_>) -> Result<(), TestCaseError> {
        for (path, text) in &self.live {
            let in_place = run.ground.read(path).as_ref() == Some(text);
            let kept = run.kept.borrow().contains(&(path.clone(), text.clone()));
            prop_assert!(in_place || kept, "`{}` of `{}` is lost", text, path);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Crash,
    Fail,
    Edit(usize, Edit),
}

fn happening() -> impl Strategy<Value = Happening> {
    let edit = prop_oneof![
        3 => Just(Edit::Into),
        3 => Just(Edit::Onto),
        1 => Just(Edit::Remove),
        1 => Just(Edit::Restore),
    ];
    prop_oneof![
        2 => Just(Happening::Crash),
        1 => Just(Happening::Fail),
        4 => (0_usize..4, edit).prop_map(|(file, edit)| Happening::Edit(file, edit)),
    ]
}

/// What each file of an answer is: new, replaced, or there already with the same bytes.
fn lay_out(kinds: &[u8]) -> (Ground, Vec<Wanted>) {
    let ground = Ground::new(&[]);
    let wanted = kinds.iter().enumerate().map(|(index, kind)| {
        let path = format!("{}f{index}.md", ["", "x/", "deep/er/", "x/"][index % 4]);
        let text = format!("new {index}");
        match kind {
            0 => create(&path, &text),
            1 => {
                ground.write(&path, &format!("old {index}"));
                update(&path, &text)
            }
            _ => {
                ground.write(&path, &text);
                create(&path, &text)
            }
        }
    });
    let wanted = wanted.collect();
    (ground, wanted)
}

fn play(
    kinds: &[u8],
    able: Able,
    during: &[(usize, Happening)],
    between: &[(usize, Edit)],
) -> Result<(), TestCaseError> {
    let (ground, wanted) = lay_out(kinds);
    let old: Vec<_> = wanted.iter().map(|file| ground.read(file.path.as_str())).collect();
    let run = Run::new(&ground, &wanted, able);
    let mut person = Person::default();
    let edit = |person: &mut Person, file: usize, edit: Edit| {
        let file = file % wanted.len();
        person.edit(&ground, wanted[file].path.as_str(), edit, old[file].as_ref());
    };
    let mut during = during.iter().copied();
    let mut between = between.iter().copied();
    let mut next = during.next();
    let mut changes = 0;
    let mut killed = 0;
    let result = loop {
        let ended = run.apply_with(|_, _, _| {
            changes += 1;
            while let Some((at, happens)) = next
                && at <= changes
            {
                next = during.next();
                changes = 0;
                match happens {
                    Happening::Crash => return Event::Crash,
                    Happening::Fail => return Event::Fail,
                    Happening::Edit(file, how) => edit(&mut person, file, how),
                }
            }
            Event::Nothing
        });
        match ended {
            None
            | Some(Err(ApplyFailed::Io {
                aftermath: Aftermath::Unfinished | Aftermath::InPlace,
                ..
            })) => {}
            Some(ended) => break ended,
        }
        killed += 1;
        if let Some((file, how)) = between.next() {
            edit(&mut person, file, how);
        }
    };
    person.check(&run)?;
    let left: Vec<_> =
        ground.tree().into_keys().filter(|path| path.contains(".countersign-")).collect();
    prop_assert_eq!(left, Vec::<String>::new());
    let unfinished =
        matches!(result, Err(ApplyFailed::Conflict { aftermath: Aftermath::Unfinished, .. }));
    // Only after every file was in its place once can it not tell.
    prop_assert!(!unfinished || killed > 0, "{:?}", result);
    if unfinished {
        return Ok(());
    }
    for (file, old) in wanted.iter().zip(old) {
        let path = file.path.as_str();
        if !person.touched.iter().any(|touched| touched == path) {
            let expected = if result.is_ok() { Some(file.text.clone()) } else { old };
            prop_assert_eq!(ground.read(path), expected, "`{}` after {:?}", path, result);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_no_edit_is_lost_and_the_files_agree(
        kinds in proptest::collection::vec(0_u8..3, 1..5),
        able in 0_usize..3,
        during in proptest::collection::vec((0_usize..30, happening()), 0..5),
        between in proptest::collection::vec(
            (0_usize..4, prop_oneof![
                Just(Edit::Into), Just(Edit::Onto), Just(Edit::Remove), Just(Edit::Restore),
            ]),
            0..3,
        ),
    ) {
        play(&kinds, ABILITIES[able], &during, &between)?;
    }
}

/// One edit at every change, of every file, in every manner: with a crash right after, with a crash
/// right before, and without.
#[test]
fn an_edit_before_any_change_is_not_lost() {
    for able in ABILITIES {
        for kinds in [&[1][..], &[0], &[1, 0], &[0, 1], &[0, 2, 1]] {
            let (ground, wanted) = lay_out(kinds);
            let changes = Run::new(&ground, &wanted, able).changes().len();
            let places = (0..kinds.len()).flat_map(|file| (1..=changes).map(move |at| (file, at)));
            for (file, at) in places {
                for how in [Edit::Into, Edit::Onto, Edit::Remove, Edit::Restore] {
                    let edit = (at, Happening::Edit(file, how));
                    let told = format!("{able:?} {kinds:?} {how:?} of {file} at {at}");
                    play(kinds, able, &[edit], &[]).expect(&told);
                    play(kinds, able, &[edit, (0, Happening::Crash)], &[]).expect(&told);
                    play(kinds, able, &[(at, Happening::Crash)], &[(file, how)]).expect(&told);
                }
            }
        }
    }
}

#[test]
fn an_edit_between_plan_and_apply_is_a_conflict_and_stays() {
    let ground = Ground::new(&[("a.md", "old"), ("b.md", "old")]);
    let wanted = [update("a.md", "new"), update("b.md", "new"), create("d/c.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    for (path, text, said) in [
        ("b.md", "mine", "`b.md` was changed"),
        ("d/c.md", "mine", "`d/c.md` was created by somebody else"),
    ] {
        let before = ground.read(path);
        ground.write(path, text);
        let found = ground.tree();
        let conflict = run.apply().expect_err("conflict");
        let end = "since the files were planned; none of the files is written";
        assert_eq!(conflict.to_string(), format!("{said} {end}"));
        assert_eq!(ground.tree(), found);
        match before {
            Some(before) => ground.write(path, &before),
            None => fs::remove_dir_all(ground.path("d")).expect("remove"),
        }
    }
    run.apply().expect("applied");
    let expected = tree(&[("a.md", "new"), ("b.md", "new"), ("d/c.md", "new")]);
    assert_eq!(ground.tree(), expected);
    assert_eq!(*run.kept.borrow(), []);
}

/// An editor may hold the old file open. What it writes before the old bytes are dropped is put
/// back or handed over, at whatever change it writes.
#[test]
fn what_is_written_through_a_handle_from_before_is_not_lost() {
    let mut outcomes = [0, 0];
    for at in 0.. {
        let ground = Ground::new(&[("a.md", "old"), ("b.md", "old")]);
        let wanted = [update("a.md", "new"), update("b.md", "new")];
        let run = Run::new(&ground, &wanted, Able::Whole);
        let open = fs::File::options().write(true).open(ground.path("a.md"));
        let mut handle = open.expect("open");
        let mut written = false;
        let result = run.apply_with(|number, change, _| {
            // From the first removal on the old bytes are looked at no more.
            if number == at && change != Change::Remove {
                handle.rewind().expect("rewind");
                handle.write_all(b"handle").expect("write");
                written = true;
            }
            Event::Nothing
        });
        if !written {
            break;
        }
        let result = result.expect("not killed");
        let kept = run.kept.take();
        let in_place = ground.read("a.md").as_deref() == Some("handle");
        let (text, of_b) = if result.is_ok() { ("new", "new") } else { ("handle", "old") };
        assert_eq!(ground.tree(), tree(&[("a.md", text), ("b.md", of_b)]), "at {at}: {result:?}");
        let expected = vec![("a.md".to_owned(), "handle".to_owned())];
        assert_eq!(kept, if in_place { vec![] } else { expected }, "at {at}");
        outcomes[usize::from(in_place)] += 1;
    }
    // Only while the names are synced for the last time it is too late to put it back.
    assert!(outcomes[0] == 1 && outcomes[1] > 1, "{outcomes:?}");
}

#[test]
fn something_that_is_no_file_is_put_back_as_it_was() {
    let ground = Ground::new(&[("a.md", "old"), ("z.md", "old")]);
    let wanted = [update("a.md", "new"), update("z.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let mut replaced = false;
    let result = run.apply_with(|_, change, path| {
        if (change, path) == (Change::Exchange, "z.md") && !replaced {
            replaced = true;
            fs::remove_file(ground.path("z.md")).expect("remove");
            std::os::unix::fs::symlink("/nowhere", ground.path("z.md")).expect("link");
        }
        Event::Nothing
    });
    assert!(matches!(result, Some(Err(ApplyFailed::Conflict { .. }))), "{result:?}");
    assert_eq!(ground.tree(), tree(&[("a.md", "old"), ("z.md", "-> /nowhere")]));
}

#[test]
fn an_edit_that_came_out_before_a_crash_goes_back_to_its_place() {
    let ground = Ground::new(&[("a.md", "old"), ("b.md", "old")]);
    let wanted = [update("a.md", "new"), update("b.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let killed = run.apply_with(|_, change, path| {
        match (change, path, ground.read("b.md").as_deref()) {
            (Change::Exchange, "b.md", Some("old")) => ground.write("b.md", "mine"),
            // The exchange back, or whatever else comes after it.
            (_, _, Some("new")) => return Event::Crash,
            _ => {}
        }
        Event::Nothing
    });
    assert!(killed.is_none());
    assert_eq!(ground.read("b.md").as_deref(), Some("new"));
    let result = run.apply();
    assert!(matches!(result, Err(ApplyFailed::Conflict { .. })), "{result:?}");
    assert_eq!(ground.tree(), tree(&[("a.md", "old"), ("b.md", "mine")]));
    assert_eq!(*run.kept.borrow(), []);
}

#[test]
fn an_edit_of_a_new_file_that_is_being_taken_back_stays_in_its_place() {
    let ground = Ground::new(&[("b.md", "old")]);
    let wanted = [create("a.md", "new"), update("b.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let result = run.apply_with(|_, change, _| {
        match change {
            Change::Exchange => return Event::Fail,
            Change::Withdraw => ground.write("a.md", "mine"),
            _ => {}
        }
        Event::Nothing
    });
    assert!(
        matches!(result, Some(Err(ApplyFailed::Io { aftermath: Aftermath::Undone, .. }))),
        "{result:?}"
    );
    assert_eq!(ground.tree(), tree(&[("a.md", "mine"), ("b.md", "old")]));
    assert_eq!(*run.kept.borrow(), []);
}
