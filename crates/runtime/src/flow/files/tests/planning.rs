use super::*;

use std::os::unix::fs::symlink;

/// What the plan says of one file: the old bytes, or why not.
fn say(
    ground: &Ground,
    wanted: Wanted,
    within: &dyn Fn(&str) -> bool,
    seen: &Seen,
    own: Option<&str>,
) -> Result<Option<Hash>, String> {
    let planned =
        plan(&ground.root, &wishes(std::slice::from_ref(&wanted)), within, seen, &|path| {
            own.filter(|_| path == wanted.path.as_str()).map(hash)
        });
    match planned {
        Ok(files) => {
            let [file] = files.as_slice() else { panic!("{files:?}") };
            let Wanted { path, operation, text } = wanted;
            let (before, after) = (file.before, hash(&text));
            assert_eq!(*file, PlannedFile { path, operation, before, after });
            Ok(before)
        }
        Err(refused) => Err(refused.to_string()),
    }
}

#[test]
fn every_place_and_operation_has_its_answer() {
    let ground = Ground::new(&[("d/same.md", "same"), ("d/old.md", "old"), ("real/x.md", "x")]);
    symlink("/etc/hosts", ground.path("d/link.md")).expect("link");
    symlink("/tmp", ground.path("outside")).expect("link");
    symlink("real", ground.path("inside")).expect("link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        ground.path("d/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("pipe");
    let seen = ground.seen();
    ground.write("d/young.md", "young");
    let refused = |path: &str, why: &str| Err(format!("`{path}`: {why}"));
    let detour = "a component before the last is a link or not a directory";
    let exists = "it exists already";
    let changed = "it changed since the agent was started";
    for (wanted, own, expected) in [
        (create("d/new.md", "n"), None, Ok(None)),
        (create("e/f/new.md", "n"), None, Ok(None)),
        (create("d/same.md", "same"), None, Ok(Some(hash("same")))),
        (create("d/old.md", "n"), None, refused("d/old.md", exists)),
        (create("d/old.md", "n"), Some("old"), Ok(Some(hash("old")))),
        (create("d/old.md", "n"), Some("older"), refused("d/old.md", exists)),
        (create("d", "n"), None, refused("d", "it is a directory")),
        (create("d/link.md", "n"), None, refused("d/link.md", "it is a link")),
        (create("d/pipe", "n"), None, refused("d/pipe", "it is not a regular file")),
        (create("outside/a.md", "n"), None, refused("outside/a.md", detour)),
        (create("inside/a.md", "n"), None, refused("inside/a.md", detour)),
        (create("d/old.md/a.md", "n"), None, refused("d/old.md/a.md", detour)),
        (update("d/old.md", "n"), None, Ok(Some(hash("old")))),
        (update("d/new.md", "n"), None, refused("d/new.md", "there is no such file to update")),
        (update("e/new.md", "n"), None, refused("e/new.md", "there is no such file to update")),
        (update("d/young.md", "n"), None, refused("d/young.md", changed)),
        (update("d/young.md", "n"), Some("young"), Ok(Some(hash("young")))),
        (update("d/young.md", "n"), Some("other"), refused("d/young.md", changed)),
        (update("d", "n"), None, refused("d", "it is a directory")),
        (update("d/link.md", "n"), None, refused("d/link.md", "it is a link")),
        (update("inside/x.md", "n"), None, refused("inside/x.md", detour)),
        (
            create("d/.Countersign-t1-0", "n"),
            None,
            refused(
                "d/.Countersign-t1-0",
                "names that begin with `.countersign-` are kept for files in transit",
            ),
        ),
    ] {
        let told = format!("{wanted:?} {own:?}");
        assert_eq!(say(&ground, wanted, &|_| true, &seen, own), expected, "{told}");
    }
}

/// The cases of the envelope's apply stage, by what lies there.
#[test]
fn the_cases_of_the_apply_stage_are_decided() {
    let ground = Ground::new(&[("specs/x/a.md", "same"), ("src/main.rs", "x")]);
    ground.write("specs/y/a.md", "v1 + human edit");
    ground.write("real/keep", "");
    symlink("/etc/hosts", ground.path("specs/link.md")).expect("link");
    symlink("/tmp", ground.path("specs/d")).expect("link");
    symlink("../real", ground.path("specs/e")).expect("link");
    let seen = ground.seen();
    let specs = |path: &str| path.starts_with("specs/");
    for (wanted, own, passes) in [
        (create("specs/x/a.md", "same"), None, true),
        (create("specs/y/a.md", "v2"), Some("v1"), false),
        (create("specs/x", "n"), None, false),
        (update("specs/link.md", "n"), None, false),
        (create("specs/d/a.md", "n"), None, false),
        (create("specs/e/a.md", "n"), None, false),
        (update("src/main.rs", "n"), None, false),
    ] {
        let told = format!("{wanted:?}");
        assert_eq!(say(&ground, wanted, &specs, &seen, own).is_ok(), passes, "{told}");
    }
}

#[test]
fn every_file_that_stands_in_the_way_is_named() {
    let ground = Ground::new(&[("a.md", "a")]);
    let all = [create("a.md", "n"), create("ok.md", "n"), update("b.md", "n"), create("c.md", "n")];
    let refused =
        plan(&ground.root, &wishes(&all), &|path| path != "c.md", &ground.seen(), &|_| None)
            .expect_err("refused");
    assert_eq!(
        refused.to_string(),
        "`a.md`: it exists already; `b.md`: there is no such file to update; \
         `c.md`: the step may not write it"
    );
}

#[test]
fn files_beyond_the_limits_are_refused() {
    let ground = Ground::new(&[("a.md", "a")]);
    let large = fs::File::create(ground.path("large")).expect("create");
    large.set_len((64 << 20) + 1).expect("length");
    let seen = ground.seen();
    let said = say(&ground, update("large", "n"), &|_| true, &seen, None);
    assert_eq!(said, Err("`large`: it has more than 67108864 bytes".to_owned()));
    let many: Vec<Wanted> = (0..401).map(|n| create(&format!("d{n}/a.md"), "n")).collect();
    let refused = plan_all(&ground, &many, &seen).expect_err("refused").to_string();
    assert_eq!(refused, "`d400/a.md`: the answer has files in more than 400 directories");
}

#[test]
fn edits_within_one_tick_of_the_clock_show() {
    let ground = Ground::new(&[("a.md", "old")]);
    let whole = ground.path("a.md");
    let written = fs::metadata(&whole).expect("stat").modified().expect("time");
    let seen = Seen::look(&ground.root, &|_| Reach::Within, written).expect("look");
    assert!(plan_all(&ground, &[update("a.md", "n")], &seen).is_ok());
    // As an edit within the same tick leaves it, but for the time of the inode, which cannot be
    // set: the hash alone must tell.
    let text = serde_json::to_string(&seen).expect("json");
    let kept = hash("old").to_string();
    assert!(text.contains(&kept), "{text}");
    let other = text.replace(&kept, &hash("odd").to_string());
    let other: Seen = serde_json::from_str(&other).expect("json");
    assert_eq!(
        plan_all(&ground, &[update("a.md", "n")], &other).expect_err("refused").to_string(),
        "`a.md`: it changed since the agent was started"
    );
    assert!(!serde_json::to_string(&ground.seen()).expect("json").contains("hash"));
}

#[test]
fn an_edit_between_the_look_and_the_plan_is_found_whatever_its_size() {
    for text in ["new", "old", "longer"] {
        let ground = Ground::new(&[("a.md", "old")]);
        let seen = Seen::look(&ground.root, &|_| Reach::Within, SystemTime::now()).expect("look");
        ground.write("other.md", text);
        fs::rename(ground.path("other.md"), ground.path("a.md")).expect("rename");
        let refused = plan_all(&ground, &[update("a.md", "n")], &seen).expect_err(text);
        assert_eq!(refused.to_string(), "`a.md`: it changed since the agent was started");
    }
}

#[test]
fn only_what_a_step_may_write_is_looked_at() {
    let ground = Ground::new(&[
        ("specs/a.md", "a"),
        ("specs/deep/er/b.md", "b"),
        ("specs/.git/config", "c"),
        (".git/config", "d"),
        ("src/main.rs", "e"),
        ("top.md", "f"),
        ("specs/.countersign-t1-0", "g"),
    ]);
    symlink("../src", ground.path("specs/link")).expect("link");
    let asked = RefCell::new(Vec::new());
    let reach = |path: &str| {
        asked.borrow_mut().push(path.to_owned());
        match path {
            "specs" => Reach::Leads,
            _ if path.starts_with("specs/") => Reach::Within,
            _ => Reach::Outside,
        }
    };
    let seen = Seen::look(&ground.root, &reach, later()).expect("look");
    let json = serde_json::to_value(&seen).expect("json");
    let files = json.get("files").and_then(|files| files.as_object()).expect("files");
    assert_eq!(files.keys().collect::<Vec<_>>(), ["specs/a.md", "specs/deep/er/b.md"]);
    assert!(!asked.borrow().iter().any(|path| path.starts_with("src/")));
}

#[test]
fn a_look_at_too_many_names_says_so() {
    let ground = Ground::new(&[("a", ""), ("b", ""), ("c/d", "")]);
    let look = |most| Seen::look_at_most(&ground.root, &|_| Reach::Within, later(), most);
    assert!(look(4).is_ok());
    assert_eq!(
        look(3).expect_err("too many").to_string(),
        "there are more than 3 names where the step may write"
    );
}
