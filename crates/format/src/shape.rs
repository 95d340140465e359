//! What JSON objects look like: one table per object, from which both its checker and its JSON
//! Schema are made.
//!
//! A checker lists every fault with a JSON pointer rather than stopping at the first. Unknown
//! members pass unless the table refuses them.

mod fault;

use serde_json::{Map, Value, json};

use crate::{hash, id, text, time::Timestamp};
pub use fault::{FAULTS_MAX, Fault, Faults, LIST_FAULTS_MAX, shown_pointer};

/// The rules of which schema version hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As the specifications describe: ULIDs may be uppercase.
    V1_0,
    /// Ours.
    V1_1,
}

/// What a value must look like.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Any JSON value whose text may stand in an event.
    Any,
    /// `true` or `false`.
    Bool,
    /// Any string.
    Text,
    /// A string with at least one character.
    NonEmptyText,
    /// A string that quotes other bytes: whatever its text, it is not that of an event.
    Quoted,
    /// An integer in this range, written without fraction or exponent.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// 64 lowercase hexadecimal digits.
    Hash,
    /// A ULID; schema 1.0 also takes it in uppercase.
    Ulid,
    /// `claim_` and a ULID.
    ClaimId,
    /// A lowercase ASCII identifier.
    Name,
    /// A point in time.
    Time,
    /// A semantic version such as `1.1.0`.
    Version,
    /// Padded standard base64 of this many bytes.
    Base64(usize),
    /// A relative path below the workspace's store.
    StorePath,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// `null` or the other shape.
    Nullable(&'static Self),
    /// An array of the other shape.
    List(&'static Self),
    /// An object with any keys and values of the other shape.
    MapOf(&'static Self),
    /// An object.
    Object(&'static Fields),
}

/// The members of an object.
#[derive(Debug)]
pub struct Fields {
    /// Its name in schemas and documentation.
    pub name: &'static str,
    /// One sentence on what it is.
    pub doc: &'static str,
    /// Its members.
    pub fields: &'static [Field],
    /// Whether other members may stand beside them.
    pub unknown: Unknown,
}

/// One member of an object.
#[derive(Debug)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// Whether it must be there.
    pub need: Need,
    /// What it holds.
    pub shape: Shape,
}

/// Whether a member must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Its absence is a fault.
    Required,
    /// Its absence is a fault from schema 1.1 on.
    RequiredSince1_1,
    /// It may be absent.
    Optional,
}

/// What happens to members that the table does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// They are kept and not looked at.
    Kept,
    /// They are faults.
    Refused,
}

/// A required member.
#[must_use]
pub const fn req(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::Required, shape }
}

/// A member that schema 1.0 does not ask for.
#[must_use]
pub const fn req_1_1(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::RequiredSince1_1, shape }
}

/// An optional member.
#[must_use]
pub const fn opt(name: &'static str, shape: Shape) -> Field {
    Field { name, need: Need::Optional, shape }
}

/// Whether `value` has `shape`, as [`Checker::check`] would say without a word. Most documents have
/// theirs, and then no place in them needs a name.
#[must_use]
pub fn fits(dialect: Dialect, shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Any, _) => is_any(value),
        (Shape::Nullable(_), Value::Null) | (Shape::Bool, Value::Bool(_)) => true,
        (Shape::Nullable(inner), _) => fits(dialect, inner, value),
        (Shape::List(inner), Value::Array(elements)) => {
            elements.iter().all(|element| fits(dialect, inner, element))
        }
        (Shape::MapOf(inner), Value::Object(members)) => members
            .iter()
            .all(|(key, member)| text::check(key).is_ok() && fits(dialect, inner, member)),
        (Shape::Object(fields), Value::Object(members)) => fits_members(dialect, fields, members),
        (Shape::Number, Value::Number(_)) => true,
        (Shape::Integer(min, max), Value::Number(number)) => {
            number.as_i64().is_some_and(|integer| (*min..=*max).contains(&integer))
        }
        (
            Shape::Bool
            | Shape::Number
            | Shape::Integer(..)
            | Shape::List(_)
            | Shape::MapOf(_)
            | Shape::Object(_),
            _,
        ) => false,
        (_, Value::String(text)) => Checker::new(dialect).takes(shape, text),
        _ => false,
    }
}

/// As [`fits`], for the members of an object.
#[must_use]
pub fn fits_members(dialect: Dialect, fields: &Fields, members: &Map<String, Value>) -> bool {
    let mut missing = 0;
    for field in fields.fields {
        missing += usize::from(Checker::new(dialect).needs(field));
    }
    for (key, member) in members {
        match fields.fields.iter().find(|field| field.name == key) {
            Some(field) => {
                missing -= usize::from(Checker::new(dialect).needs(field));
                if !fits(dialect, &field.shape, member) {
                    return false;
                }
            }
            None if fields.unknown == Unknown::Refused => return false,
            None if text::check(key).is_err() || !is_any(member) => return false,
            None => {}
        }
    }
    missing == 0
}

/// Whether all text in `value` may stand in an event.
fn is_any(value: &Value) -> bool {
    match value {
        Value::String(text) => text::check(text).is_ok(),
        Value::Array(elements) => elements.iter().all(is_any),
        Value::Object(members) => {
            members.iter().all(|(key, member)| text::check(key).is_ok() && is_any(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Collects faults while a document is walked.
#[derive(Debug)]
pub struct Checker {
    dialect: Dialect,
    pointer: String,
    faults: Faults,
}

impl Checker {
    /// A checker that stands at the root of a document.
    #[must_use]
    pub const fn new(dialect: Dialect) -> Self {
        Self::listing(dialect, FAULTS_MAX)
    }

    /// As [`Self::new`], for somebody who wants no more than the first `most` faults.
    #[must_use]
    pub const fn listing(dialect: Dialect, most: usize) -> Self {
        Self { dialect, pointer: String::new(), faults: Faults::listing(most) }
    }

    /// What was found, as [`Faults::into_vec`] lists it.
    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_vec()
    }

    /// What was found, with the number of it.
    #[must_use]
    pub fn found(self) -> Faults {
        self.faults
    }

    /// Notes a fault at the current place.
    pub fn fault(&mut self, message: impl Into<String>) {
        self.faults.note(&self.pointer, message);
    }

    /// Runs `check`, which walks one list: [`Faults::within_list`].
    pub fn within_list<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        let room = self.faults.enter_list();
        let made = check(self);
        self.faults.leave_list(room);
        made
    }

    /// Runs `check` one step further down.
    pub fn below(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        if step.contains(['~', '/']) {
            self.pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        } else {
            self.pointer.push_str(step);
        }
        check(self);
        self.pointer.truncate(length);
    }

    /// Notes every way in which `value` differs from `shape`.
    pub fn check(&mut self, shape: &Shape, value: &Value) {
        match shape {
            Shape::Any => self.any(value),
            Shape::Nullable(_) if value.is_null() => {}
            Shape::Nullable(inner) => self.check(inner, value),
            Shape::List(inner) => match value.as_array() {
                Some(elements) => {
                    self.elements(elements, |below, element| below.check(inner, element));
                }
                None => self.wrong_type("an array", value),
            },
            Shape::MapOf(inner) => match value.as_object() {
                Some(members) => {
                    self.entries(members, |below, member| below.check(inner, member));
                }
                None => self.wrong_type("an object", value),
            },
            Shape::Object(fields) => self.object(fields, value),
            Shape::Bool if value.is_boolean() => {}
            Shape::Bool => self.wrong_type("true or false", value),
            Shape::Number if value.is_number() => {}
            Shape::Number => self.wrong_type("a number", value),
            Shape::Integer(min, max) => self.integer(*min, *max, value),
            _ => match value.as_str() {
                Some(text) => self.text(shape, text),
                None => self.wrong_type("a string", value),
            },
        }
    }

    /// Notes every member of `fields` that is missing, unknown or of another shape.
    pub fn object(&mut self, fields: &Fields, value: &Value) {
        let Some(members) = value.as_object() else {
            return self.wrong_type("an object", value);
        };
        self.known_members(fields, members);
        self.within_list(|object| object.unknown_members(fields, members));
    }

    /// Looks at the members that `fields` lists.
    pub fn known_members(&mut self, fields: &Fields, members: &Map<String, Value>) {
        for field in fields.fields {
            match members.get(field.name) {
                Some(member) => self.below(field.name, |below| below.check(&field.shape, member)),
                None if self.needs(field) => {
                    self.below(field.name, |below| below.fault("missing"));
                }
                None => {}
            }
        }
    }

    /// Looks at the members that `fields` does not list.
    pub fn unknown_members(&mut self, fields: &Fields, members: &Map<String, Value>) {
        for (key, member) in members {
            if fields.fields.iter().any(|field| field.name == key) {
                continue;
            }
            self.key(key);
            self.below(key, |below| match fields.unknown {
                Unknown::Kept => below.any(member),
                Unknown::Refused => below.fault("unknown field"),
            });
        }
    }

    /// Whether the absence of `field` is a fault.
    #[must_use]
    pub fn needs(&self, field: &Field) -> bool {
        match field.need {
            Need::Required => true,
            Need::RequiredSince1_1 => self.dialect == Dialect::V1_1,
            Need::Optional => false,
        }
    }

    fn any(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                if let Err(fault) = text::check(text) {
                    self.fault(fault.to_string());
                }
            }
            Value::Array(elements) => self.elements(elements, Self::any),
            Value::Object(members) => self.entries(members, Self::any),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn elements(&mut self, elements: &[Value], check: impl Fn(&mut Self, &Value)) {
        self.within_list(|list| {
            for (index, element) in elements.iter().enumerate() {
                list.below(&index.to_string(), |below| check(below, element));
            }
        });
    }

    /// The members of an object that may have any.
    fn entries(&mut self, members: &Map<String, Value>, check: impl Fn(&mut Self, &Value)) {
        self.within_list(|list| {
            for (key, member) in members {
                list.key(key);
                list.below(key, |below| check(below, member));
            }
        });
    }

    fn key(&mut self, key: &str) {
        if let Err(fault) = text::check(key) {
            self.below(key, |below| below.fault(format!("key: {fault}")));
        }
    }

    fn integer(&mut self, min: i64, max: i64, value: &Value) {
        match value.as_i64() {
            Some(integer) if (min..=max).contains(&integer) => {}
            Some(_) => self.fault(format!("must be between {min} and {max}")),
            None => self.wrong_type("an integer", value),
        }
    }

    /// Whether `text` has this shape.
    #[must_use]
    pub fn takes(&self, shape: &Shape, text: &str) -> bool {
        self.objection(shape, text).is_none()
    }

    fn text(&mut self, shape: &Shape, text: &str) {
        if let Some(objection) = self.objection(shape, text) {
            self.fault(objection);
        }
    }

    /// What is wrong with `text` as this shape.
    fn objection(&self, shape: &Shape, text: &str) -> Option<String> {
        // A line whose texts are NFC need not be NFC itself: an escape ends in a letter.
        if let (false, Err(fault)) = (matches!(shape, Shape::Quoted), text::check(text)) {
            return Some(fault.to_string());
        }
        let wanted = match shape {
            Shape::NonEmptyText | Shape::Quoted if text.is_empty() => {
                "must not be empty".to_owned()
            }
            Shape::Hash if text.parse::<hash::Hash>().is_err() => hash::NotAHash.to_string(),
            Shape::Ulid if !self.is_ulid(text) => id::NotAUlid.to_string(),
            Shape::ClaimId if !self.is_claim_id(text) => {
                "a claim id is `claim_` and a ULID".to_owned()
            }
            Shape::Name if !id::is_name(text) => {
                "an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit"
                    .to_owned()
            }
            Shape::Time => match text.parse::<Timestamp>() {
                Ok(_) => return None,
                Err(error) => error.to_string(),
            },
            Shape::Version if !is_semver(text) => {
                "a version is three numbers such as `1.1.0`".to_owned()
            }
            Shape::Base64(length) if !is_base64(text, *length) => {
                format!("must be {length} bytes in padded standard base64")
            }
            Shape::StorePath if !is_store_path(text) => {
                "must be a relative path inside the store".to_owned()
            }
            Shape::OneOf(values) if !values.contains(&text) => {
                format!("must be one of: {}", values.join(", "))
            }
            _ => return None,
        };
        Some(wanted)
    }

    fn is_ulid(&self, text: &str) -> bool {
        match self.dialect {
            Dialect::V1_0 => id::Ulid::parse_any_case(text).is_some(),
            Dialect::V1_1 => text.parse::<id::Ulid>().is_ok(),
        }
    }

    fn is_claim_id(&self, text: &str) -> bool {
        text.strip_prefix("claim_").is_some_and(|ulid| self.is_ulid(ulid))
    }

    fn wrong_type(&mut self, wanted: &str, value: &Value) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.fault(if wanted == "an integer" && found == "a number" {
            "must be an integer, found another number".to_owned()
        } else {
            format!("must be {wanted}, found {found}")
        });
    }
}

/// Whether `text` is three decimal numbers without leading zeros, joined by points.
#[must_use]
pub fn is_semver(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.len() <= 9
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 3 && parts.into_iter().all(number)
}

fn is_base64(text: &str, length: usize) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == length)
}

fn is_store_path(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 1024
        && text.split('/').all(|part| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        })
}

/// The JSON Schema (draft 2020-12) of `fields`, as a document of its own.
#[must_use]
pub fn document_schema(fields: &Fields, id: &str) -> Value {
    let mut schema = object_schema(fields);
    if let Some(members) = schema.as_object_mut() {
        members.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.insert("$id".into(), json!(format!("urn:countersign:schema:{id}")));
    }
    schema
}

/// The JSON Schema of an object.
#[must_use]
pub fn object_schema(fields: &Fields) -> Value {
    let properties: Map<String, Value> =
        fields.fields.iter().map(|field| (field.name.into(), schema(&field.shape))).collect();
    let required: Vec<&str> = fields
        .fields
        .iter()
        .filter(|field| field.need != Need::Optional)
        .map(|field| field.name)
        .collect();
    let mut object = json!({
        "title": fields.name,
        "description": fields.doc,
        "type": "object",
        "properties": properties,
        "required": required,
    });
    if let (Unknown::Refused, Some(members)) = (fields.unknown, object.as_object_mut()) {
        members.insert("additionalProperties".into(), json!(false));
    }
    object
}

const ULID_PATTERN: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}";

fn schema(shape: &Shape) -> Value {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match shape {
        Shape::Any => json!({}),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Text => json!({ "type": "string" }),
        Shape::NonEmptyText | Shape::Quoted => json!({ "type": "string", "minLength": 1 }),
        Shape::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Hash => pattern("^[0-9a-f]{64}$"),
        Shape::Ulid => pattern(&format!("^{ULID_PATTERN}$")),
        Shape::ClaimId => pattern(&format!("^claim_{ULID_PATTERN}$")),
        Shape::Name => pattern("^[a-z0-9][a-z0-9_.:@-]{0,127}$"),
        Shape::Time => {
            pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$")
        }
        Shape::Version => pattern("^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$"),
        Shape::Base64(length) => {
            let characters = length.div_ceil(3) * 4;
            json!({
                "type": "string", "contentEncoding": "base64",
                "minLength": characters, "maxLength": characters,
            })
        }
        Shape::StorePath => pattern("^(?!.*(^|/)\\.{1,2}(/|$))[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"),
        Shape::OneOf([only]) => json!({ "const": only }),
        Shape::OneOf(values) => json!({ "enum": values }),
        Shape::Nullable(inner) => json!({ "anyOf": [{ "type": "null" }, schema(inner)] }),
        Shape::List(inner) => json!({ "type": "array", "items": schema(inner) }),
        Shape::MapOf(inner) => json!({ "type": "object", "additionalProperties": schema(inner) }),
        Shape::Object(fields) => object_schema(fields),
    }
}
