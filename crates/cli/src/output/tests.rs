use std::cell::RefCell;
use std::rc::Rc;

use super::*;

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

fn output(target: Target) -> (Output, Shared, Shared) {
    let (data, talk) = (Shared::default(), Shared::default());
    let stream = |shared: &Shared| Stream { writer: Box::new(shared.clone()), target };
    let output = Output {
        data: stream(&data),
        talk: stream(&talk),
        format: Format::Text,
        status_shown: false,
    };
    (output, data, talk)
}

/// Everything that a terminal obeys or a reader cannot see, in one text.
fn hostile() -> String {
    let ranges = [0x00..=0x1f, 0x7f..=0x9f, 0x200b..=0x200f, 0x202a..=0x202e, 0x2060..=0x206f];
    let single = ['\u{ad}', '\u{61c}', '\u{180e}', '\u{feff}', '\u{e0001}', '\u{e0041}'];
    let hidden = ranges.into_iter().flatten().filter_map(char::from_u32).chain(single);
    format!("before {} after", hidden.collect::<String>())
}

fn is_harmless(text: &str) -> bool {
    let hidden = hostile();
    let hidden = hidden.trim_start_matches("before ").trim_end_matches(" after");
    !text.chars().any(|c| c != '\n' && c != '\t' && hidden.contains(c))
}

#[test]
fn nothing_hidden_reaches_a_terminal_in_an_answer() {
    let (mut output, data, _) = output(Target::Terminal);
    output.line(hostile()).unwrap();
    output.block(hostile()).unwrap();
    output.data_bytes(hostile().as_bytes()).unwrap();
    output.data_bytes(b"\xff\x1b[2J\x9b").unwrap();
    output.json(&hostile()).unwrap();
    assert!(is_harmless(&data.text()), "{:?}", data.text());
    assert!(data.text().contains("\\u{1b}"));
}

#[test]
fn nothing_hidden_is_said_on_any_target() {
    for target in [Target::Bytes, Target::Terminal] {
        let (mut output, _, talk) = output(target);
        output.note(hostile());
        output.success(hostile());
        output.warning(hostile());
        output.hint(hostile());
        let error = CommandError::failed_doing(hostile(), format!("cause {}", hostile()));
        output.error(&error.with_details([hostile()]).with_hint(hostile()));
        assert!(is_harmless(&talk.text()), "{:?}", talk.text());
        // A line break inside of what is quoted could forge a line of ours.
        assert_eq!(talk.text().lines().count(), 8);
    }
}

#[test]
fn bytes_for_a_pipe_are_exact() {
    let (mut output, data, _) = output(Target::Bytes);
    output.data_bytes(hostile().as_bytes()).unwrap();
    assert_eq!(data.text(), hostile());
}

#[test]
fn json_means_the_same_after_hidden_characters_were_spelt_out() {
    let (mut output, data, _) = output(Target::Bytes);
    output.json(&hostile()).unwrap();
    assert!(is_harmless(&data.text()), "{:?}", data.text());
    assert_eq!(serde_json::from_str::<String>(&data.text()).unwrap(), hostile());
}

#[test]
fn colours_mark_the_labels_of_a_terminal_only() {
    let error = CommandError::no("not valid").with_hint("look");
    let (mut coloured, _, talk) = output(Target::ColourTerminal);
    coloured.error(&error);
    assert_eq!(
        talk.text(),
        "\u{1b}[1;31merror\u{1b}[0m: not valid\n\u{1b}[1;36mhint\u{1b}[0m: look\n"
    );
    for target in [Target::Bytes, Target::Terminal] {
        let (mut plain, _, talk) = output(target);
        plain.error(&error);
        assert_eq!(talk.text(), "error: not valid\nhint: look\n");
    }
}

#[test]
fn a_reader_who_has_gone_is_told_nothing() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut output, _, talk) = output(Target::Bytes);
    output.data.writer = Box::new(Closed);
    let ended = output.line("answer").map(|()| Exit::Done);
    assert_eq!(output.end(ended), Exit::Failed);
    assert_eq!(talk.text(), "");
}
