//! Work items: leases, phases, exits, and clocks that do not behave.
#![cfg(test)]

use countersign_format::event::{Actor, Event, EventType, SCHEMA_VERSION};
use countersign_format::exit::{ExitReason, ExitSignal, HandlerRefusal, WorkPhase};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::work::{
    Bearer, CiVerdict, Claimant, LEASE_MILLIS_MAX, Releaser, STOPPED, SignalChannel, WorkCommand,
    WorkExit, WorkOpening, WorkRefusal, WorkState,
};
use countersign_protocol::{By, Context, LogPin, Refusal, State as _};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const START: i64 = 1_770_091_506_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// A work item as the recorder keeps it: events are dated by a clock that never goes back.
#[derive(Debug, Clone)]
struct Item {
    state: WorkState,
    events: Vec<Event>,
    /// What the clock says.
    raw: i64,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn pin() -> LogPin {
    LogPin {
        origin: "countersign/test".to_owned(),
        size: 1,
        head: Hash::GENESIS,
        keys_head: Hash::GENESIS,
    }
}

impl Item {
    fn opened(phase: WorkPhase, author_may_review: bool) -> Self {
        let mut item = Self { state: WorkState::default(), events: Vec::new(), raw: START };
        let opening = WorkOpening {
            log: pin(),
            title: "say hello".to_owned(),
            label: Some("W-00042".to_owned()),
            phase,
            author_may_review,
            links: None,
        };
        item.submit(WorkCommand::Open(Box::new(opening))).unwrap();
        item
    }

    fn new() -> Self {
        Self::opened(WorkPhase::Draft, false)
    }

    fn context(&self) -> Context {
        let last = self.events.last().map_or(i64::MIN, |event| event.created_at.as_millis());
        let seq = self.events.len() as u64;
        let now = at(self.raw.max(last));
        let next_id = Ulid::from_parts(at(START), u128::from(seq) + 1);
        Context { now, raw: at(self.raw), next_id, next_seq: seq }
    }

    fn event(&self, role: Role, event_type: EventType, payload: Value) -> Event {
        let context = self.context();
        Event {
            actor: Actor {
                agent_id: role.as_str().to_owned(),
                key_id: "key".to_owned(),
                role,
                unknown: Map::new(),
            },
            artifacts: Vec::new(),
            claims: Vec::new(),
            created_at: context.now,
            event_hash: Hash::GENESIS,
            event_id: context.next_id.to_string(),
            event_type,
            payload,
            payload_hash: Hash::GENESIS,
            payload_type: event_type.as_str().to_owned(),
            prev_event_hash: Hash::GENESIS,
            raw_clock: (context.raw < context.now).then_some(context.raw),
            schema_version: SCHEMA_VERSION.to_owned(),
            seq: Some(context.next_seq),
            signature: Value::Null,
            trace_id: "01".to_owned(),
            unknown: Map::new(),
        }
    }

    /// Decides, admits and applies, as the recorder does.
    fn submit(&mut self, command: WorkCommand) -> Result<Vec<EventType>, Refusal> {
        let acts = self.state.decide(command, &self.context())?;
        let mut after = self.clone();
        for act in acts {
            let By::Role(role) = act.by else { panic!("the root signs nothing here") };
            let event = after.event(role, act.draft.event_type, act.draft.payload);
            after.state.admit(&event)?;
            after.state.apply(&event);
            after.events.push(event);
        }
        let recorded = after.events.split_off(self.events.len());
        after.events = [std::mem::take(&mut self.events), recorded.clone()].concat();
        *self = after;
        Ok(recorded.iter().map(|event| event.event_type).collect())
    }

    fn claim(&mut self, holder: &str) -> Result<u64, Refusal> {
        self.claim_as(holder, MINUTE, false)
    }

    fn claim_as(&mut self, holder: &str, millis: i64, ci: bool) -> Result<u64, Refusal> {
        let session_id = format!("session-{}", self.state.epoch + 1);
        let holder = holder.to_owned();
        let claimant = if ci { Claimant::Ci } else { Claimant::Agent };
        self.submit(WorkCommand::Claim { holder, session_id, millis, claimant })?;
        Ok(self.state.epoch)
    }

    fn exit(&mut self, epoch: u64, signal: ExitSignal) -> Option<String> {
        self.exit_with(epoch, signal, None)
    }

    fn exit_as(&mut self, by: Bearer, epoch: u64, signal: ExitSignal) -> Option<String> {
        self.leave(by, epoch, signal, None)
    }

    /// Why the signal was refused, if it was.
    fn exit_with(
        &mut self,
        epoch: u64,
        signal: ExitSignal,
        ci: Option<CiVerdict>,
    ) -> Option<String> {
        self.leave(Bearer::Session(format!("session-{epoch}")), epoch, signal, ci)
    }

    fn leave(
        &mut self,
        by: Bearer,
        epoch: u64,
        signal: ExitSignal,
        ci: Option<CiVerdict>,
    ) -> Option<String> {
        let before = self.state.clone();
        let events = self
            .submit(WorkCommand::Exit(Box::new(WorkExit {
                epoch,
                by,
                signal,
                channel: SignalChannel::Descriptor,
                stored: None,
                evidence: None,
                commit: None,
                ci,
                links: None,
            })))
            .unwrap();
        if events == [EventType::ExitRefused] {
            let unchanged = WorkState { clock: self.state.clock.clone(), ..before };
            assert_eq!(self.state, unchanged, "a refused exit changes nothing");
            let refused = self.events.last().unwrap();
            return Some(refused.payload["reason"].as_str().unwrap().to_owned());
        }
        None
    }

    /// Through the phase that it is in.
    fn through(&mut self, holder: &str) {
        let phase = self.state.phase;
        let ci = phase == WorkPhase::CiPending;
        let epoch = self.claim_as(holder, MINUTE, ci).unwrap();
        let verdict = ci.then(|| passed(0));
        assert_eq!(self.exit_with(epoch, signal(phase, ExitReason::Completed), verdict), None);
    }
}

fn signal(phase: WorkPhase, reason: ExitReason) -> ExitSignal {
    ExitSignal::new(phase, reason)
}

fn passed(status: i32) -> CiVerdict {
    CiVerdict {
        exit_status: Some(status),
        reason: None,
        commit: Some("c0ffee".to_owned()),
        uncommitted_changes: false,
    }
}

fn refused(refusal: WorkRefusal) -> Refusal {
    Refusal::Work(refusal)
}

#[test]
fn an_item_goes_from_draft_to_completed_with_one_event_for_each_claim_and_each_exit() {
    let mut item = Item::new();
    let mut phases = vec![item.state.phase];
    for holder in ["drafter", "author", "ci", "coordinator", "critic", "merger"] {
        item.through(holder);
        phases.push(item.state.phase);
    }
    let names: Vec<&str> = phases.iter().map(|phase| phase.as_str()).collect();
    assert_eq!(
        names,
        [
            "DRAFT",
            "IMPLEMENTATION",
            "CI_PENDING",
            "READY_FOR_REVIEW",
            "REVIEW",
            "READY_FOR_MERGE",
            "COMPLETED"
        ]
    );
    assert_eq!(item.events.len(), 1 + 2 * 6);
    assert_eq!(
        (item.state.ended(), item.state.lease.clone()),
        (Some(TraceStatus::Succeeded), None)
    );
}

#[test]
fn nothing_leaves_completed_and_the_attempt_is_recorded() {
    let mut item = Item::opened(WorkPhase::ReadyForMerge, false);
    item.through("merger");
    assert_eq!(
        item.claim("merger"),
        Err(refused(WorkRefusal::NotClaimable { phase: WorkPhase::Completed }))
    );
    for reason in ExitReason::ALL {
        let said = item.exit(2, signal(WorkPhase::Completed, reason));
        assert_eq!(said.as_deref(), Some("lease 2 holds nothing any more"));
    }
    assert_eq!(item.state.phase, WorkPhase::Completed);
}

#[test]
fn every_phase_and_reason_leads_where_the_table_says() {
    use ExitReason::{Blocked, Completed, Error};
    for phase in [
        WorkPhase::Draft,
        WorkPhase::Implementation,
        WorkPhase::CiPending,
        WorkPhase::ReadyForReview,
        WorkPhase::Review,
        WorkPhase::ReadyForMerge,
    ] {
        for reason in [Completed, Blocked, Error] {
            let mut item = Item::opened(phase, false);
            let ci = phase == WorkPhase::CiPending;
            let epoch = item.claim_as("somebody", MINUTE, ci).unwrap();
            let verdict = ci.then(|| passed(i32::from(reason != Completed)));
            assert_eq!(item.exit_with(epoch, signal(phase, reason), verdict), None);
            let (next, from) = match reason {
                Completed => (phase.after_completion().unwrap(), None),
                Blocked | Error => (WorkPhase::Blocked, Some(phase)),
            };
            assert_eq!((item.state.phase, item.state.blocked_from), (next, from));
        }
    }
}

#[test]
fn a_signal_for_another_phase_is_refused_with_the_words_of_the_specification() {
    let mut item = Item::new();
    let epoch = item.claim("drafter").unwrap();
    let said = item.exit(epoch, signal(WorkPhase::Review, ExitReason::Completed));
    let expected =
        HandlerRefusal::PhaseMismatch { claimed: WorkPhase::Review, actual: WorkPhase::Draft };
    assert_eq!(said, Some(expected.to_string()));
    assert_eq!(item.exit(epoch, signal(WorkPhase::Draft, ExitReason::Completed)), None);
}

/// Whoever learns the number of a lease and what was said is still somebody else.
#[test]
fn an_exit_is_taken_and_repeated_for_its_own_holder_or_session_alone() {
    let holder = |name: &str| Bearer::Holder(name.to_owned());
    let session = |id: &str| Bearer::Session(id.to_owned());
    let mut item = Item::new();
    let epoch = item.claim("a").unwrap();
    let said = signal(WorkPhase::Draft, ExitReason::Completed);
    let strangers = [
        (holder("b"), "lease 1 belongs to `a`, not to `b`"),
        (session("session-2"), "lease 1 belongs to another session"),
    ];
    for left in [false, true] {
        for (by, reason) in &strangers {
            let refused = item.exit_as(by.clone(), epoch, said.clone());
            assert_eq!(refused.as_deref(), Some(*reason), "left: {left}");
            let recorded = &item.events.last().unwrap().payload;
            let named = if let Bearer::Session(id) = by { json!(id) } else { Value::Null };
            assert_eq!(recorded["session_id"], named);
        }
        // The first time it is taken, the second time repeated without an event.
        let events = item.events.len();
        for by in [holder("a"), session("session-1")] {
            assert_eq!(item.exit_as(by, epoch, said.clone()), None);
        }
        assert_eq!(item.events.len(), events + usize::from(!left));
    }
    let left = item.events.iter().find(|it| it.event_type == EventType::AgentSessionCompleted);
    assert_eq!(left.unwrap().payload["session_id"], json!("session-1"));
}

#[test]
fn a_claim_by_hand_is_no_attempt() {
    let mut item = Item::new();
    let by_hand = |item: &mut Item| {
        item.submit(WorkCommand::Claim {
            holder: "alice".to_owned(),
            session_id: "by-hand".to_owned(),
            millis: MINUTE,
            claimant: Claimant::ByHand,
        })
        .unwrap();
    };
    let release = |item: &mut Item, reason: &str| {
        let (epoch, reason) = (item.state.epoch, reason.to_owned());
        let by = Releaser::Operator("operator".to_owned());
        item.submit(WorkCommand::Release { epoch, by, reason }).unwrap();
    };
    item.claim("a").unwrap();
    assert_eq!(item.state.attempts, 1);
    release(&mut item, "crashed");
    // Neither a lease that is given back, whatever is said about it, nor one that runs out.
    for reason in ["lunch", STOPPED] {
        by_hand(&mut item);
        assert_eq!(item.events.last().unwrap().payload["by_hand"], json!(true));
        release(&mut item, reason);
        assert_eq!(item.state.attempts, 1);
    }
    by_hand(&mut item);
    item.raw += MINUTE;
    item.claim("b").unwrap();
    assert_eq!(item.state.attempts, 2);
    let odd = json!({
        "holder": "c", "session_id": "s", "epoch": 5, "phase": "DRAFT", "by_hand": "yes",
        "expires_at": at(item.raw + 2 * MINUTE),
    });
    item.raw += MINUTE;
    item.submit(WorkCommand::Expire).unwrap();
    assert!(item.state.admit(&item.event(Role::Recorder, EventType::LeaseGranted, odd)).is_err());
}

#[test]
fn a_lease_is_exclusive_until_it_runs_out_and_its_number_grows() {
    let mut item = Item::new();
    assert_eq!(item.claim("a"), Ok(1));
    let held =
        |until| refused(WorkRefusal::Held { holder: "a".to_owned(), epoch: 1, until: at(until) });
    assert_eq!(item.claim("b"), Err(held(START + MINUTE)));
    item.raw += MINUTE - 1;
    assert_eq!(item.claim("b"), Err(held(START + MINUTE)));
    item.raw += 1;
    let before = item.events.len();
    assert_eq!(item.claim("b"), Ok(2));
    let recorded: Vec<EventType> =
        item.events.iter().skip(before).map(|event| event.event_type).collect();
    assert_eq!(recorded, [EventType::LeaseReleased, EventType::LeaseGranted]);
    assert_eq!(
        item.exit(1, signal(WorkPhase::Draft, ExitReason::Completed)).as_deref(),
        Some("lease 1 is stale: lease 2 holds now")
    );
    assert_eq!(item.state.attempts, 2);
}

#[test]
fn an_exit_at_the_moment_of_expiry_comes_too_late() {
    let mut item = Item::new();
    item.claim("a").unwrap();
    item.raw += MINUTE;
    let said = item.exit(1, signal(WorkPhase::Draft, ExitReason::Completed)).unwrap();
    assert_eq!(said, format!("lease 1 expired at {}", at(START + MINUTE)));
}

#[test]
fn the_holder_renews_before_the_end_and_never_to_less() {
    let mut item = Item::new();
    let epoch = item.claim("a").unwrap();
    let renew = |session: &str, millis| WorkCommand::Renew {
        epoch,
        by: Bearer::Session(session.to_owned()),
        millis,
    };
    assert_eq!(
        item.submit(renew("session-9", MINUTE)),
        Err(refused(WorkRefusal::OtherSession { epoch }))
    );
    assert!(matches!(
        item.submit(renew("session-1", MINUTE / 2)),
        Err(Refusal::Work(WorkRefusal::NotLonger { .. }))
    ));
    assert!(matches!(
        item.submit(renew("session-1", LEASE_MILLIS_MAX + 1)),
        Err(Refusal::Work(WorkRefusal::LeaseLength { .. }))
    ));
    item.raw += MINUTE / 2;
    assert_eq!(item.submit(renew("session-1", MINUTE)), Ok(vec![EventType::LeaseRenewed]));
    item.raw += MINUTE;
    let expired = at(START + MINUTE + MINUTE / 2);
    assert_eq!(
        item.submit(renew("session-1", MINUTE)),
        Err(refused(WorkRefusal::Expired { epoch, expired }))
    );
}

#[test]
fn the_same_signal_again_gets_the_same_answer_and_another_one_is_refused() {
    let mut item = Item::new();
    let epoch = item.claim("a").unwrap();
    let said = signal(WorkPhase::Draft, ExitReason::Completed);
    assert_eq!(item.exit(epoch, said.clone()), None);
    let (events, past) = (item.events.len(), item.state.exits.get(&epoch).cloned().unwrap());
    assert_eq!(item.exit(epoch, said.clone()), None);
    assert_eq!((item.events.len(), item.state.exits.get(&epoch)), (events, Some(&past)));
    let other = said.with_notes("after all");
    assert_eq!(
        item.exit(epoch, other).as_deref(),
        Some("lease 1 ended with another exit signal before")
    );
}

#[test]
fn whoever_held_the_implementation_does_not_review_unless_that_was_agreed_at_the_start() {
    for may in [false, true] {
        let mut item = Item::opened(WorkPhase::Implementation, may);
        // The first author's lease runs out; what it wrote is still there.
        item.claim("first").unwrap();
        item.raw += MINUTE;
        item.through("second");
        item.through("ci");
        item.through("second");
        for author in ["first", "second"] {
            let claimed = item.clone().claim(author);
            let holder = author.to_owned();
            match may {
                true => assert_eq!(claimed, Ok(5)),
                false => {
                    assert_eq!(claimed, Err(refused(WorkRefusal::AuthorReviews { holder })));
                }
            }
        }
        item.through("critic");
    }
}

#[test]
fn only_the_ci_runner_leaves_ci_pending_and_its_status_is_the_verdict() {
    let mut item = Item::opened(WorkPhase::CiPending, false);
    assert_eq!(item.claim("agent"), Err(refused(WorkRefusal::OnlyCi)));
    let epoch = item.claim_as("ci", MINUTE, true).unwrap();
    let completed = || signal(WorkPhase::CiPending, ExitReason::Completed);
    for verdict in [None, Some(passed(1)), Some(CiVerdict { exit_status: None, ..passed(0) })] {
        assert_eq!(
            item.exit_with(epoch, completed(), verdict).as_deref(),
            Some("an exit from CI_PENDING with `completed` needs a CI verdict that says so")
        );
    }
    assert_eq!(item.exit_with(epoch, completed(), Some(passed(0))), None);
    assert_eq!(item.state.phase, WorkPhase::ReadyForReview);
    let phase = WorkPhase::ReadyForReview;
    assert_eq!(item.claim_as("ci", MINUTE, true), Err(refused(WorkRefusal::NotForCi { phase })));
}

#[test]
fn an_operator_sends_a_blocked_item_back_to_where_it_was_blocked() {
    let mut item = Item::opened(WorkPhase::Review, false);
    let unblock = || WorkCommand::Unblock {
        reason: "credentials came".to_owned(),
        channel: "unprotected-key".to_owned(),
    };
    assert_eq!(
        item.submit(unblock()),
        Err(refused(WorkRefusal::NotBlocked { phase: WorkPhase::Review }))
    );
    let epoch = item.claim("critic").unwrap();
    assert_eq!(item.exit(epoch, signal(WorkPhase::Review, ExitReason::Blocked)), None);
    let phase = WorkPhase::Blocked;
    assert_eq!(item.claim("critic"), Err(refused(WorkRefusal::NotClaimable { phase })));
    assert_eq!(item.submit(unblock()), Ok(vec![EventType::WorkUnblocked]));
    assert_eq!((item.state.phase, item.state.attempts), (WorkPhase::Review, 0));
    assert_eq!(item.claim("critic"), Ok(2));
}

#[test]
fn a_clock_set_back_an_hour_stops_leases_until_a_person_vouches_for_it() {
    let mut item = Item::new();
    let epoch = item.claim_as("a", 10 * MINUTE, false).unwrap();
    item.raw -= HOUR;
    let behind = || refused(WorkRefusal::ClockBehind { seconds: 3_600 });
    assert_eq!(item.claim("b"), Err(behind()));
    let by = Bearer::Session("session-1".to_owned());
    let renew = WorkCommand::Renew { epoch, by: by.clone(), millis: MINUTE };
    assert_eq!(item.submit(renew), Err(behind()));
    let release = |reason: &str| WorkCommand::Release {
        epoch,
        by: Releaser::Bearer(by.clone()),
        reason: reason.to_owned(),
    };
    assert_eq!(item.submit(release("done")), Err(behind()));
    assert_eq!(
        item.exit(epoch, signal(WorkPhase::Draft, ExitReason::Completed)),
        Some(behind().to_string())
    );
    let confirm = || WorkCommand::ConfirmClock { reason: "daylight saving".to_owned() };
    assert_eq!(item.submit(confirm()), Ok(vec![EventType::ClockConfirmed]));
    // Lease time runs on from where it stood: the lease is neither longer nor shorter than before.
    item.raw += 10 * MINUTE - 1;
    assert!(matches!(item.claim("b"), Err(Refusal::Work(WorkRefusal::Held { .. }))));
    item.raw += 1;
    assert_eq!(item.claim("b"), Ok(2));
    assert_eq!(item.submit(confirm()), Err(refused(WorkRefusal::ClockHolds)));
}

#[test]
fn a_clock_that_lags_by_a_minute_is_borne() {
    let mut item = Item::new();
    item.raw -= MINUTE;
    assert_eq!(item.claim("a"), Ok(1));
    item.raw -= 1_000;
    assert_eq!(
        item.submit(WorkCommand::Expire),
        Err(refused(WorkRefusal::ClockBehind { seconds: 61 }))
    );
}

#[test]
fn a_clock_set_forward_ten_years_and_back_grants_no_lease_twice() {
    let mut item = Item::new();
    item.claim("a").unwrap();
    item.raw += TEN_YEARS;
    assert_eq!(item.claim("b"), Ok(2));
    assert!(item.exit(1, signal(WorkPhase::Draft, ExitReason::Completed)).is_some());
    item.raw -= TEN_YEARS;
    assert!(matches!(item.claim("c"), Err(Refusal::Work(WorkRefusal::ClockBehind { .. }))));
    let reason = "the clock is right again".to_owned();
    item.submit(WorkCommand::ConfirmClock { reason }).unwrap();
    assert!(matches!(item.claim("c"), Err(Refusal::Work(WorkRefusal::Held { epoch: 2, .. }))));
    item.raw += MINUTE;
    assert_eq!(item.claim("c"), Ok(3));
    assert_eq!(item.exit(3, signal(WorkPhase::Draft, ExitReason::Completed)), None);
}

/// What a forger would have to get past the verifier, which asks `admit` as well.
#[test]
fn forged_events_are_not_admitted() {
    let mut item = Item::new();
    item.claim("a").unwrap();
    let granted = |epoch: u64, holder: &str, expires: i64| {
        json!({
            "holder": holder, "session_id": "s", "epoch": epoch, "phase": "DRAFT",
            "expires_at": at(expires),
        })
    };
    let exit = |next: &str, session: &str, actor: &str| {
        json!({
            "source": "agent_exit_protocol", "session_id": session, "actor_id": actor, "epoch": 1,
            "phase_completed": "DRAFT", "exit_reason": "completed", "next_phase": next,
            "channel": "stdout",
        })
    };
    use EventType as T;
    let table: Vec<(&str, Role, EventType, Value)> = vec![
        ("a second lease", Role::Recorder, T::LeaseGranted, granted(2, "b", START + MINUTE)),
        (
            "an expiry before its time",
            Role::Recorder,
            T::LeaseReleased,
            json!({ "epoch": 1, "reason": "expired" }),
        ),
        (
            "the release of another lease",
            Role::Recorder,
            T::LeaseReleased,
            json!({ "epoch": 2, "reason": "x" }),
        ),
        (
            "a renewal to less",
            Role::Recorder,
            T::LeaseRenewed,
            json!({ "epoch": 1, "expires_at": at(START + MINUTE / 2) }),
        ),
        (
            "a renewal of another lease",
            Role::Recorder,
            T::LeaseRenewed,
            json!({ "epoch": 2, "expires_at": at(START + HOUR) }),
        ),
        ("a leap", Role::Recorder, T::AgentSessionCompleted, exit("COMPLETED", "session-1", "a")),
        (
            "another session",
            Role::Recorder,
            T::AgentSessionCompleted,
            exit("IMPLEMENTATION", "session-2", "a"),
        ),
        (
            "another actor",
            Role::Recorder,
            T::AgentSessionCompleted,
            exit("IMPLEMENTATION", "session-1", "b"),
        ),
        (
            "an agent that unblocks",
            Role::Recorder,
            T::WorkUnblocked,
            json!({ "phase": "DRAFT", "reason": "x" }),
        ),
        (
            "a clock confirmed without need",
            Role::Operator,
            T::ClockConfirmed,
            json!({ "raw_time": at(START), "reason": "x" }),
        ),
    ];
    for (name, role, event_type, payload) in table {
        let event = item.event(role, event_type, payload);
        assert!(item.state.admit(&event).is_err(), "{name}");
    }
    let honest = item.event(
        Role::Recorder,
        T::AgentSessionCompleted,
        exit("IMPLEMENTATION", "session-1", "a"),
    );
    assert_eq!(item.state.admit(&honest), Ok(()));
}

/// Something that somebody does, or a clock.
#[derive(Debug, Clone)]
enum Move {
    Claim(u8, i64),
    Renew(u64, i64),
    Release(u64),
    Exit(u64, ExitReason),
    Expire,
    Unblock,
    Confirm,
    Clock(i64),
}

fn moves() -> impl Strategy<Value = Move> {
    let length = 100_i64..5 * MINUTE;
    prop_oneof![
        4 => (0_u8..3, length.clone()).prop_map(|(who, millis)| Move::Claim(who, millis)),
        2 => (0_u64..4, length).prop_map(|(back, millis)| Move::Renew(back, millis)),
        1 => (0_u64..3).prop_map(Move::Release),
        4 => (0_u64..3, prop::sample::select(ExitReason::ALL.to_vec()))
            .prop_map(|(back, reason)| Move::Exit(back, reason)),
        1 => Just(Move::Expire),
        1 => Just(Move::Unblock),
        1 => Just(Move::Confirm),
        5 => prop_oneof![
            1_i64..2 * MINUTE,
            Just(-HOUR),
            Just(TEN_YEARS),
            Just(-TEN_YEARS),
            -2 * MINUTE..0,
        ].prop_map(Move::Clock),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done under whatever clock: a lease ends before the next begins, numbers only grow,
    /// nobody but the last holder exits, and what was decided is admitted when it is read again.
    #[test]
    fn no_two_hold_one_item_whatever_the_clock_does(moves in prop::collection::vec(moves(), 1..80)) {
        let mut item = Item::opened(WorkPhase::Draft, true);
        let mut held: Option<u64> = None;
        let mut last = 0;
        for step in moves {
            let before = item.events.len();
            let epoch = item.state.epoch;
            let session_id = |epoch: u64| format!("session-{epoch}");
            let done = match step {
                Move::Clock(millis) => { item.raw += millis; continue; }
                Move::Claim(who, millis) => {
                    let ci = item.state.phase == WorkPhase::CiPending;
                    item.claim_as(&format!("agent-{who}"), millis, ci).map(|_| ())
                }
                Move::Renew(back, millis) => {
                    let epoch = epoch.saturating_sub(back);
                    let by = Bearer::Session(session_id(epoch));
                    item.submit(WorkCommand::Renew { epoch, by, millis }).map(|_| ())
                }
                Move::Release(back) => {
                    let epoch = epoch.saturating_sub(back);
                    let by = Releaser::Bearer(Bearer::Session(session_id(epoch)));
                    item.submit(WorkCommand::Release { epoch, by, reason: "x".into() }).map(|_| ())
                }
                Move::Exit(back, reason) => {
                    let phase = item.state.phase;
                    let ci = phase == WorkPhase::CiPending;
                    let verdict = ci.then(|| passed(i32::from(reason != ExitReason::Completed)));
                    item.exit_with(epoch.saturating_sub(back), signal(phase, reason), verdict);
                    Ok(())
                }
                Move::Expire => item.submit(WorkCommand::Expire).map(|_| ()),
                Move::Unblock => item.submit(WorkCommand::Unblock { reason: "x".into(), channel: "c".into() }).map(|_| ()),
                Move::Confirm => item.submit(WorkCommand::ConfirmClock { reason: "x".into() }).map(|_| ()),
            };
            prop_assert!(done.is_ok() || item.events.len() == before);
            for event in item.events.iter().skip(before) {
                let epoch = event.payload.get("epoch").and_then(Value::as_u64);
                match event.event_type {
                    EventType::LeaseGranted => {
                        prop_assert_eq!(held, None);
                        prop_assert_eq!(epoch, Some(last + 1));
                        last += 1;
                        held = Some(last);
                    }
                    EventType::LeaseReleased | EventType::AgentSessionCompleted => {
                        prop_assert_eq!(epoch, held);
                        held = None;
                    }
                    EventType::LeaseRenewed => prop_assert_eq!(epoch, held),
                    _ => {}
                }
            }
            prop_assert_eq!(item.state.lease.as_ref().map(|lease| lease.epoch), held);
        }
        let mut again = WorkState::default();
        for event in &item.events {
            prop_assert_eq!(again.admit(event), Ok(()));
            again.apply(event);
        }
        prop_assert_eq!(again, item.state);
    }
}
