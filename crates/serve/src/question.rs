//! The question that is put to a person at an agent's own client: its form, and what an answer means.
//!
//! Only a form that says yes is a yes. Its words are those of [`asking`](crate::asking).

use serde_json::{Value, json};

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// It may happen.
    Yes,
    /// It may not.
    No,
    /// Nothing that is an answer.
    Silence,
}

/// The field in which the person answers.
const FIELD: &str = "approve";
/// The form, as JSON Schema.
pub(crate) fn form() -> Value {
    json!({
        "type": "object",
        "properties": {
            FIELD: {
                "type": "boolean",
                "title": "Allow this action",
                "description": "Your answer is recorded",
            },
        },
        "required": [FIELD],
    })
}

/// What an answer means. A refusal in either of the two ways that a form has for it is a no.
pub(crate) fn word(action: &str, content: Option<&Value>) -> Word {
    match action {
        "accept" => match content.and_then(|content| content.get(FIELD)).and_then(Value::as_bool) {
            Some(true) => Word::Yes,
            Some(false) => Word::No,
            None => Word::Silence,
        },
        "decline" => Word::No,
        _ => Word::Silence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_form_that_says_yes_is_a_yes() {
        let form = |approve: Value| json!({ FIELD: approve });
        for (action, content, expected) in [
            ("accept", Some(form(json!(true))), Word::Yes),
            ("accept", Some(form(json!(false))), Word::No),
            ("accept", Some(form(json!("true"))), Word::Silence),
            ("accept", None, Word::Silence),
            ("decline", None, Word::No),
            ("decline", Some(form(json!(true))), Word::No),
            ("cancel", Some(form(json!(true))), Word::Silence),
            ("Accept", Some(form(json!(true))), Word::Silence),
        ] {
            assert_eq!(word(action, content.as_ref()), expected, "{action} {content:?}");
        }
    }
}
