//! Reading what somebody writes to at the same moment: what is not there yet is no fault.

#![cfg(test)]

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::sync::Mutex;

use countersign_format::hash::Hash;
use countersign_format::report::VerificationReport;
use countersign_testkit::TestHome;
use countersign_testkit::session::SessionStory;
use countersign_verify::{
    FileSource, KnownLog, Options, Profile, Source, StoredArtifact, verify, verify_all,
};

/// A file that ends in the middle of a line when it is first read to its end, and is whole after that.
struct Growing<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where it ended at that moment, until somebody has seen it.
    end: Option<usize>,
}

impl Read for Growing<'_> {
    fn read(&mut self, mut room: &mut [u8]) -> io::Result<usize> {
        let end = self.end.unwrap_or(self.bytes.len());
        let got = room.write(&self.bytes[self.at..end])?;
        self.at += got;
        if got == 0 {
            self.end = None;
        }
        Ok(got)
    }
}

/// A session whose ledger or log somebody writes to while it is verified.
struct Written<'a> {
    story: &'a SessionStory,
    events: Vec<u8>,
    log: Vec<u8>,
    events_end: Option<usize>,
    log_end: Option<usize>,
}

fn bytes(reader: Box<dyn BufRead + '_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    BufReader::new(reader).read_to_end(&mut bytes).unwrap();
    bytes
}

impl<'a> Written<'a> {
    fn new(story: &'a SessionStory) -> Self {
        let (events, log) = (bytes(story.events().unwrap()), bytes(story.log().unwrap().unwrap()));
        Self { story, events, log, events_end: None, log_end: None }
    }
}

impl Source for Written<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let growing = Growing { bytes: &self.events, at: 0, end: self.events_end };
        Ok(Box::new(BufReader::new(growing)))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        let growing = Growing { bytes: &self.log, at: 0, end: self.log_end };
        Ok(Some(Box::new(BufReader::new(growing))))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        self.story.artifact(hash)
    }
}

/// The start of the last line, and places in it: right at its beginning, anywhere, before its end.
fn places(bytes: &[u8]) -> Vec<usize> {
    let start = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    let anywhere = (start + 1..bytes.len() - 1).step_by(61);
    anywhere.chain([start, bytes.len() - 1]).collect()
}

fn warnings(report: &VerificationReport) -> Vec<&str> {
    report.warnings.iter().map(|it| it.warning_code.as_str()).collect()
}

/// Sessions write to one log. What another one is writing there is not whole for a moment, and the
/// half of it that comes later was taken for an entry that somebody broke: the audit failed.
#[test]
fn an_entry_that_another_is_writing_to_the_log_fails_no_audit() {
    let story = SessionStory::whole();
    let options = story.options(Profile::STRICT);
    let mut written = Written::new(&story);
    for place in places(&written.log) {
        written.log_end = Some(place);
        let alone = verify(&written, &options).unwrap();
        assert_eq!(alone.failures, [], "the log ended at {place}");
        let known = KnownLog::read(&written, options.profile).unwrap().unwrap();
        let among_others = known.verify(&written, &options).unwrap();
        assert_eq!(among_others.failures, [], "the log ended at {place}");
        assert_eq!(known.report(&options).failures, [], "the log ended at {place}");
    }
}

/// The log is read after the first lines, and may know of those that were not there yet.
#[test]
fn an_event_that_is_being_written_to_the_trace_is_found_once_the_log_was_read() {
    let story = SessionStory::whole();
    let options = story.options(Profile::STRICT);
    let mut written = Written::new(&story);
    let wanted = verify(&written, &options).unwrap();
    assert_eq!((wanted.failures.as_slice(), warnings(&wanted)), (&[][..], vec![]));
    for place in places(&written.events) {
        written.events_end = Some(place);
        let mut found = verify(&written, &options).unwrap();
        found.metrics.elapsed_ms = wanted.metrics.elapsed_ms;
        assert_eq!(found, wanted, "the trace ended at {place}");
    }
}

/// What ends in the middle of a line and stays so is told, and is no event.
#[test]
fn a_line_that_nobody_goes_on_with_is_still_a_torn_tail() {
    let story = SessionStory::whole();
    let options = story.options(Profile::STRICT);
    let mut written = Written::new(&story);
    written.log.extend_from_slice(b"{\"actor\"");
    let report = verify(&written, &options).unwrap();
    assert_eq!((report.failures.as_slice(), warnings(&report)), (&[][..], vec!["TORN_TAIL"]));
    written.events.extend_from_slice(b"{\"actor\"");
    let report = verify(&written, &options).unwrap();
    assert_eq!(report.failures, []);
    assert_eq!(warnings(&report), ["TORN_TAIL", "TORN_TAIL"]);
}

/// Traces are listed before the log is read, which may know of one that began in between.
#[test]
fn a_trace_that_began_after_the_others_were_listed_is_not_gone() {
    let home = TestHome::new();
    let mut ids = [home.recording().id().to_string(), home.recording().id().to_string()];
    ids.sort();
    let traces = home.path().join("traces");
    let (late, aside) = (traces.join(&ids[1]), home.path().join("aside"));
    std::fs::rename(&late, &aside).unwrap();
    let shared = FileSource::in_home(&home.path(), home.path().join("none"));
    let options = Options {
        trusted_roots: [home.workspace.root()].into(),
        expect_trace: None,
        ..SessionStory::whole().options(Profile::STRICT)
    };
    let seen = Mutex::new(Vec::new());
    let log = verify_all(&shared, &traces, &options, &mut |verdict| {
        if aside.exists() {
            std::fs::rename(&aside, &late)?;
        }
        let failures = verdict.report?.failures;
        seen.lock().unwrap().push((verdict.trace_id, verdict.present, failures));
        Ok(())
    });
    assert_eq!(log.unwrap().unwrap().failures, []);
    let wanted: Vec<_> = ids.into_iter().map(|id| (id, true, Vec::new())).collect();
    assert_eq!(seen.into_inner().unwrap(), wanted);
}
