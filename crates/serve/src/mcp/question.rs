//! Asking the person at the client, where the client can.
//!
//! A client that dismisses the question, cannot show it or does not come back leaves it open: it waits
//! for `countersign approve` until its deadline.

use std::time::Duration;

use countersign_format::text::escape_block;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema,
    InitializeRequestParams, JsonObject, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use serde_json::{Value, json};

use super::calls::AskedAction;

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Yes,
    No,
    /// Nothing that is an answer.
    Silence,
}

/// The field in which the person answers.
const FIELD: &str = "approve";
/// Characters of what an agent says that are shown.
const SHOWN_MAX: usize = 2000;

/// Whether the client said that it can ask its user.
pub(super) fn can_ask(client: &InitializeRequestParams) -> bool {
    let elicitation = client.capabilities.elicitation.as_ref();
    // One that names no way can do forms.
    elicitation.is_some_and(|ways| ways.form.is_some() || ways.url.is_none())
}

/// Asks the client's user, and waits this long.
pub(super) async fn ask(peer: &Peer<RoleServer>, action: &AskedAction, patience: Duration) -> Word {
    let Some(requested_schema) = schema() else { return Word::Silence };
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(action),
        requested_schema,
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let options = PeerRequestOptions::with_timeout(patience);
    let Ok(sent) = peer.send_request_with_option(request, options).await else {
        return Word::Silence;
    };
    match sent.await_response().await {
        Ok(ClientResult::ElicitResult(result)) => word(&result.action, result.content.as_ref()),
        _ => Word::Silence,
    }
}

/// A refusal in either of the two ways that a form has for it is a no; only a form that says yes is a
/// yes.
fn word(action: &ElicitationAction, content: Option<&Value>) -> Word {
    match action {
        ElicitationAction::Accept => {
            match content.and_then(|content| content.get(FIELD)).and_then(Value::as_bool) {
                Some(true) => Word::Yes,
                Some(false) => Word::No,
                None => Word::Silence,
            }
        }
        ElicitationAction::Decline => Word::No,
        _ => Word::Silence,
    }
}

fn schema() -> Option<ElicitationSchema> {
    let schema = json!({
        "type": "object",
        "properties": {
            FIELD: {
                "type": "boolean",
                "title": "Allow this action",
                "description": "Your answer is recorded",
            },
        },
        "required": [FIELD],
    });
    let Value::Object(schema) = schema else { return None };
    let schema: JsonObject = schema;
    ElicitationSchema::from_json_schema(schema).ok()
}

fn message(action: &AskedAction) -> String {
    let (input, answer) = (&action.input, &action.answer);
    let mut message = format!(
        "An agent wants to do this ({}):\n{}\n",
        answer.action_type.as_str(),
        shown(&input.description)
    );
    if let Some(command) = &input.command {
        message.push_str(&format!("Command: {}\n", shown(command)));
    }
    for file in input.files_affected.iter().take(20) {
        message.push_str(&format!("File: {}\n", shown(file)));
    }
    if let Some(more) = input.files_affected.len().checked_sub(20).filter(|more| *more > 0) {
        message.push_str(&format!("and {more} more files\n"));
    }
    for reason in &answer.reasons {
        message.push_str(&format!("Why you are asked: {}\n", shown(reason)));
    }
    message
}

/// A text of an agent as it can be shown: it cannot hide or overwrite anything.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_MAX).collect();
    let cut = if short.len() < text.len() { " […]" } else { "" };
    format!("{}{cut}", escape_block(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_form_that_says_yes_is_a_yes() {
        let form = |approve: Value| json!({ FIELD: approve });
        use ElicitationAction as A;
        for (action, content, expected) in [
            (A::Accept, Some(form(json!(true))), Word::Yes),
            (A::Accept, Some(form(json!(false))), Word::No),
            (A::Accept, Some(form(json!("true"))), Word::Silence),
            (A::Accept, None, Word::Silence),
            (A::Decline, None, Word::No),
            (A::Decline, Some(form(json!(true))), Word::No),
            (A::Cancel, Some(form(json!(true))), Word::Silence),
        ] {
            assert_eq!(word(&action, content.as_ref()), expected, "{action:?} {content:?}");
        }
    }

    #[test]
    fn the_form_can_be_shown() {
        assert!(schema().is_some());
    }
}
