//! `flow check` and `flow graph`: what shows before anything runs.

use super::{HEAD, flow, workspace, write};

#[test]
fn everything_that_is_wrong_with_a_flow_is_found_before_it_runs() {
    let place = workspace();
    let step = |id: &str, rest: &str| {
        format!("[[steps]]\nid = \"{id}\"\nagent = \"a\"\naction = \"x\"\n{rest}")
    };
    let table = [
        (step("a", "needs = [\"b\"]\n"), "no step has the id `b`"),
        (
            step("a", "needs = [\"b\"]\n") + &step("b", "needs = [\"a\"]\n"),
            "waits for itself: `b` → `a` → `b`",
        ),
        (step("a", "") + &step("a", ""), "`a` is the id of steps[0] already"),
        (step("self", ""), "`self` means something else, take another name"),
        (
            step("a", "") + &step("b", "needs = [\"a\"]\non_retry = \"a\"\n"),
            "a loop without a bound: give `max_iterations` here or in `a`",
        ),
        (
            step("a", "on_retry = \"b\"\nmax_iterations = 2\n") + &step("b", "needs = [\"a\"]\n"),
            "step `a` leads back to `b`, which does not come before it",
        ),
        (
            step("a", "writes = [\"out/**\"]\n") + &step("b", "writes = [\"out/x.md\"]\n"),
            "at the same time: let one need the other",
        ),
        (
            step("a", "paths = { spec = \"specs/spec.md\" }\n"),
            "`spec`: `specs/spec.md` is not there, and no step before writes it",
        ),
        (
            step("a", "") + &step("b", "when = { step = \"a\", success = true }\n"),
            "`a` does not come before: add it to `needs`",
        ),
        (
            "[[steps]]\nid = \"a\"\nagent = \"nobody\"\naction = \"x\"\n".to_owned(),
            "no agent is called `nobody`, there are: a, join",
        ),
        (step("a", "writes = [\"../x\"]\n"), "path has a `..` component"),
        (step("a", "when = { file = \"x.json\", equals = 1 }\n"), "needs a `pointer`"),
        (step("a", "max_iteration = 3\n"), "unknown key, did you mean `max_iterations`?"),
        (step("a", "writes = [\"out/{feature}/x\"]\n"), "only `{feature_id}` can stand in braces"),
        (
            "[[steps]]\nid = \"ok\"\napproval = { question = \"?\" }\n".to_owned()
                + &step("b", "needs = [\"ok\"]\nwhen = { step = \"ok\", answer = \"yes\" }\n"),
            "the answer of `ok` must be yes or no",
        ),
        (step("a", "scaffold = true\n"), "the flow has a `feature_id` already"),
        (
            "[[steps]]\nid = \"a\"\napproval = { question = \"?\", answers = [\"x\", \"y\"], \
             default = \"z\" }\n"
                .to_owned(),
            "must be one of: x, y",
        ),
        (
            format!("[budget]\ncalls = 1\n{}{}", step("a", ""), step("b", "")),
            "2 steps run without a condition, each is a call",
        ),
    ];
    for (steps, fault) in table {
        flow(&place, &steps);
        let checked = place.run(&["flow", "check", "flow.toml"]);
        assert!(checked.code == 3 && checked.stderr.contains(fault), "{fault}: {checked}");
        assert!(checked.stderr.contains("`flow.toml` is not a flow"), "{checked}");
        // Nothing is recorded of a flow that cannot run.
        let ran = place.run(&["flow", "run", "flow.toml"]);
        assert_eq!(ran.code, 3, "{ran}");
    }
    let traces = std::fs::read_dir(place.path().join(".countersign/traces"));
    assert_eq!(traces.map_or(0, Iterator::count), 0);
}

#[test]
fn a_flow_that_is_in_order_is_summarised() {
    let place = workspace();
    write(&place, "specs/spec.md", "x");
    flow(
        &place,
        "[[steps]]\nid = \"write\"\nagent = \"a\"\naction = \"create\"\nwrites = [\"out/**\"]\n\
         paths = { spec = \"specs/spec.md\" }\n\
         [[steps]]\nid = \"ok\"\nneeds = [\"write\"]\nmax_iterations = 2\n\
         approval = { question = \"ship?\", on_no = \"write\" }\n",
    );
    let checked = place.run(&["flow", "check", "flow.toml"]);
    let summary = "flow specify, feature 005\nstep write: a (command): create\n     \
                   may write out/**\nstep ok, after write: a person: ship?\n     \
                   may lead back to write, 2 runs at most (bound of ok)\n";
    assert_eq!((checked.code, checked.stdout()), (0, summary), "{checked}");
    let kind = place.run(&["check", "flow", "flow.toml"]);
    assert_eq!((kind.code, kind.stdout()), (0, summary), "{kind}");
    let mermaid = place.run(&["flow", "graph", "flow.toml"]);
    assert!(mermaid.code == 0 && mermaid.stdout().contains("flowchart TD"), "{mermaid}");
    let svg = place.run(&["flow", "graph", "flow.toml", "-o", "flow.svg"]);
    assert_eq!(svg.code, 0, "{svg}");
    let picture = std::fs::read_to_string(place.path().join("flow.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("ship?"), "{picture}");
}

/// A summary goes through a pipe to people and programs that take a line of it for a step.
#[test]
fn no_text_of_a_flow_begins_another_line_of_its_summary() {
    let place = workspace();
    let hostile = r"w\nstep fake: x\r\u001b[2J\u202e\u0085!";
    let told = r"w\u{a}step fake: x\u{d}\u{1b}[2J\u{202e}\u{85}!";
    write(
        &place,
        "flow.toml",
        &format!(
            "workflow = \"{hostile}\"\nfeature_id = \"005\"\n[agents.a]\nkind = \"command\"\n\
             command = [\"sh\", \"agent.sh\"]\n[[steps]]\nid = \"write\"\nagent = \"a\"\n\
             action = \"{hostile}\"\nwrites = [\"out/**\"]\n[[steps]]\nid = \"ok\"\n\
             needs = [\"write\"]\napproval = {{ question = \"{hostile}\" }}\n"
        ),
    );
    let summary = format!(
        "flow {told}, feature 005\nstep write: a (command): {told}\n     may write out/**\n\
         step ok, after write: a person: {told}\n"
    );
    for arguments in [&["flow", "check", "flow.toml"][..], &["check", "flow", "flow.toml"]] {
        let checked = place.run(arguments);
        assert_eq!((checked.code, checked.stdout()), (0, &*summary), "{checked}");
    }
}

#[test]
fn a_flow_of_ten_times_the_size_takes_little_more_than_ten_times_as_long_to_check() {
    let place = workspace();
    let write_flow = |name: &str, branches: usize| {
        let mut text = HEAD.to_owned();
        for branch in 0..branches {
            for depth in 0..10 {
                let needs = match depth {
                    0 => String::new(),
                    _ => format!("needs = [\"s{branch}-{}\"]\n", depth - 1),
                };
                text += &format!(
                    "[[steps]]\nid = \"s{branch}-{depth}\"\nagent = \"a\"\naction = \"x\"\n\
                     {needs}writes = [\"out/{branch}/**\"]\n"
                );
            }
        }
        write(&place, name, &text);
    };
    write_flow("small.toml", 20);
    write_flow("large.toml", 200);
    let time = |name: &str| {
        let times = (0..5).map(|_| {
            let began = std::time::Instant::now();
            let checked = place.run(&["flow", "check", name]);
            assert_eq!(checked.code, 0, "{checked}");
            began.elapsed()
        });
        times.min().unwrap()
    };
    let (small, large) = (time("small.toml"), time("large.toml"));
    println!("200 steps {small:?}, 2,000 steps {large:?}");
    assert!(large < small * 20, "{small:?} {large:?}");
}
