//! What a person sees while a flow runs, and when it is over.

use std::time::{Duration, Instant};

use countersign_format::event::{Event, EventType};
use countersign_protocol::State as _;
use countersign_protocol::flow::{Due, FlowOutcome, FlowState, OpenQuestion, StepPhase};
use countersign_runtime::flow::FlowEnd;
use serde_json::Value;

use crate::prompt::Prompt;
use crate::{Caller, CommandError, Format};

/// Long work shows itself after this time.
const STATUS_AFTER: Duration = Duration::from_millis(250);
/// Characters of one sentence.
const SENTENCE_CHARACTERS_MAX: usize = 160;
/// Steps that the status names.
const NAMED_MAX: usize = 4;
/// Steps that the summary lists, those that went well left out beyond it.
const LISTED_MAX: usize = 40;

pub(super) struct FlowScreen {
    state: FlowState,
    prompt: Prompt,
    began: Instant,
    quiet_since: Instant,
    events: u64,
    /// Events that were recorded before this run.
    earlier: u64,
}

impl FlowScreen {
    pub(super) fn new(prompt: Prompt, earlier: u64) -> Self {
        let now = Instant::now();
        Self {
            state: FlowState::default(),
            prompt,
            began: now,
            quiet_since: now,
            events: 0,
            earlier,
        }
    }

    /// Shows an event: as itself to a program, as a sentence to a person.
    pub(super) fn event(&mut self, event: &Event, caller: &mut Caller) -> Result<(), CommandError> {
        self.events += 1;
        let before = self.step_of(event);
        self.state.apply(event);
        let step = self.step_of(event).or(before);
        let sentence = self.sentence(event, step);
        // What was recorded before this run is not shown as if it happened now.
        if self.events <= self.earlier {
            self.prompt.note(event);
            if self.events == self.earlier {
                self.resumed(&event.trace_id, caller);
                return self.prompt.ask(caller);
            }
            return Ok(());
        }
        self.prompt.leave_line(caller);
        self.prompt.note(event);
        if caller.output.format() == Format::Json {
            caller.output.json(event)?;
            caller.output.flush()?;
        } else {
            caller.output.clear_status();
            if event.event_type == EventType::FlowStarted {
                caller.output.note(format_args!("flow {}", event.trace_id));
            }
            let id = step.map(|at| self.id(at)).unwrap_or_default();
            caller.output.note(self.line(id, &sentence));
        }
        self.quiet_since = Instant::now();
        if self.prompt.is_open() {
            self.prompt.redraw(caller);
            return Ok(());
        }
        self.prompt.ask(caller)
    }

    fn resumed(&self, trace: &str, caller: &mut Caller) {
        if caller.output.format() == Format::Text {
            let done = self.count(|phase| matches!(phase, StepPhase::Done | StepPhase::Skipped));
            let steps = self.state.steps.len();
            caller.output.note(format_args!(
                "flow {trace} goes on: {} events, {done} of {steps} steps done",
                self.earlier
            ));
        }
    }

    fn id(&self, at: usize) -> &str {
        self.state.route.step(at).map(|step| step.id.as_str()).unwrap_or_default()
    }

    fn line(&self, step: &str, sentence: &str) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let sentence = sentence.replace('\n', " ");
        let short = match sentence.char_indices().nth(SENTENCE_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", sentence.get(..end).unwrap_or_default()),
            None => sentence,
        };
        format!("{elapsed:>7.2} s  {step:<12}  {short}")
    }

    /// The step that an event is about, before or after it is taken in.
    fn step_of(&self, event: &Event) -> Option<usize> {
        if let Some(step) = event.payload.get("step").and_then(Value::as_str) {
            return self.state.route.place(step);
        }
        let named = ["dispatch", "answer", "question"].into_iter();
        let seq = named.filter_map(|name| event.payload.get(name)?.get("seq")?.as_u64()).next()?;
        self.state.steps.iter().position(|step| match &step.phase {
            StepPhase::Running { dispatch, .. } => dispatch.seq == seq,
            StepPhase::Applying { answer, .. } => {
                answer.seq == seq || event.seq == Some(answer.seq)
            }
            StepPhase::Asked(open) => open.event.seq == seq,
            _ => false,
        })
    }

    fn sentence(&self, event: &Event, step: Option<usize>) -> String {
        use EventType as T;
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| event.payload.get(name).and_then(Value::as_u64);
        let after = step.map(|at| self.leads_to(at)).unwrap_or_default();
        let after = after.as_str();
        match event.event_type {
            T::FlowStarted => {
                let steps = match self.state.steps.len() {
                    1 => "1 step".to_owned(),
                    count => format!("{count} steps"),
                };
                format!("begins `{}` with {steps}", self.state.workflow)
            }
            T::StepDispatched => {
                let (iteration, attempt) = (number("iteration"), number("attempt"));
                let again = match (iteration, attempt) {
                    (Some(1), Some(1)) => String::new(),
                    (Some(iteration), Some(1)) => format!(", iteration {iteration}"),
                    (iteration, attempt) => format!(
                        ", iteration {}, attempt {}",
                        iteration.unwrap_or_default(),
                        attempt.unwrap_or_default()
                    ),
                };
                format!("calls its agent{again}")
            }
            T::StepSkipped => "skipped: its condition does not hold".to_owned(),
            T::StepAnswered => self.answered(event, after),
            T::FilesApplied => match event.payload.get("refused").and_then(Value::as_str) {
                Some(reason) => format!("writes nothing: {reason}; {after}"),
                None => {
                    let files = event.payload.get("files").and_then(Value::as_array);
                    let count = files.map_or(0, Vec::len);
                    let files = if count == 1 { "file" } else { "files" };
                    format!("wrote {count} {files}; {after}")
                }
            },
            T::StepEscalated if event.payload.get("answers").is_none() => {
                format!("exhausted: {}", text("question"))
            }
            T::StepEscalated => format!("asks a person: {}", text("question")),
            T::AnswerGiven => {
                let answer = event.payload.get("answer").map(words).unwrap_or_default();
                let by = match text("channel") {
                    "deadline" => "nobody answered in time",
                    _ => "a person answered",
                };
                format!("{by}: {answer}; {after}")
            }
            T::FlowFinished => format!("{}: {}", text("outcome"), text("summary")),
            other => other.as_str().replace('_', " "),
        }
    }

    fn answered(&self, event: &Event, after: &str) -> String {
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str).unwrap_or_default();
        let seconds = event.payload.get("elapsed_ms").and_then(Value::as_u64).unwrap_or_default();
        let took = format!("{:.1} s", seconds as f64 / 1_000.0);
        if let Some(error) = event.payload.get("protocol_error").and_then(Value::as_str) {
            return format!("no answer ({took}): {error}; {after}");
        }
        if let Some(reason) = event.payload.get("files_refused").and_then(Value::as_str) {
            return format!("its files are refused ({took}): {reason}; {after}");
        }
        if let Some(paths) = event.payload.get("undeclared_changes").and_then(Value::as_array) {
            let paths: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
            let paths = paths.join(", ");
            return format!("violation ({took}): changed without declaring it: {paths}; {after}");
        }
        let success = event.payload.get("success").and_then(Value::as_bool).unwrap_or_default();
        let how = if success { "succeeded" } else { "failed" };
        let says = text("recommendation");
        format!("{how}, says {says} ({took}): {}; {after}", text("summary"))
    }

    /// What comes next for a step.
    fn leads_to(&self, at: usize) -> String {
        let back = self.state.route.step(at).and_then(|step| step.way_back());
        match self.state.phase(at) {
            Some(StepPhase::Returning { .. } | StepPhase::Waiting { due: Due::First }) => {
                format!("back to {}", back.unwrap_or_default())
            }
            Some(StepPhase::Waiting { .. }) => "runs again".to_owned(),
            Some(StepPhase::Applying { .. }) => "writes its files".to_owned(),
            Some(StepPhase::Stuck { .. }) => "cannot go on by itself".to_owned(),
            Some(other) => other.as_str().to_owned(),
            None => String::new(),
        }
    }

    pub(super) fn remind(&mut self, question: &OpenQuestion, caller: &mut Caller) {
        caller.output.clear_status();
        self.prompt.leave_line(caller);
        let id = &question.event.event_id;
        caller.output.note(format_args!("reminder: {} (question {id})", question.question));
        self.prompt.redraw(caller);
        self.quiet_since = Instant::now();
    }

    /// Says that a session which is a step waits for a person.
    pub(super) fn session_asks(&mut self, session: &str, caller: &mut Caller) {
        caller.output.clear_status();
        self.prompt.leave_line(caller);
        caller.output.note(format_args!("session {session} asks a person"));
        caller.output.hint("run `countersign approve` to see what it asks, and to answer");
        self.prompt.redraw(caller);
        self.quiet_since = Instant::now();
    }

    /// Shows that something is under way, and looks for an answer at the terminal.
    pub(super) fn tick(&mut self, caller: &mut Caller) -> Result<(), CommandError> {
        self.prompt.poll(caller)?;
        let quiet = self.quiet_since.elapsed();
        if quiet < STATUS_AFTER || self.prompt.is_open() {
            return Ok(());
        }
        let all = self.began.elapsed().as_secs_f64();
        let done = self.count(|phase| matches!(phase, StepPhase::Done | StepPhase::Skipped));
        let steps = self.state.steps.len();
        let running = self.named(|phase| matches!(phase, StepPhase::Running { .. }));
        let asked = self.named(|phase| matches!(phase, StepPhase::Asked(_)));
        let mut what = Vec::new();
        if !running.is_empty() {
            what.push(format!("running {running}"));
        }
        if !asked.is_empty() {
            what.push(format!("waiting for a person: {asked}"));
        }
        let what = what.join(", ");
        caller.output.status(format_args!("{all:>7.2} s  {done} of {steps} done  … {what}"));
        Ok(())
    }

    fn count(&self, which: impl Fn(&StepPhase) -> bool) -> usize {
        self.state.steps.iter().filter(|step| which(&step.phase)).count()
    }

    fn named(&self, which: impl Fn(&StepPhase) -> bool) -> String {
        let steps = self.state.steps.iter().enumerate().filter(|(_, step)| which(&step.phase));
        let names: Vec<&str> = steps.map(|(at, _)| self.id(at)).collect();
        let more = names.len().saturating_sub(NAMED_MAX);
        let some = names.get(..names.len().min(NAMED_MAX)).unwrap_or_default().join(", ");
        if more > 0 { format!("{some} and {more} more") } else { some }
    }

    /// What a person reads in ten seconds, the outcome last.
    pub(super) fn summary(
        &self,
        end: &FlowEnd,
        id: &str,
        caller: &mut Caller,
    ) -> Result<(), CommandError> {
        let output = &mut caller.output;
        output.line("")?;
        let feature = self.state.feature_id.as_deref().unwrap_or("none yet");
        output.line(format_args!("flow      {}, feature {feature}", self.state.workflow))?;
        let steps = &self.state.steps;
        let width = (0..steps.len()).map(|at| self.id(at).len()).max().unwrap_or_default();
        let many = steps.len() > LISTED_MAX;
        for (at, step) in steps.iter().enumerate() {
            if many && matches!(step.phase, StepPhase::Done | StepPhase::Skipped) {
                continue;
            }
            let runs = match step.iteration {
                0 | 1 => String::new(),
                runs => format!(", ran {runs} times"),
            };
            let id = self.id(at);
            let phase = match &step.phase {
                StepPhase::Waiting { .. } if end.outcome.is_some() => "not reached",
                phase => phase.as_str(),
            };
            let why = match (&step.phase, &step.answer) {
                (StepPhase::Failed { reason } | StepPhase::Exhausted { reason }, _) => {
                    format!(": {}", cut(reason))
                }
                (_, Some(answer)) => format!(": {}", cut(&words(answer))),
                _ => String::new(),
            };
            output.line(format_args!("          {id:<width$}  {phase}{runs}{why}"))?;
        }
        let done = self.count(|phase| matches!(phase, StepPhase::Done | StepPhase::Skipped));
        if many {
            output.line(format_args!("          {done} of {} steps done", steps.len()))?;
        }
        output.line(format_args!("files     {} written", self.state.written.len()))?;
        output.line(format_args!("trace     {id}"))?;
        output.line(format_args!(
            "          {} events; check it: countersign verify {id}",
            self.events
        ))?;
        let outcome = match end.outcome {
            Some(FlowOutcome::Completed) => "completed".to_owned(),
            // What the steps say stands above.
            Some(outcome) if end.summary.starts_with("step `") => outcome.as_str().to_owned(),
            Some(outcome) => format!("{}: {}", outcome.as_str(), end.summary),
            None => "open: it can be resumed".to_owned(),
        };
        output.line(format_args!("outcome   {outcome}"))
    }
}

/// An answer as a person would say it.
fn words(answer: &Value) -> String {
    match (answer, answer.get("decision").and_then(Value::as_str)) {
        (_, Some("retry")) => answer.get("answer").map(words).unwrap_or_default(),
        (_, Some("continue")) => "go on as it is".to_owned(),
        (_, Some(decision)) => decision.to_owned(),
        (Value::Bool(true), _) => "yes".to_owned(),
        (Value::Bool(false), _) => "no".to_owned(),
        (Value::Null, _) => "no answer".to_owned(),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

/// As much of a text as a line of the summary takes.
fn cut(text: &str) -> String {
    let text = text.replace('\n', " ");
    match text.char_indices().nth(SENTENCE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
