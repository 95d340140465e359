//! Asking the person at the client, where the client can.
//!
//! A client that dismisses the question, cannot show it or does not come back leaves it open: it waits
//! for `countersign approve` until its deadline.

use std::time::Duration;

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema,
    InitializeRequestParams, JsonObject, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use serde_json::Value;

use super::calls::AskedAction;
use crate::asking::Wanted;
use crate::question::{Word, form, word};

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
        Ok(ClientResult::ElicitResult(result)) => {
            let action = match result.action {
                ElicitationAction::Accept => "accept",
                ElicitationAction::Decline => "decline",
                _ => "cancel",
            };
            word(action, result.content.as_ref())
        }
        _ => Word::Silence,
    }
}

fn schema() -> Option<ElicitationSchema> {
    let Value::Object(schema) = form() else { return None };
    let schema: JsonObject = schema;
    ElicitationSchema::from_json_schema(schema).ok()
}

fn message(action: &AskedAction) -> String {
    let (input, answer) = (&action.input, &action.answer);
    let wanted = Wanted {
        kind: answer.action_type.as_str(),
        description: &input.description,
        command: input.command.as_deref(),
        files: &input.files_affected,
        change: input.diff_text.as_deref(),
        reasons: &answer.reasons,
    };
    wanted.words()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_can_be_shown() {
        assert!(schema().is_some());
    }
}
