use super::*;

use std::os::unix::fs::PermissionsExt as _;

use super::super::apply::Aftermath;

/// Files of which some are new and some are not, by the bits of `new`, in several directories.
fn answer(count: usize, new: usize) -> (Vec<(String, String)>, Vec<Wanted>) {
    let mut files = vec![("x/bystander.md".to_owned(), "by".to_owned())];
    let wanted = (0..count).map(|index| {
        let above = ["", "x/", "deep/er/", "x/"][index % 4];
        let path = format!("{above}f{index}.md");
        if new >> index & 1 == 1 {
            return create(&path, &format!("new {index}"));
        }
        files.push((path.clone(), format!("old {index}")));
        update(&path, &format!("new {index}"))
    });
    let wanted = wanted.collect();
    (files, wanted)
}

fn ground(files: &[(String, String)]) -> Ground {
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Ground::new(&files)
}

fn answers() -> impl Iterator<Item = (Vec<(String, String)>, Vec<Wanted>)> {
    (1..=4).flat_map(|count| (0..1 << count).map(move |new| answer(count, new)))
}

fn after(before: &Tree, wanted: &[Wanted]) -> Tree {
    let written = wanted.iter().map(|file| (file.path.as_str().to_owned(), file.text.clone()));
    before.clone().into_iter().chain(written).collect()
}

#[test]
fn killed_before_any_change_it_comes_to_the_same_end() {
    let mut kills = 0;
    for (able, (files, wanted)) in
        ABILITIES.into_iter().flat_map(|able| answers().map(move |answer| (able, answer)))
    {
        for at in 0.. {
            let ground = ground(&files);
            let expected = after(&ground.tree(), &wanted);
            let run = Run::new(&ground, &wanted, able);
            let ended = run.apply_with(|number, _, _| match number {
                number if number == at => Event::Crash,
                _ => Event::Nothing,
            });
            if ended.is_some() {
                assert_eq!(ground.tree(), expected);
                break;
            }
            kills += 1;
            run.apply().expect("applied");
            assert_eq!(ground.tree(), expected, "{able:?} {wanted:?} killed at {at}");
            assert_eq!(*run.kept.borrow(), []);
            // Once more, as after a crash before the result was recorded.
            run.apply().expect("applied");
            assert_eq!(ground.tree(), expected);
        }
    }
    assert!(kills > 1000, "{kills}");
}

#[test]
fn killed_twice_it_comes_to_the_same_end() {
    for (able, new) in ABILITIES.into_iter().flat_map(|able| (0..4).map(move |new| (able, new))) {
        let (files, wanted) = answer(2, new);
        let count = Run::new(&ground(&files), &wanted, able).changes().len();
        for (first, second) in (0..count).flat_map(|first| (0..count).map(move |at| (first, at))) {
            let ground = ground(&files);
            let expected = after(&ground.tree(), &wanted);
            let run = Run::new(&ground, &wanted, able);
            for at in [first, second] {
                let _ = run.apply_with(|number, _, _| match number {
                    number if number == at => Event::Crash,
                    _ => Event::Nothing,
                });
            }
            run.apply().expect("applied");
            assert_eq!(ground.tree(), expected, "{able:?} {wanted:?} at {first}, {second}");
        }
    }
}

#[test]
fn a_failure_of_the_system_takes_everything_back() {
    let mut undone = 0;
    for (able, (files, wanted)) in
        ABILITIES.into_iter().flat_map(|able| answers().map(move |answer| (able, answer)))
    {
        for at in 0.. {
            let ground = ground(&files);
            let before = ground.tree();
            let run = Run::new(&ground, &wanted, able);
            let ended = run.apply_with(|number, _, _| match number {
                number if number == at => Event::Fail,
                _ => Event::Nothing,
            });
            let told = format!("{able:?} {wanted:?} failed at {at}: {ended:?}");
            match ended.expect("not killed") {
                Ok(()) => break,
                Err(ApplyFailed::Io { aftermath: Aftermath::Undone, .. }) => {
                    undone += 1;
                    assert_eq!(ground.tree(), before, "{told}");
                }
                Err(ApplyFailed::Io { aftermath: Aftermath::InPlace, .. }) => {}
                Err(_) => panic!("{told}"),
            }
            run.apply().expect("applied");
            assert_eq!(ground.tree(), after(&before, &wanted), "{told}");
        }
    }
    assert!(undone > 1000, "{undone}");
}

#[test]
fn a_disk_that_fails_for_good_leaves_what_the_next_call_needs() {
    for (able, (files, wanted)) in
        ABILITIES.into_iter().flat_map(|able| answers().map(move |answer| (able, answer)))
    {
        for at in 0.. {
            let ground = ground(&files);
            let expected = after(&ground.tree(), &wanted);
            let run = Run::new(&ground, &wanted, able);
            let ended = run.apply_with(|number, _, _| match number {
                number if number >= at => Event::Fail,
                _ => Event::Nothing,
            });
            if ended.expect("not killed").is_ok() {
                break;
            }
            run.apply().expect("applied");
            assert_eq!(ground.tree(), expected, "{able:?} {wanted:?} failed from {at}");
        }
    }
}

#[test]
fn bytes_are_synced_before_they_are_named_and_names_before_the_old_bytes_go() {
    let ground = Ground::new(&[("a.md", "old")]);
    let wanted = [update("a.md", "new"), create("d/b.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let changes = run.changes();
    let changes: Vec<_> = changes.iter().map(|(change, path)| (*change, path.as_str())).collect();
    let syncs = [(Change::SyncDirectory, ""), (Change::SyncDirectory, "d")];
    let expected = [
        (Change::OpenPart, "a.md"),
        (Change::WritePart, "a.md"),
        (Change::SyncPart, "a.md"),
        (Change::Stage, "a.md"),
        (Change::MakeDirectory, "d/b.md"),
        (Change::OpenPart, "d/b.md"),
        (Change::WritePart, "d/b.md"),
        (Change::SyncPart, "d/b.md"),
        (Change::Stage, "d/b.md"),
    ]
    .into_iter()
    .chain(syncs)
    .chain([(Change::SyncDirectory, "d"), (Change::Exchange, "a.md"), (Change::Place, "d/b.md")])
    .chain(syncs)
    .chain([(Change::SyncDirectory, "d"), (Change::Remove, "a.md")]);
    assert_eq!(changes, expected.collect::<Vec<_>>());
}

#[test]
fn a_replaced_file_hands_on_its_mode() {
    let ground = Ground::new(&[("run.sh", "old")]);
    let mode = |path: &str| fs::metadata(ground.path(path)).expect("stat").permissions().mode();
    fs::set_permissions(ground.path("run.sh"), fs::Permissions::from_mode(0o751)).expect("mode");
    ground.write("plain.md", "x");
    let wanted = [update("run.sh", "new"), create("new.md", "new")];
    Run::new(&ground, &wanted, Able::Whole).apply().expect("applied");
    assert_eq!(mode("run.sh") & 0o777, 0o751);
    assert_eq!(mode("new.md"), mode("plain.md"));
}

#[test]
fn stored_bytes_that_are_not_the_planned_ones_are_not_written() {
    let ground = Ground::new(&[("a.md", "old")]);
    let before = ground.tree();
    let wanted = [update("a.md", "new"), create("d/b.md", "new")];
    let run = Run::new(&ground, &wanted, Able::Whole);
    let (other, missing) = (Some(b"other".to_vec()), None);
    for (bytes, cause) in [
        (other, "its stored bytes are not the planned ones"),
        (missing, "its bytes are not stored"),
    ] {
        let content = |index| if index == 0 { Some(b"new".to_vec()) } else { bytes.clone() };
        let failed =
            super::super::apply(&ground.root, "t1", &run.planned, &content, &mut |_, _| {
                panic!("kept")
            })
            .expect_err("failed");
        assert_eq!(failed.to_string(), "cannot stage `d/b.md`; none of the files is written");
        let source = std::error::Error::source(&failed).expect("source").to_string();
        assert_eq!(source, cause);
        assert_eq!(ground.tree(), before);
    }
}

#[test]
fn a_tag_that_could_lead_elsewhere_is_refused() {
    let ground = Ground::new(&[]);
    for tag in ["", "a/b", "..", "a.b", &"a".repeat(65)] {
        let failed = super::super::apply(&ground.root, tag, &[], &|_| None, &mut |_, _| Ok(()));
        assert!(matches!(failed, Err(ApplyFailed::Io { .. })), "{tag}");
    }
}
