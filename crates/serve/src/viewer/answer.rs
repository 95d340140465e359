//! How the API answers: JSON, bytes, or an error with a code.

use std::error::Error;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use countersign_runtime::WorkspaceError;
use countersign_runtime::index::IndexError;
use serde::Serialize;

use crate::causes::whole;
use crate::http::door::Refused;

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct ApiFailure {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiFailure {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// What was asked makes no sense.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// What was asked for is not there.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// It is there, and cannot be read.
    pub(super) fn failed(error: &(dyn Error + 'static)) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", whole(error))
    }

    /// It is there, and what it holds does not make what was asked for.
    pub(super) fn unusable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }
}

impl From<IndexError> for ApiFailure {
    fn from(error: IndexError) -> Self {
        Self::failed(&error)
    }
}

impl From<WorkspaceError> for ApiFailure {
    fn from(error: WorkspaceError) -> Self {
        Self::failed(&error)
    }
}

impl From<Refused> for ApiFailure {
    fn from(refused: Refused) -> Self {
        let status = refused.status();
        let code = match status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            StatusCode::BAD_REQUEST => "bad_request",
            _ => "forbidden",
        };
        Self::new(status, code, refused.reason().trim_end())
    }
}

#[derive(Serialize)]
struct Told<'m> {
    error: ToldError<'m>,
}

#[derive(Serialize)]
struct ToldError<'m> {
    code: &'m str,
    message: &'m str,
}

impl IntoResponse for ApiFailure {
    fn into_response(self) -> Response {
        let told = Told { error: ToldError { code: self.code, message: &self.message } };
        let mut response = json(&told);
        *response.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A JSON document.
pub(super) fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => typed(bytes, "application/json"),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Bytes of a known type.
pub(super) fn typed(bytes: impl Into<Body>, media_type: &'static str) -> Response {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Some of a longer list.
#[derive(Debug, Serialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) offset: u64,
    pub(super) matched: u64,
    pub(super) total: u64,
}
