//! The end of a session: the finalisation guard, the audit, and what is recorded when it cannot go on.

use countersign_format::json;
use countersign_format::report::{VerificationReport, VerificationStatus};
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::session::{ExecutionEnd, Outcome, SessionCommand};
use countersign_protocol::{Refusal, Stage};
use countersign_verify::Profile;

use super::{Conductor, Halt, Origin, SessionResult};
use crate::agents::{AuditOpinion, Request};
use crate::keyring::Protection;
use crate::task::PolicyProfile;
use crate::tools::end_survivors;
use crate::workspace::WorkspaceError;
use crate::writer::{WriteError, lock};

impl Conductor {
    fn profile(&self) -> Profile {
        match self.task.policy_profile {
            PolicyProfile::Strict => Profile::STRICT,
            PolicyProfile::Default => Profile::DEFAULT,
            PolicyProfile::Lenient => Profile::LENIENT,
        }
    }

    /// Ends what an interrupted run left: its processes, and the executions of which nobody will ever
    /// know how they ended.
    pub(super) fn recover(&self) -> Result<(), Halt> {
        if self.origin == Origin::New {
            return Ok(());
        }
        // Nothing is built upon events that this workspace did not record.
        self.check_prefix()?;
        let marker = self.session.id().to_string();
        let doing = "end what an earlier run left running";
        end_survivors(&marker).map_err(|source| WorkspaceError::Io { doing, source })?;
        let open: Vec<_> = self.session.look(|state| {
            let running = state.executions.iter();
            running.map(|(&seq, running)| (seq, running.event_id.clone())).collect()
        })?;
        for (seq, event_id) in open {
            let ended = ExecutionEnd {
                execution: countersign_format::event::EventRef { event_id, seq },
                outcome: Outcome::Unknown("the run was interrupted while it was under way".into()),
                exit_status: None,
                stdout: None,
                stderr: None,
                dropped_bytes: 0,
                elapsed_ms: None,
                redactions: Vec::new(),
                given_up: false,
            };
            self.record(Role::Executor, SessionCommand::End(Box::new(ended)))?;
        }
        Ok(())
    }

    /// The finalisation guard: nothing is concluded upon a trace that does not hold.
    pub(super) fn check_prefix(&self) -> Result<(), Halt> {
        let report = self.session.check_prefix(self.profile())?;
        match report.failures.first() {
            None => Ok(()),
            Some(failure) => {
                let code = failure.failure_code.as_str();
                Err(Halt::Broken(format!("{code}: {}", failure.message)))
            }
        }
    }

    /// The audit: what the verifier finds, and what the auditor says to it.
    pub(super) fn audit(&self) -> Result<VerificationReport, Halt> {
        let begun = self.session.look(|state| matches!(state.stage, Stage::Auditing(_)))?;
        if !begun {
            let profile = self.task.policy_profile.as_str().to_owned();
            self.record(Role::Auditor, SessionCommand::StartAudit { profile })?;
        }
        let report = self.session.audit(self.profile())?;
        let value = serde_json::to_value(&report).unwrap_or_default();
        let (opinion, artifacts): (AuditOpinion, _) =
            self.ask(&Request::Audit { report: &value })?;
        if !opinion.accept && report.verification_status != VerificationStatus::Fail {
            return Err(Halt::NotAccepted(self.clean(&opinion.reason), artifacts));
        }
        let bytes = json::to_bytes(&value);
        let stored = self.session.workspace().put_artifact(&bytes, "application/json")?;
        let command = SessionCommand::CompleteAudit {
            status: report.verification_status,
            report_id: report.report_id.clone(),
            report: Box::new(stored),
            artifacts,
        };
        self.record(Role::Auditor, command)?;
        Ok(report)
    }

    /// Records how the run ended, where that is not recorded yet.
    pub(super) fn end(
        self,
        outcome: Result<VerificationReport, Halt>,
    ) -> Result<SessionResult, WorkspaceError> {
        let report = match outcome {
            Ok(report) => Some(report),
            Err(halt) => {
                self.record_halt(halt)?;
                None
            }
        };
        match self.catch_up() {
            Ok(()) => {}
            Err(Halt::Error(error)) => return Err(error),
            // What cannot be read is for the verifier to tell.
            Err(_) => {}
        }
        let workspace = self.session.workspace();
        workspace.keep_summary(self.session.id());
        let (statement, reason) = self.board(|board| (board.statement.take(), board.reason.take()));
        let status = self.session.look(|state| state.ended)?.unwrap_or(TraceStatus::Running);
        let log_lag = lock(&self.log_lag).take();
        Ok(SessionResult { status, statement, reason, report, log_lag })
    }

    fn record_halt(&self, halt: Halt) -> Result<(), WorkspaceError> {
        let fail = |reason: String, code: &str, role, artifacts| SessionCommand::Fail {
            reason: self.clean(&reason),
            failure_code: code.to_owned(),
            role,
            artifacts,
        };
        let command = match halt {
            Halt::Error(error) => return Err(error),
            Halt::EndedElsewhere => return Ok(()),
            Halt::Stopped => self.interruption()?,
            Halt::TimeUp => {
                let seconds = self.task.limits.time_seconds;
                fail(format!("it took longer than {seconds} s"), "TIME_LIMIT", None, Vec::new())
            }
            Halt::Agent(failure, artifacts) => {
                fail(failure.to_string(), "AGENT_FAILED", Some(failure.role), artifacts)
            }
            Halt::NotAccepted(reason, artifacts) => {
                let reason = format!("the auditor does not accept the report: {reason}");
                fail(reason, "AUDIT_REFUSED", Some(Role::Auditor), artifacts)
            }
            Halt::Refused(role, refusal) => {
                let reason =
                    format!("the {} wanted what the rules forbid: {refusal}", role.as_str());
                let role =
                    matches!(role, Role::Planner | Role::Executor | Role::Critic | Role::Auditor)
                        .then_some(role);
                fail(reason, "RULE_BROKEN", role, Vec::new())
            }
            Halt::Broken(reason) => {
                let reason = format!("the trace does not hold: {reason}");
                fail(reason, "INTEGRITY", None, Vec::new())
            }
            Halt::NothingDone(reason) => {
                fail(format!("nothing was executed: {reason}"), "NOTHING_DONE", None, Vec::new())
            }
        };
        match self.session.submit(command) {
            Ok(recorded) => {
                if let Some(lag) = recorded.log_lag {
                    *lock(&self.log_lag) = Some(lag);
                }
                Ok(())
            }
            // Somebody else ended it meanwhile.
            Err(WriteError::Refused(Refusal::Ended { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What is recorded when a person stops the run. Where the operator's key is under a passphrase
    /// nobody can sign for the operator now, and the recorder says what it saw.
    fn interruption(&self) -> Result<SessionCommand, WorkspaceError> {
        let reason = "interrupted".to_owned();
        Ok(match self.session.workspace().operator_protection()? {
            Protection::Passphrase => SessionCommand::Fail {
                reason: "interrupted, with the operator's key locked".to_owned(),
                failure_code: "INTERRUPTED".to_owned(),
                role: None,
                artifacts: Vec::new(),
            },
            _ => SessionCommand::Abort { reason },
        })
    }
}
