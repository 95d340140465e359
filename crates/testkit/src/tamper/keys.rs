//! Who holds which key, and what became of it.

use countersign_format::hash::Hash;
use countersign_format::key::SecretKey;
use countersign_format::role::Role;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use serde_json::{Value, json};

/// Keys are old, so that a clock that was set back is only that.
pub(super) const CREATED: &str = "2000-01-01T00:00:00.000Z";
const ROOT_SEED: u8 = 1;
/// What lies between the seed of a key and that of the key that an attacker puts in its place.
const ATTACKER: u8 = 100;
/// The same for the key that follows a rotation.
const SUCCESSOR: u8 = 50;

/// One agent and its key.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) agent_id: &'static str,
    seed: u8,
    /// Its record, as a file of keys or the log has it.
    pub(super) record: Value,
    /// The end of the key, as the log tells it.
    pub(super) end: Option<End>,
    /// Whether it came by a rotation: then the log names it there.
    pub(super) succeeds: bool,
}

/// How and when a key ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) how: How,
    pub(super) at: Timestamp,
    /// Events of the trace that count.
    pub(super) size: usize,
    pub(super) reason: String,
}

/// How a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Rotated,
    Revoked,
}

/// All keys of a workspace.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    pub(super) holders: Vec<Holder>,
    dialect: Dialect,
    /// Whether somebody put other public keys into the records.
    pub(super) swapped: bool,
}

/// The name of a key: the first schema has one of its own.
fn key_id(secret: &SecretKey, dialect: Dialect) -> String {
    let public = secret.public_key();
    match dialect {
        Dialect::V1_1 => public.key_id().to_string(),
        Dialect::V1_0 => format!("key_{}", &public.fingerprint().to_hex()[..16]),
    }
}

fn record(agent_id: &str, secret: &SecretKey, roles: &[Role], dialect: Dialect) -> Value {
    let schema_version = match dialect {
        Dialect::V1_1 => "1.1.0",
        Dialect::V1_0 => "1.0.0",
    };
    json!({
        "schema_version": schema_version, "agent_id": agent_id, "display_name": agent_id,
        "role_capabilities": roles, "key_id": key_id(secret, dialect),
        "public_key": secret.public_key(), "key_algorithm": "ed25519", "status": "active",
        "created_at": CREATED, "updated_at": CREATED,
    })
}

impl Registry {
    pub(super) fn new(dialect: Dialect) -> Self {
        let agents: [(&str, u8, &[Role]); 6] = [
            ("recorder", 2, &[Role::Recorder]),
            ("operator", 3, &[Role::Operator]),
            ("planner-agent", 4, &[Role::Planner]),
            ("executor-agent", 5, &[Role::Executor]),
            ("critic-agent", 6, &[Role::Critic]),
            ("auditor-agent", 7, &[Role::Auditor]),
        ];
        // Schema 1.0 knows neither recorder nor operator.
        let known = |role: &Role| {
            dialect == Dialect::V1_1 || !matches!(role, Role::Recorder | Role::Operator)
        };
        let holders = agents.into_iter().filter(|(_, _, roles)| roles.iter().all(known)).map(
            |(agent_id, seed, roles)| Holder {
                agent_id,
                seed,
                record: record(agent_id, &SecretKey::from_seed(&[seed; 32]), roles, dialect),
                end: None,
                succeeds: false,
            },
        );
        Self { holders: holders.collect(), dialect, swapped: false }
    }

    /// The key that speaks for all others.
    pub(super) fn root() -> SecretKey {
        SecretKey::from_seed(&[ROOT_SEED; 32])
    }

    /// The fingerprint that a reader pins.
    pub(super) fn fingerprint() -> Hash {
        Self::root().public_key().fingerprint()
    }

    pub(super) fn root_record() -> Value {
        record("root", &Self::root(), &[Role::Recorder], Dialect::V1_1)
    }

    pub(super) fn holder(&self, agent_id: &str) -> &Holder {
        let found = self.holders.iter().find(|holder| holder.agent_id == agent_id);
        found.unwrap_or_else(|| panic!("no agent `{agent_id}` takes part"))
    }

    pub(super) fn holder_mut(&mut self, agent_id: &str) -> &mut Holder {
        let found = self.holders.iter_mut().find(|holder| holder.agent_id == agent_id);
        found.unwrap_or_else(|| panic!("no agent `{agent_id}` takes part"))
    }

    pub(super) fn key_id(&self, agent_id: &str) -> String {
        key_id(&self.holder(agent_id).secret(), self.dialect)
    }

    /// Retires the key of an agent and gives it another; its id.
    pub(super) fn rotate(&mut self, agent_id: &str, end: End) -> String {
        let old = self.holder_mut(agent_id);
        old.record["status"] = json!("rotated");
        old.record["rotated_at"] = json!(end.at);
        let (agent_id, seed, at) = (old.agent_id, old.seed + SUCCESSOR, end.at);
        let roles: Vec<Role> =
            serde_json::from_value(old.record["role_capabilities"].clone()).unwrap();
        old.end = Some(end);
        let mut record = record(agent_id, &SecretKey::from_seed(&[seed; 32]), &roles, self.dialect);
        record["created_at"] = json!(at);
        let key_id = record["key_id"].as_str().unwrap_or_default().to_owned();
        self.holders.push(Holder { agent_id, seed, record, end: None, succeeds: true });
        key_id
    }

    /// Who signs as this actor: the holder of the key that it names, else the agent itself.
    pub(super) fn signer(&self, actor: &Value) -> Option<&Holder> {
        let text = |name: &str| actor.get(name).and_then(Value::as_str).unwrap_or_default();
        let by_key = self
            .holders
            .iter()
            .find(|holder| key_id(&holder.secret(), self.dialect) == text("key_id"));
        by_key.or_else(|| self.holders.iter().find(|it| it.agent_id == text("agent_id")))
    }
}

impl Holder {
    pub(super) fn secret(&self) -> SecretKey {
        SecretKey::from_seed(&[self.seed; 32])
    }

    /// What an attacker signs with in this agent's name.
    pub(super) fn attacker(&self) -> SecretKey {
        SecretKey::from_seed(&[self.seed + ATTACKER; 32])
    }

    /// The record of the key that takes over, in the log.
    pub(super) fn successor(&self) -> Value {
        let secret = SecretKey::from_seed(&[self.seed + SUCCESSOR; 32]);
        let roles: Vec<Role> =
            serde_json::from_value(self.record["role_capabilities"].clone()).unwrap();
        record(self.agent_id, &secret, &roles, Dialect::V1_1)
    }
}
