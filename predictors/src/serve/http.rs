//! What each path answers. Not responsible for connections, nor for what a prediction or an event means.
//!
//! | path | in | out |
//! |---|---|---|
//! | `POST /v1/predict` | `{"jobs":[Submission…],"now_ms":…}` (`now_ms` may be left out), or Arrow IPC by `Content-Type` | `{"predictions":[Prediction…]}`, or Arrow IPC by `Accept` |
//! | `POST /v1/events` | `{"events":[Event…]}`, or a line an event with `Content-Type: application/x-ndjson` | `{"accepted":n,"refused":n,"reasons":[…]}`, once all is on disk |
//! | `POST /scheduler/filter`, `…/prioritize` | `ExtenderArgs` | `ExtenderFilterResult`, `HostPriorityList` |
//! | `GET /healthz` | | `ok`: the process answers; the only path without the token |
//! | `GET /readyz` | | `ready`, or 503 if events cannot be kept |
//! | `GET /metrics` | | Prometheus text |
//!
//! A body is served whole or not at all: one malformed job or event, and nothing of it is predicted or kept. Many jobs are predicted in
//! pieces of 64, with other requests served between; a model adopted between two pieces shows in the later one.
//!
//! Cost: O(bytes) and the model's own.
//!
//! Worked example: `{"jobs":[{"job_id":"a","submit_ms":0,"gpus":1}]}` is answered
//! `{"predictions":[{"job_id":"a","mean_s":…,"p05_s":…,…}]}`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use super::Brain;
use super::arrow_body::{self, Form};
use super::auth::Token;
use super::body::{Intake, Taken, apart};
use super::extender::Args;
use super::learner::{Post, Shared};
use super::metrics::{Model, Route};
use super::refusal::Refusal;
use crate::job::{Event, Prediction, Submission};

/// Jobs predicted in one go: a few milliseconds at some ten microseconds a job.
const PIECE_JOBS: usize = 64;
const LINE_TYPES: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];
const PREDICT_REMEDY: &str =
    r#"send {"jobs":[{"job_id":"…","submit_ms":…,"user":"…","vc":"…","name":"…","gpus":…,"cpus":…,"limit_s":…}]}"#;
const EVENT_REMEDY: &str = r#"send {"events":[{"event":"submitted","job_id":"…","submit_ms":…,…},{"event":"started","job_id":"…","time_ms":…},{"event":"ended","job_id":"…","time_ms":…}]}, or a line an event with Content-Type: application/x-ndjson"#;
const EXTENDER_REMEDY: &str = "send ExtenderArgs of the scheduler extender API v1, as kube-scheduler does";

/// What every request can reach.
#[derive(Debug)]
pub(super) struct App<B> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) token: Token,
    pub(super) intake: Intake,
    /// None if the server has no journal and so learns nothing.
    pub(super) posts: Option<mpsc::Sender<Post>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    jobs: Vec<Submission>,
    #[serde(default)]
    now_ms: Option<i64>,
}

#[derive(Serialize)]
struct Predicted<'a> {
    predictions: &'a [Prediction],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    events: Vec<Event>,
}

/// All paths, behind the token and the counting.
pub(super) fn router<B: Brain>(app: Arc<App<B>>) -> Router {
    Router::new()
        .route(Route::Predict.path(), post(predict::<B>))
        .route(Route::Events.path(), post(events::<B>))
        .route(Route::Filter.path(), post(filter::<B>))
        .route(Route::Prioritize.path(), post(prioritize::<B>))
        .route(Route::Healthz.path(), get(|| async { "ok\n" }))
        .route(Route::Readyz.path(), get(readyz::<B>))
        .route(Route::Metrics.path(), get(metrics::<B>))
        .fallback(|| async {
            Refusal::new(
                StatusCode::NOT_FOUND,
                "no such path",
                "see /v1/predict, /v1/events, /scheduler/filter, /scheduler/prioritize, /healthz, /readyz and /metrics",
            )
        })
        .method_not_allowed_fallback(|| async {
            Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not take this method",
                "use the method that the Allow header names",
            )
        })
        .layer(from_fn_with_state(Arc::clone(&app), guard::<B>))
        .with_state(app)
}

/// The token before everything, and a count of what came of it.
async fn guard<B: Brain>(State(app): State<Arc<App<B>>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = Route::of(request.uri().path());
    let open = route == Route::Healthz && matches!(*request.method(), Method::GET | Method::HEAD);
    let response = if open || app.token.admits(request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes))
    {
        next.run(request).await
    } else {
        let remedy = "send the header Authorization: Bearer <token>, with the token that the server was started with";
        Refusal::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong", remedy).into_response()
    };
    app.shared.metrics.request(route, response.status().as_u16(), began.elapsed());
    response
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

/// The media types that a header names, without their parameters.
fn media_types(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|item| item.split_once(';').map_or(item, |(media_type, _)| media_type).trim())
}

fn parse<T: DeserializeOwned>(body: &[u8], remedy: &'static str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::json(&error, 0, remedy))
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn to_json<T: Serialize>(answer: &T) -> Result<Response, Refusal> {
    serde_json::to_vec(answer).map(json).map_err(|error| Refusal::defect(error.to_string()))
}

fn asked(taken: &Taken) -> impl FnOnce() -> Result<Asked, Refusal> + Send + 'static {
    let form = media_types(&taken.headers, header::CONTENT_TYPE).find_map(Form::of);
    let body = taken.bytes.clone();
    move || {
        let asked = if form.is_some() {
            let wrong = |found| {
                Refusal::bad(
                    found,
                    "send an Arrow IPC stream or file with a column a field of a job: job_id, submit_ms, …",
                )
            };
            Asked { jobs: arrow_body::jobs(body.to_vec()).map_err(wrong)?, now_ms: None }
        } else {
            parse(&body, PREDICT_REMEDY)?
        };
        for (index, job) in asked.jobs.iter().enumerate() {
            let numbers = [("gpus", Some(job.gpus)), ("cpus", job.cpus), ("limit_s", job.limit_s)];
            for (name, number) in numbers {
                if number.is_some_and(|number| !number.is_finite() || number < 0.0) {
                    return Err(Refusal::bad(
                        format!("{name} of job {index} (counted from 0) is {}", number.unwrap_or_default()),
                        "send a number from 0 up, or leave it out if it is unknown",
                    ));
                }
            }
        }
        Ok(asked)
    }
}

async fn predict<B: Brain>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let taken = app.intake.take(request).await?;
    let asked = apart(taken.bytes.len(), asked(&taken)).await??;
    let mut predictions: Vec<Prediction> = Vec::with_capacity(asked.jobs.len());
    for (piece, jobs) in asked.jobs.chunks(PIECE_JOBS).enumerate() {
        if piece > 0 {
            yield_now().await;
        }
        let some = app.shared.brain().predict(jobs, asked.now_ms);
        if some.len() != jobs.len() {
            return Err(Refusal::defect(format!("the model made {} predictions of {} jobs", some.len(), jobs.len())));
        }
        predictions.extend(some);
    }
    app.shared.metrics.predictions.add(predictions.len() as u64);
    let form = media_types(&taken.headers, header::ACCEPT).find_map(Form::of);
    apart(predictions.len() * size_of::<Prediction>(), move || match form {
        None => to_json(&Predicted { predictions: &predictions }),
        Some(form) => match arrow_body::predictions(&predictions, form) {
            Ok(body) => Ok(([(header::CONTENT_TYPE, form.media_type())], body).into_response()),
            Err(error) => Err(Refusal::defect(error.to_string())),
        },
    })
    .await?
}

fn told(taken: &Taken) -> impl FnOnce() -> Result<Vec<Event>, Refusal> + Send + 'static {
    let lines = media_types(&taken.headers, header::CONTENT_TYPE)
        .any(|media_type| LINE_TYPES.iter().any(|lines| media_type.eq_ignore_ascii_case(lines)));
    let body = taken.bytes.clone();
    move || {
        if !lines {
            return parse::<Told>(&body, EVENT_REMEDY).map(|told| told.events);
        }
        let lines = body.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
        let event =
            |(before, line)| serde_json::from_slice(line).map_err(|error| Refusal::json(&error, before, EVENT_REMEDY));
        lines.map(event).collect()
    }
}

async fn events<B: Brain>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let Some(posts) = &app.posts else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "this server does not learn",
            "start it with a folder for its journal",
        ));
    };
    let taken = app.intake.take(request).await?;
    let events = apart(taken.bytes.len(), told(&taken)).await??;
    let (reply, outcome) = oneshot::channel();
    let lost = || Refusal::busy("the events may not be on disk: the journal failed, see /metrics");
    posts.send(Post { events, reply }).await.map_err(|_| lost())?;
    match outcome.await {
        Ok(Ok(outcome)) => to_json(&outcome),
        Ok(Err(reason)) => Err(Refusal::busy(format!("the events are not on disk: {reason}"))),
        Err(_) => Err(lost()),
    }
}

/// The pod's nodes, and when the pod is predicted to end at the latest (p95), seconds since the epoch.
async fn extended<B: Brain>(app: &App<B>, request: Request) -> Result<(Args, Option<f64>), Refusal> {
    let taken = app.intake.take(request).await?;
    let body = taken.bytes.clone();
    let args: Args = apart(taken.bytes.len(), move || parse(&body, EXTENDER_REMEDY)).await??;
    let now_ms = now_ms();
    let job = if args.any_end() { args.submission(now_ms) } else { None };
    let ends_s = job.and_then(|job| {
        let predicted = app.shared.brain().predict(std::slice::from_ref(&job), Some(now_ms));
        app.shared.metrics.predictions.add(predicted.len() as u64);
        predicted.first().map(|prediction| now_ms as f64 / 1000.0 + prediction.p95_s)
    });
    Ok((args, ends_s))
}

async fn filter<B: Brain>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let (args, ends_s) = extended(&app, request).await?;
    to_json(&args.filter(ends_s))
}

async fn prioritize<B: Brain>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let (args, ends_s) = extended(&app, request).await?;
    to_json(&args.prioritize(ends_s))
}

async fn readyz<B: Brain>(State(app): State<Arc<App<B>>>) -> Result<&'static str, Refusal> {
    let learner_died = app.posts.as_ref().is_some_and(mpsc::Sender::is_closed);
    if learner_died || app.shared.metrics.journal_broken.load(Ordering::Relaxed) {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "events cannot be kept",
            "look at the disk of the journal, then restart the server",
        ));
    }
    Ok("ready\n")
}

async fn metrics<B: Brain>(State(app): State<Arc<App<B>>>) -> Response {
    let brain = app.shared.brain();
    let age_s = brain.trained_ms().map(|trained_ms| now_ms().saturating_sub(trained_ms) as f64 / 1000.0);
    let model = Model { age_s, ended_since_training: brain.ended_since_training() };
    drop(brain);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.shared.metrics.text(model))
        .into_response()
}
