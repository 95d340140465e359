//! The page: its files, which are part of the program, and what a browser may do with them.
//!
//! Nothing of it is a secret and nothing of it comes from a trace, so it needs no token. The policy
//! allows scripts and styles from this server alone, no inline ones, and no markup made from text.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use countersign_format::hash::Hash;

use crate::http::door::Door;

/// What lies under which path.
const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/assets.in"));
/// The page itself.
const PAGE: &str = "/viewer/index.html";
const ICON: &str = "/viewer/favicon.svg";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types countersign";

/// Serves the files.
pub(super) fn router(door: Arc<Door>) -> Router {
    let mut router = Router::new().route("/", file(PAGE)).route("/favicon.svg", file(ICON));
    for (path, _) in FILES {
        router = router.route(path, file(path));
    }
    router.layer(from_fn_with_state(door, at_the_door))
}

fn file(path: &'static str) -> axum::routing::MethodRouter {
    let bytes = FILES.iter().find(|(it, _)| *it == path).map_or(&[][..], |(_, bytes)| *bytes);
    let tag = format!("\"{}\"", Hash::of(bytes).to_hex());
    get(move |request: Request| async move {
        let known = request.headers().get(IF_NONE_MATCH).is_some_and(|it| it == tag.as_str());
        let mut response = match known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => bytes.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    })
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}

async fn at_the_door(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let mut response = match door.admit_to_page(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
