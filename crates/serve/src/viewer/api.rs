//! The routes: what can be asked under which path, and who may ask.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use tokio::sync::Semaphore;

use super::answer::{ApiFailure, typed};
use super::asked::Asked;
use super::desk::Desk;
use super::{assets, event, events, files, flows, live, log, questions, traces, verdicts, work};
use crate::http::crowd::Guest;
use crate::http::door::Door;

/// Where the API begins.
const BASE: &str = "/api/v1";
/// The description of the API.
pub(super) const OPENAPI: &str = include_str!("openapi.json");
/// How long an answer may take until it begins: the verdict on a large trace takes its time.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);
/// Requests that are worked on at once; and verdicts, which take turns and keep nobody else waiting.
const WORK_MAX: usize = 16;
const VERDICTS_MAX: usize = 4;

/// Answers one kind of request, on a thread where it may take its time.
type Answering = fn(&Desk, &Asked) -> Result<Response, ApiFailure>;

/// What can be asked: the path, the parameters of its query, and who answers.
const READING: [(&str, &[&str], Answering); 26] = [
    ("/workspace", &[], traces::workspace),
    (
        "/traces",
        &["kind", "status", "closed", "verdict", "text", "from", "to", "order", "offset", "limit"],
        traces::list,
    ),
    ("/traces/{id}", &[], traces::one),
    ("/traces/{id}/facets", &[], events::facets),
    ("/traces/{id}/events", &["type", "role", "actor", "text", "offset", "limit"], events::list),
    ("/traces/{id}/events/{index}", &[], event::one),
    ("/traces/{id}/verdict", &[], verdicts::of_trace),
    ("/traces/{id}/ledger", &[], files::ledger),
    ("/traces/{id}/reports", &[], traces::reports),
    ("/traces/{id}/reports/{report_id}", &[], traces::report),
    ("/traces/{id}/actions", &["offset", "limit"], events::actions),
    ("/traces/{id}/decisions", &["offset", "limit"], events::decisions),
    ("/artifacts/{hash}", &[], files::artifact),
    ("/work", &["phase", "text", "order", "offset", "limit"], work::board),
    ("/work/{id}", &["offset", "limit"], work::one),
    ("/flows", &["offset", "limit"], flows::list),
    ("/flows/{id}", &[], flows::one),
    ("/flows/{id}/graph", &[], flows::graph),
    ("/log", &["type", "text", "offset", "limit"], log::list),
    ("/log/ledger", &[], files::log_ledger),
    ("/log/checkpoint", &[], files::checkpoint),
    ("/log/verdict", &[], verdicts::of_log),
    ("/questions", &[], questions::list),
    ("/live", &["trace", "from"], |_, _| Err(ApiFailure::missing("asked elsewhere"))),
    ("/openapi.json", &[], |_, _| Ok(typed(OPENAPI, "application/json"))),
    ("/questions/{id}/answer", &[], |_, _| Err(ApiFailure::missing("asked elsewhere"))),
];

/// What everything that answers shares.
#[derive(Clone)]
struct Counter {
    desk: Arc<Desk>,
    work: Arc<Semaphore>,
    verdicts: Arc<Semaphore>,
}

/// The page and the API behind one door.
pub(super) fn router(desk: Arc<Desk>, door: Door) -> Router {
    let door = Arc::new(door);
    let counter = Counter {
        desk,
        work: Arc::new(Semaphore::new(WORK_MAX)),
        verdicts: Arc::new(Semaphore::new(VERDICTS_MAX)),
    };
    let mut api = Router::new();
    for (path, known, answering) in READING {
        let route = match path {
            "/live" => get(move |State(counter), request| listen(counter, request, known)),
            "/questions/{id}/answer" => post(reply),
            _ if path.ends_with("/verdict") => judging(answering),
            _ => reading(known, answering),
        };
        api = api.route(&format!("{BASE}{path}"), route);
    }
    let api = api
        .fallback(|| async { ApiFailure::missing("there is nothing of this name") })
        .method_not_allowed_fallback(|| async {
            let message = "this cannot be done here";
            ApiFailure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        })
        .with_state(counter)
        .layer(from_fn_with_state(Arc::clone(&door), at_the_door));
    Router::new().merge(assets::router(door)).fallback_service(api)
}

fn reading(known: &'static [&'static str], answering: Answering) -> MethodRouter<Counter> {
    get(move |State(counter): State<Counter>, steps: RawPathParams, request: Request| async move {
        let asked = asked(&steps, &request, known);
        let places = Arc::clone(&counter.work);
        on_a_thread(counter, places, move |desk| answering(desk, &asked?)).await
    })
}

fn judging(answering: Answering) -> MethodRouter<Counter> {
    get(move |State(counter): State<Counter>, steps: RawPathParams, request: Request| async move {
        let asked = asked(&steps, &request, &[]);
        let places = Arc::clone(&counter.verdicts);
        on_a_thread(counter, places, move |desk| answering(desk, &asked?)).await
    })
}

fn asked(steps: &RawPathParams, request: &Request, known: &[&str]) -> Result<Asked, ApiFailure> {
    let steps = steps.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Asked::read(steps, request.uri().query(), known, request.headers().clone())
}

async fn on_a_thread(
    counter: Counter,
    places: Arc<Semaphore>,
    work: impl FnOnce(&Desk) -> Result<Response, ApiFailure> + Send + 'static,
) -> Response {
    let Ok(place) = places.acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let desk = counter.desk;
    let done = tokio::task::spawn_blocking(move || {
        // Held until the work is done, also where the client has gone.
        let _place = place;
        work(&desk)
    })
    .await;
    match done {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => failure.into_response(),
        Err(_) => {
            let message = "the request could not be answered; the server goes on";
            ApiFailure::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message).into_response()
        }
    }
}

async fn listen(counter: Counter, request: Request, known: &'static [&'static str]) -> Response {
    let query = request.uri().query();
    let asked = Asked::read(Vec::new(), query, known, request.headers().clone());
    let desk = Arc::clone(&counter.desk);
    let places = Arc::clone(&counter.work);
    on_a_thread(counter, places, move |_| live::listen(desk, &asked?)).await
}

async fn reply(State(counter): State<Counter>, steps: RawPathParams, request: Request) -> Response {
    let asked = asked(&steps, &request, &[]);
    let json = request.headers().get("content-type").is_some_and(|it| {
        it.to_str().is_ok_and(|it| it.split(';').next().map(str::trim) == Some("application/json"))
    });
    if !json {
        return ApiFailure::bad("the body must be application/json").into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), questions::BODY_BYTES_MAX).await;
    let Ok(body) = body else {
        let message = format!("an answer has at most {} bytes", questions::BODY_BYTES_MAX);
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return ApiFailure::new(status, "too_large", message).into_response();
    };
    let places = Arc::clone(&counter.work);
    on_a_thread(counter, places, move |desk| questions::reply(desk, &asked?, &body)).await
}

/// Turns away who does not belong here, and says of every answer that it is for nobody else.
async fn at_the_door(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let open = request.uri().path() == format!("{BASE}/openapi.json");
    let admitted = match open {
        true => door.admit_to_page(request.uri(), request.headers()),
        false => door.admit(request.uri(), request.headers()),
    };
    let mut response = match admitted {
        Err(refused) => ApiFailure::from(refused).into_response(),
        Ok(()) => {
            if let Some(guest) = request.extensions().get::<Arc<Guest>>().filter(|_| !open) {
                guest.is_known_now();
            }
            let answered = tokio::time::timeout(ANSWER_TIME_MAX, next.run(request)).await;
            answered.unwrap_or_else(|_| {
                let message = "the answer takes too long";
                let status = StatusCode::GATEWAY_TIMEOUT;
                ApiFailure::new(status, "failed", message).into_response()
            })
        }
    };
    seal(&mut response);
    response
}

/// What every answer of the API says about itself.
fn seal(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_document_names_every_route_and_every_parameter_and_no_others() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let resolved = |parameter: &Value| match parameter["$ref"].as_str() {
            Some(place) => document.pointer(place.trim_start_matches('#')).unwrap().clone(),
            None => parameter.clone(),
        };
        let documented: BTreeMap<String, BTreeSet<String>> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, methods)| {
                let methods = methods.as_object().unwrap();
                let lists = methods.values().chain(methods.get("parameters"));
                let lists = lists.filter_map(|it| it["parameters"].as_array().or(it.as_array()));
                let named = lists.flatten().map(resolved).filter(|it| it["in"] == "query");
                let names = named.map(|it| it["name"].as_str().unwrap().to_owned());
                (path.clone(), names.collect())
            })
            .collect();
        let answered: BTreeMap<String, BTreeSet<String>> = READING
            .iter()
            .map(|(path, names, _)| {
                ((*path).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
            })
            .collect();
        assert_eq!(documented, answered);
    }
}
