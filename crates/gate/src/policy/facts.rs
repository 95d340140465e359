//! What rules are told of a request: names and sets, so that "any path below `.git`" is a word.
//!
//! Cedar cannot ask whether some element of a set is like a pattern. So whatever a rule may want
//! to find in a path, its directories, its components, the beginnings and ends of its name, is a
//! set of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request,
    RestrictedExpression as Fact,
};
use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;

use crate::GateRequest;
use crate::path::PlainPath;
use crate::risk::Features;

/// Directories above a path that rules can name. Deeper ones count by their components alone, or
/// one long path would become a megabyte of directories.
const LEVELS_MAX: usize = 16;
/// Askers that are remembered.
const ASKERS_MAX: usize = 16;

/// What is known of a request beside its own words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    /// The class of the action, as declared or as the guards say.
    pub(crate) risk: RiskClass,
    /// The programs that its command would run.
    pub(crate) programs: &'a [String],
    /// What was counted in its diff.
    pub(crate) features: &'a Features,
    /// Every file that it would touch: those that it names, and those of its diff.
    pub(crate) paths: &'a [String],
}

/// The types of entities and the groups of actions, read once.
#[derive(Debug, Clone)]
pub(super) struct Types {
    agent: EntityTypeName,
    role: EntityTypeName,
    tool: EntityTypeName,
    /// By its name, each action with the groups that it is in: all that a request needs to know.
    actions: BTreeMap<&'static str, (EntityUid, Vec<Entity>)>,
}

/// The groups of actions, what each of them is in, and the actions in it: what the schema says, which
/// a test holds against it. Reading the schema would take longer than a decision.
const GROUPS: [(&str, Option<&str>, &[&str]); 6] = [
    ("look", None, &["file_read", "observation", "decision"]),
    ("effect", None, &[]),
    ("change", Some("effect"), &["code_gen", "code_edit", "file_write", "file_delete"]),
    ("run", Some("effect"), &["shell_exec", "command"]),
    ("network", Some("effect"), &["api_request", "web_request", "browser_action"]),
    ("other", Some("effect"), &["tool_call", "action", "unknown"]),
];

impl Types {
    /// The types that every request is made of.
    pub(super) fn known() -> Result<Self, String> {
        let action = "Action".parse::<EntityTypeName>().map_err(|error| error.to_string())?;
        let uid = |id: &str| EntityUid::from_type_name_and_id(action.clone(), EntityId::new(id));
        let within = |id: &str, group: Option<&str>| {
            Entity::new_no_attrs(uid(id), group.map(uid).into_iter().collect())
        };
        let all = GROUPS.iter().flat_map(|(group, above, actions)| {
            let actions = actions.iter().map(|action| within(action, Some(group)));
            actions.chain([within(group, *above)])
        });
        let all = Entities::from_entities(all, None).map_err(|error| error.to_string())?;
        Self::new(&all)
    }

    pub(super) fn new(all: &Entities) -> Result<Self, String> {
        let name = |name: &str| name.parse::<EntityTypeName>().map_err(|error| error.to_string());
        let action = name("Action")?;
        let mut actions = BTreeMap::new();
        for &id in ActionType::NAMES {
            let uid = EntityUid::from_type_name_and_id(action.clone(), EntityId::new(id));
            let groups = all.ancestors(&uid).into_iter().flatten();
            let needed = groups.chain([&uid]).filter_map(|uid| all.get(uid).cloned()).collect();
            actions.insert(id, (uid, needed));
        }
        Ok(Self { agent: name("Agent")?, role: name("Role")?, tool: name("Tool")?, actions })
    }

    /// Who asks in this request, and with what.
    pub(super) fn asking(&self, request: &GateRequest) -> Result<Asking, String> {
        let uid = |type_name: &EntityTypeName, id: &str| {
            EntityUid::from_type_name_and_id(type_name.clone(), EntityId::new(id))
        };
        let text = |text: &str| Fact::new_string(text.to_owned());
        let role = uid(&self.role, &request.role);
        let agent = uid(&self.agent, &request.agent);
        let tool = uid(&self.tool, &request.tool);
        let (action, groups) =
            self.actions.get(request.action_type.as_str()).ok_or("the action has no type")?;
        let of_agent = [("name", text(&request.agent)), ("role", text(&request.role))];
        let of_tool = [("name", text(&request.tool))];
        let named = |facts: &[(&str, Fact)]| {
            facts.iter().map(|(name, fact)| ((*name).to_owned(), fact.clone())).collect()
        };
        let none = [].into_iter().collect();
        let above = [role.clone()].into_iter().collect();
        let entities = [
            Entity::new(agent.clone(), named(&of_agent), above).map_err(|it| it.to_string())?,
            Entity::new(tool.clone(), named(&of_tool), none).map_err(|it| it.to_string())?,
            Entity::with_uid(role),
        ];
        let entities = Entities::from_entities(groups.iter().cloned().chain(entities), None)
            .map_err(|error| error.to_string())?;
        Ok(Asking { key: Key::of(request), agent, action: action.clone(), tool, entities })
    }
}

/// Who asks, and with what: what Cedar is told of a request beside its context.
#[derive(Debug)]
pub(super) struct Asking {
    key: Key,
    agent: EntityUid,
    action: EntityUid,
    tool: EntityUid,
    pub(super) entities: Entities,
}

/// All of a request that an [`Asking`] is made of.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    agent: String,
    role: String,
    tool: String,
    action_type: ActionType,
}

impl Key {
    fn of(request: &GateRequest) -> Self {
        Self {
            agent: request.agent.clone(),
            role: request.role.clone(),
            tool: request.tool.clone(),
            action_type: request.action_type,
        }
    }

    fn is_of(&self, request: &GateRequest) -> bool {
        self.action_type == request.action_type
            && self.tool == request.tool
            && self.agent == request.agent
            && self.role == request.role
    }
}

impl Asking {
    /// The request as Cedar takes it.
    pub(super) fn request(
        &self,
        request: &GateRequest,
        known: Circumstances<'_>,
    ) -> Result<Request, String> {
        let context = Context::from_pairs(facts(request, known)).map_err(|it| it.to_string())?;
        let (agent, action, tool) = (self.agent.clone(), self.action.clone(), self.tool.clone());
        Request::new(agent, action, tool, context, None).map_err(|error| error.to_string())
    }
}

/// Those who asked last. An agent uses a few tools again and again, and to tell Cedar of it and of one
/// of them takes about as long as a decision does.
#[derive(Debug, Clone, Default)]
pub(super) struct Askers(Arc<Mutex<VecDeque<Arc<Asking>>>>);

impl Askers {
    /// Who asks in this request: as it was told before, or told now.
    pub(super) fn of(&self, request: &GateRequest, types: &Types) -> Result<Arc<Asking>, String> {
        let known = self.lock().iter().find(|asking| asking.key.is_of(request)).map(Arc::clone);
        if let Some(asking) = known {
            return Ok(asking);
        }
        let asking = Arc::new(types.asking(request)?);
        let mut known = self.lock();
        if known.len() >= ASKERS_MAX {
            known.pop_front();
        }
        known.push_back(Arc::clone(&asking));
        Ok(asking)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Asking>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The context of a request.
fn facts(request: &GateRequest, known: Circumstances<'_>) -> Vec<(String, Fact)> {
    let paths = PathFacts::of(known.paths);
    let count = |count: u64| Fact::new_long(i64::try_from(count).unwrap_or(i64::MAX));
    let programs = known.programs.iter().cloned();
    let mut facts = vec![
        ("paths", set(paths.paths)),
        ("under", set(paths.under)),
        ("within", set(paths.within)),
        ("parts", set(paths.parts)),
        ("names", set(paths.names)),
        ("stems", set(paths.stems)),
        ("extensions", set(paths.extensions)),
        ("outside", Fact::new_bool(paths.outside)),
        ("risk", Fact::new_string(known.risk.as_str().to_owned())),
        ("risk_level", Fact::new_long(level(known.risk))),
        ("programs", set(programs)),
        ("network_granted", Fact::new_bool(request.network_granted)),
        ("lines_changed", count(known.features.lines_changed)),
        ("files_touched", count(known.features.files_touched)),
    ];
    if let Some(command) = &request.command {
        facts.push(("command", Fact::new_string(command.clone())));
    }
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

fn level(risk: RiskClass) -> i64 {
    match risk {
        RiskClass::Low => 0,
        RiskClass::Standard => 1,
        RiskClass::Elevated => 2,
        RiskClass::Critical => 3,
    }
}

fn set(texts: impl IntoIterator<Item = String>) -> Fact {
    Fact::new_set(texts.into_iter().map(Fact::new_string))
}

/// The sets that are made of all paths of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct PathFacts {
    paths: BTreeSet<String>,
    under: BTreeSet<String>,
    within: BTreeSet<String>,
    parts: BTreeSet<String>,
    names: BTreeSet<String>,
    stems: BTreeSet<String>,
    extensions: BTreeSet<String>,
    outside: bool,
}

impl PathFacts {
    fn of(paths: &[String]) -> Self {
        let mut facts = Self::default();
        let mut common: Option<Vec<String>> = None;
        for path in paths {
            let path = PlainPath::of(path);
            facts.outside |= path.outside;
            facts.note(&path);
            common = Some(match common {
                None => path.parts,
                Some(common) => {
                    let same = common.iter().zip(&path.parts).take_while(|(a, b)| a == b).count();
                    path.parts.into_iter().take(same).collect()
                }
            });
        }
        if let (Some(common), false) = (common, facts.outside) {
            facts.within = above(&common);
        }
        facts
    }

    fn note(&mut self, path: &PlainPath) {
        let text = path.text();
        self.under.extend(above(&path.parts));
        self.under.insert(text.clone());
        self.paths.insert(text);
        self.parts.extend(path.parts.iter().cloned());
        let Some(name) = path.parts.last() else { return };
        self.names.insert(name.clone());
        self.stems.insert(name.clone());
        for (at, _) in name.match_indices('.').take(LEVELS_MAX).filter(|(at, _)| *at > 0) {
            self.stems.extend(name.get(..at).map(str::to_owned));
            self.extensions.extend(name.get(at + 1..).map(str::to_owned));
        }
    }
}

/// The directories from the root down to these components, and the whole.
fn above(parts: &[String]) -> BTreeSet<String> {
    let levels = (1..=parts.len().min(LEVELS_MAX)).filter_map(|end| parts.get(..end));
    levels.map(|parts| parts.join("/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
        texts.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn actions_are_in_the_groups_that_the_schema_names() {
        let schema = super::super::schema().unwrap();
        let of_schema = Types::new(&schema.action_entities().unwrap()).unwrap();
        let known = Types::known().unwrap();
        let groups = |types: &Types| {
            let all = types.actions.iter().map(|(name, (uid, needed))| {
                let mut needed: Vec<_> = needed.iter().map(|it| it.uid().to_string()).collect();
                needed.sort();
                (*name, uid.to_string(), needed)
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(groups(&known), groups(&of_schema));
        assert!(groups(&known).iter().all(|(_, _, needed)| needed.len() >= 2));
    }

    #[test]
    fn whoever_asks_again_is_known_and_nobody_is_taken_for_another() {
        let askers = Askers::default();
        let types = Types::known().unwrap();
        let first = GateRequest::new("ana", "executor", ActionType::CodeEdit, "edit");
        let told = askers.of(&first, &types).unwrap();
        assert!(Arc::ptr_eq(&told, &askers.of(&first, &types).unwrap()));
        for other in [
            GateRequest { agent: "bo".into(), ..first.clone() },
            GateRequest { role: "critic".into(), ..first.clone() },
            GateRequest { tool: "write".into(), ..first.clone() },
            GateRequest { action_type: ActionType::CodeGen, ..first.clone() },
        ] {
            let asking = askers.of(&other, &types).unwrap();
            assert!(asking.key.is_of(&other) && !asking.key.is_of(&first));
        }
        for number in 0..ASKERS_MAX {
            let other = GateRequest { tool: number.to_string(), ..first.clone() };
            askers.of(&other, &types).unwrap();
        }
        assert_eq!(askers.lock().len(), ASKERS_MAX);
        assert!(!Arc::ptr_eq(&told, &askers.of(&first, &types).unwrap()));
    }

    #[test]
    fn paths_become_sets_that_a_rule_can_look_into() {
        let paths = ["app/src/.env.local".to_owned(), "./app/Cargo.toml".to_owned()];
        let expected = PathFacts {
            paths: texts(["app/src/.env.local", "app/cargo.toml"]),
            under: texts(["app", "app/src", "app/src/.env.local", "app/cargo.toml"]),
            within: texts(["app"]),
            parts: texts(["app", "src", ".env.local", "cargo.toml"]),
            names: texts([".env.local", "cargo.toml"]),
            stems: texts([".env", ".env.local", "cargo", "cargo.toml"]),
            extensions: texts(["local", "toml"]),
            outside: false,
        };
        assert_eq!(PathFacts::of(&paths), expected);
    }

    #[test]
    fn nothing_is_within_anything_once_a_path_leads_outside() {
        let facts = PathFacts::of(&["src/a".to_owned(), "../src/a".to_owned()]);
        assert_eq!((facts.outside, facts.within), (true, BTreeSet::new()));
        assert_eq!(PathFacts::of(&[]), PathFacts::default());
    }

    #[test]
    fn a_very_deep_path_costs_no_more_than_its_length_a_few_times() {
        let facts = PathFacts::of(&["a/".repeat(2_000)]);
        assert!(facts.under.iter().map(String::len).sum::<usize>() < 5_000);
    }
}
