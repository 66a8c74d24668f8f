//! Routes, and the answer of each. Not responsible for connections, nor for what a prediction or an
//! event means.
//!
//! | path | in | out |
//! |---|---|---|
//! | `POST /v1/predict` | `{"jobs":[Submission…],"now_ms":…}` (`now_ms` may be left out), or Arrow IPC by `Content-Type` | `{"predictions":[Prediction…]}`, or Arrow IPC by `Accept` |
//! | `POST /v1/events` | `{"events":[Event…]}`, or a line an event with `Content-Type: application/x-ndjson` | `{"accepted":n,"refused":n,"reasons":[…]}`, once all is on disk |
//! | `POST /v1/share` | `{"gpu_type":…,"job":{"job_type":…},"running":[{"id":…,"job_type":…}…]}` | `{"candidates":[…]}`, the best first (see `sharing`) |
//! | `POST /scheduler/filter`, `…/prioritize` | `ExtenderArgs` | `ExtenderFilterResult`, `HostPriorityList` |
//! | `GET /healthz` | | `ok`: the process answers; the only path without the token |
//! | `GET /readyz` | | `ready`, or 503 while events cannot be kept |
//! | `GET /metrics` | | Prometheus text |
//!
//! A body is served whole or not at all: one malformed job or event, or one that cannot be (see `admit`), and nothing of it is predicted or kept. Many jobs are predicted in
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

use super::OnlineModel;
use super::admit::Bounds;
use super::arrow_body::{self, Form};
use super::auth::Token;
use super::body::{Intake, Taken, apart};
use super::connection::Guest;
use super::extender::Args;
use super::learner::{Post, Shared};
use super::metrics::{Model, Route};
use super::outgoing::{Outgoing, Share};
use super::refusal::Refusal;
use super::sharing::{self, CandidateAnswer, ShareAsked};
use crate::interference::predictor::SharingPredictor;
use crate::job::{Event, Prediction, Submission};

const JSON: &str = "application/json";
/// Jobs predicted in one go: a few milliseconds at some ten microseconds a job.
const PIECE_JOBS: usize = 64;
const LINE_TYPES: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];
const PREDICT_REMEDY: &str =
    r#"send {"jobs":[{"job_id":"…","submit_ms":…,"user":"…","vc":"…","name":"…","gpus":…,"cpus":…,"limit_s":…}]}"#;
const EVENT_REMEDY: &str = r#"send {"events":[{"event":"submitted","job_id":"…","submit_ms":…,…},{"event":"started","job_id":"…","time_ms":…},{"event":"ended","job_id":"…","time_ms":…}]}, or a line an event with Content-Type: application/x-ndjson"#;
/// Most bytes that a prediction takes while it is made and in its answer, beside the job's
/// identifier; and how often that may stand in them, escaped or not.
const PREDICTION_BYTES: usize = 512;
const ID_TIMES: usize = 8;
const EXTENDER_REMEDY: &str = "send ExtenderArgs of the scheduler extender API v1, as kube-scheduler does";

/// State that every request can reach.
#[derive(Debug)]
pub(super) struct App<B> {
    pub(super) shared: Arc<Shared<B>>,
    pub(super) token: Token,
    pub(super) intake: Intake,
    pub(super) outgoing: Outgoing,
    /// GPUs of the cluster, where the settings say.
    pub(super) cluster_gpus: Option<f64>,
    /// Predictor of sharing; None if the server was started without one.
    pub(super) sharing: Option<Arc<SharingPredictor>>,
    /// Queue of posts; None if the server has no journal and so learns nothing.
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
struct EventsBody {
    events: Vec<Event>,
}

/// All paths, behind the token and the counting.
pub(super) fn router<B: OnlineModel>(app: Arc<App<B>>) -> Router {
    Router::new()
        .route(Route::Predict.path(), post(predict::<B>))
        .route(Route::Share.path(), post(share::<B>))
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
                "see /v1/predict, /v1/share, /v1/events, /scheduler/filter, /scheduler/prioritize, /healthz, /readyz and /metrics",
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

impl<B: OnlineModel> App<B> {
    /// Bounds on requests at this time.
    fn bounds(&self) -> Bounds {
        let online = self.shared.online();
        Bounds::new(online.trained_ms(), now_ms(), self.cluster_gpus.or_else(|| online.cluster_gpus()))
    }
}

/// The token before everything, and a count of what came of it.
async fn guard<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = Route::new(request.uri().path());
    let open = route == Route::Healthz && matches!(*request.method(), Method::GET | Method::HEAD);
    let guest = request.extensions().get::<Arc<Guest>>().cloned();
    let spare = guest.as_ref().is_some_and(|guest| guest.spare);
    let mut response = if open {
        next.run(request).await
    } else if spare {
        // Kept for who looks after the server.
        Refusal::busy("too many connections are open").into_response()
    } else if app.token.admits(request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes)) {
        if let Some(guest) = &guest {
            guest.admit();
        }
        next.run(request).await
    } else {
        let remedy = "send the header Authorization: Bearer <token>, with the token that the server was started with";
        Refusal::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong", remedy).into_response()
    };
    if spare {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
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

fn to_json<T: Serialize>(answer: &T) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(answer).map_err(|error| Refusal::defect(error.to_string()))
}

/// An answer of some media type, sent as its share of the budget allows.
fn answer(media_type: &'static str, body: Vec<u8>, share: Share) -> Response {
    ([(header::CONTENT_TYPE, media_type)], share.body(body)).into_response()
}

fn asked(taken: &Taken, bounds: Bounds) -> impl FnOnce() -> Result<Asked, Refusal> + Send + 'static {
    let form = media_types(&taken.headers, header::CONTENT_TYPE).find_map(Form::of);
    let body = taken.bytes.clone();
    move || {
        let asked = if form.is_some() {
            let wrong = |result| {
                Refusal::bad(
                    result,
                    "send an Arrow IPC stream or file with a column a field of a job: job_id, submit_ms, …",
                )
            };
            Asked { jobs: arrow_body::jobs(body.to_vec()).map_err(wrong)?, now_ms: None }
        } else {
            parse(&body, PREDICT_REMEDY)?
        };
        for (index, job) in asked.jobs.iter().enumerate() {
            bounds.submission(job, &format!("job {index} (counted from 0)"))?;
        }
        if let Some(now_ms) = asked.now_ms {
            bounds.time(now_ms, "now_ms", "the request")?;
        }
        Ok(asked)
    }
}

async fn predict<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let taken = app.intake.take(request).await?;
    let asked = apart(taken.bytes.len(), asked(&taken, app.bounds())).await??;
    let ids: usize = asked.jobs.iter().map(|job| job.job_id.len()).sum();
    let share = app.outgoing.share(asked.jobs.len() * PREDICTION_BYTES + ids * ID_TIMES).await?;
    let mut predictions: Vec<Prediction> = Vec::with_capacity(asked.jobs.len());
    for (piece, jobs) in asked.jobs.chunks(PIECE_JOBS).enumerate() {
        if piece > 0 {
            yield_now().await;
        }
        let some = app.shared.online().predict(jobs, asked.now_ms);
        if some.len() != jobs.len() {
            return Err(Refusal::defect(format!("the model made {} predictions of {} jobs", some.len(), jobs.len())));
        }
        predictions.extend(some);
    }
    app.shared.metrics.predictions.add(predictions.len() as u64);
    let form = media_types(&taken.headers, header::ACCEPT).find_map(Form::of);
    let body = apart(predictions.len() * size_of::<Prediction>(), move || match form {
        None => to_json(&Predicted { predictions: &predictions }),
        Some(form) => arrow_body::predictions(&predictions, form).map_err(|error| Refusal::defect(error.to_string())),
    })
    .await??;
    Ok(answer(form.map_or(JSON, Form::media_type), body, share))
}

async fn share<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let Some(predictor) = app.sharing.clone() else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "this server has no model of sharing",
            "start it with one that `tracecast model train interference` wrote (--share-model)",
        ));
    };
    let taken = app.intake.take(request).await?;
    let body = taken.bytes.clone();
    let asked: ShareAsked = apart(taken.bytes.len(), move || {
        let asked: ShareAsked = parse(&body, sharing::REMEDY)?;
        asked.check()?;
        Ok::<_, Refusal>(asked)
    })
    .await??;
    let slices = asked.on_slices(&predictor)?;
    let share = app.outgoing.share(asked.answer_bytes()).await?;
    let mut candidates = Vec::with_capacity(asked.candidates());
    let mut known = sharing::Known::new();
    while candidates.len() < asked.candidates() {
        if !candidates.is_empty() {
            yield_now().await;
        }
        let piece = asked.piece(candidates.len());
        candidates.extend(asked.some(&predictor, piece, &mut known));
    }
    let bytes = candidates.len() * size_of::<CandidateAnswer>();
    let body = apart(bytes, move || to_json(&asked.answer(&predictor, candidates, slices))).await??;
    Ok(answer(JSON, body, share))
}

/// The events of a body, if they can all be.
fn told(taken: &Taken, bounds: Bounds) -> impl FnOnce() -> Result<Vec<Event>, Refusal> + Send + 'static {
    let lines = media_types(&taken.headers, header::CONTENT_TYPE)
        .any(|media_type| LINE_TYPES.iter().any(|lines| media_type.eq_ignore_ascii_case(lines)));
    let body = taken.bytes.clone();
    let sound = move |events: Vec<Event>| {
        for (index, event) in events.iter().enumerate() {
            bounds.event(event, &format!("event {index} (counted from 0)"))?;
        }
        Ok(events)
    };
    move || {
        if !lines {
            return parse::<EventsBody>(&body, EVENT_REMEDY).and_then(|told| sound(told.events));
        }
        let lines = body.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
        let event =
            |(before, line)| serde_json::from_slice(line).map_err(|error| Refusal::json(&error, before, EVENT_REMEDY));
        lines.map(event).collect::<Result<_, _>>().and_then(sound)
    }
}

async fn events<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let Some(posts) = &app.posts else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "this server does not learn",
            "start it with a folder for its journal",
        ));
    };
    let taken = app.intake.take(request).await?;
    let events = apart(taken.bytes.len(), told(&taken, app.bounds())).await??;
    // Reasons are at most a hundred, and name a job each.
    let share = app.outgoing.share(0).await?;
    let (reply, outcome) = oneshot::channel();
    let lost = || Refusal::busy("the events may not be on disk: the journal failed, see /metrics");
    posts.send(Post { events, reply }).await.map_err(|_| lost())?;
    match outcome.await {
        Ok(Ok(outcome)) => Ok(answer(JSON, to_json(&outcome)?, share)),
        Ok(Err(reason)) => Err(Refusal::busy(format!("the events are not on disk: {reason}"))),
        Err(_) => Err(lost()),
    }
}

/// The pod's nodes, and when the pod is predicted to end at the latest (p95), seconds since the epoch.
async fn extended<B: OnlineModel>(app: &App<B>, request: Request) -> Result<(Args, Option<f64>, Share), Refusal> {
    let taken = app.intake.take(request).await?;
    let body = taken.bytes.clone();
    let args: Args = apart(taken.bytes.len(), move || parse(&body, EXTENDER_REMEDY)).await??;
    // Nodes go back as they came; numbers may be written longer.
    let share = app.outgoing.share(taken.bytes.len() * 2).await?;
    let now_ms = now_ms();
    let job = if args.any_end() { args.submission(now_ms) } else { None };
    let ends_s = job.and_then(|job| {
        let predicted = app.shared.online().predict(std::slice::from_ref(&job), Some(now_ms));
        app.shared.metrics.predictions.add(predicted.len() as u64);
        predicted.first().map(|prediction| now_ms as f64 / 1000.0 + prediction.p95_s)
    });
    Ok((args, ends_s, share))
}

async fn filter<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let (args, ends_s, share) = extended(&app, request).await?;
    Ok(answer(JSON, to_json(&args.filter(ends_s))?, share))
}

async fn prioritize<B: OnlineModel>(State(app): State<Arc<App<B>>>, request: Request) -> Result<Response, Refusal> {
    let (args, ends_s, share) = extended(&app, request).await?;
    Ok(answer(JSON, to_json(&args.prioritize(ends_s))?, share))
}

async fn readyz<B: OnlineModel>(State(app): State<Arc<App<B>>>) -> Result<&'static str, Refusal> {
    let learner_died = app.posts.as_ref().is_some_and(mpsc::Sender::is_closed);
    if learner_died || app.shared.metrics.journal_broken.load(Ordering::Relaxed) {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "events cannot be kept",
            "look at the disk of the journal, then restart the server",
        ));
    }
    if app.shared.metrics.journal_refusing.load(Ordering::Relaxed) {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "events cannot be kept just now",
            "make room on the disk of the journal; the server finds out by itself",
        ));
    }
    Ok("ready\n")
}

async fn metrics<B: OnlineModel>(State(app): State<Arc<App<B>>>) -> Response {
    let online = app.shared.online();
    let age_s = online.trained_ms().map(|trained_ms| now_ms().saturating_sub(trained_ms) as f64 / 1000.0);
    let model = Model { age_s, ended_since_training: online.ended_since_training() };
    drop(online);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.shared.metrics.text(model))
        .into_response()
}
