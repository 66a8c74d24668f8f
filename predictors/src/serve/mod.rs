//! An HTTP server of predictions that learns from the events it is sent. Responsible for the protocol, the token, limits, and for keeping
//! what was acknowledged; not for the model, which is a [`OnlineModel`]. No TLS: it listens on loopback unless told otherwise, and a proxy is the
//! place for certificates.
//!
//! One thread serves; predictions are made on it, one request after the other. What may block or take long (syncing the journal, parsing
//! large bodies, training, writing snapshots) is done on others. Paths and formats are described in `http`, the files in `journal`, the
//! Kubernetes part in `extender`.
//!
//! Promise: events answered with 200 survive a crash of the process and of the machine, and are learnt once. Events that were not answered
//! may or may not have been kept; a client posts them again, and one that was learnt is refused: the last 262,144 events learnt are remembered
//! for that, over restarts, too (see `recent`).
//!
//! Cost: a request O(bytes) and the model's own; memory is bounded by the settings (connections × 128 KiB, the budget of bodies
//! with about ten times that while they are parsed, and the budget of answers), by 14 MB of remembered events, and by the model. Nothing is
//! kept a client or a path. Of jobs, users and names the model bounds how many it keeps, and `admit` how long their texts are.
//!
//! Worked example: with 200 clients that each wait for their answer and a model that takes 10 µs, the last of 200 simultaneous requests
//! waits about 200 × (10 µs + overhead of some 20 µs) = 6 ms.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::interference::predictor::SharingPredictor;
use crate::job::{Event, Prediction, Submission};
use journal::{Found, Journal};
use recent::{Identity, Recent};

mod admit;
mod arrow_body;
mod auth;
mod body;
mod connection;
mod error;
mod extender;
mod http;
mod journal;
mod learner;
mod metrics;
mod outgoing;
mod recent;
mod refusal;
mod sharing;
mod signal;

pub use auth::Token;
pub use error::{ServeError, ServeResult};
pub use journal::Recovered;
pub use signal::{signalled, terminated};

/// Work on a copy of the model's state that another thread does; an error is in words for an operator.
pub type Task<T> = Box<dyn FnOnce() -> Result<T, String> + Send>;

/// A model that predicts, learns and can be retrained. All methods are called from one thread, and every one of them delays
/// the predictions that wait: what takes long belongs into the returned [`Task`]s.
pub trait OnlineModel: Send + 'static {
    /// Result of a training, which [`OnlineModel::adopt`] takes.
    type Model: Send + 'static;

    /// Predicts each job, in their order. `now_ms` is the time as of which to predict, milliseconds
    /// since the epoch; None: when each job was submitted.
    fn predict(&mut self, jobs: &[Submission], now_ms: Option<i64>) -> Vec<Prediction>;

    /// Learns an event. Must depend on the events before it alone, as events are replayed at start. An event that was learnt lately is not
    /// given again; one that was learnt long ago must be refused if the model can tell.
    ///
    /// # Errors
    /// Why the event is refused: unknown job, end before start, known already, … The state is then as before.
    fn observe(&mut self, event: &Event) -> Result<(), String>;

    /// GPUs of the cluster that the model was trained on, if known.
    fn cluster_gpus(&self) -> Option<f64> {
        None
    }

    /// Jobs that ended since the model was trained.
    fn ended_since_training(&self) -> u64;

    /// Time of the model's training, milliseconds since the epoch, if known.
    fn trained_ms(&self) -> Option<i64>;

    /// Trains a new model on what is known now.
    fn trainer(&self) -> Task<Self::Model>;

    /// Takes up a trained model. Events learnt since [`OnlineModel::trainer`] was called stay learnt.
    fn adopt(&mut self, model: Self::Model);

    /// Writes down all that is known now, the model included, for [`OnlineModel::restore`].
    fn snapshot(&self) -> Task<Vec<u8>>;

    /// Takes up a snapshot in place of all that is known. Called at most once, before everything else.
    ///
    /// # Errors
    /// Why the snapshot cannot be taken up.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String>;
}

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and port to listen on; default 127.0.0.1:7420. Read by [`serve`] alone.
    pub bind: SocketAddr,
    /// Token that a client must show.
    pub token: Token,
    /// Folder of the journal; None (default): the server learns nothing and refuses events.
    pub journal: Option<PathBuf>,
    /// Jobs that end between two trainings; default 10,000, None: never retrain.
    pub retrain_after: Option<u64>,
    /// Length of the journal at which a snapshot takes its place, bytes; default 64 MiB.
    pub compact_bytes: u64,
    /// Longest body of a request, bytes; default 8 MiB.
    pub body_limit_bytes: usize,
    /// Bodies of all requests at a time, bytes; default 64 MiB.
    pub body_budget_bytes: usize,
    /// Answers of all requests that wait to be taken at a time, bytes; default 128 MiB.
    pub answer_budget_bytes: usize,
    /// GPUs of the cluster: jobs of more are refused; default: as the model knows.
    pub cluster_gpus: Option<f64>,
    /// Predictor of sharing; None (default): `/v1/share` is refused.
    pub sharing: Option<Arc<SharingPredictor>>,
    /// Timeout of the head of a request, then of its body, then of a stalled answer; default 10 s.
    pub timeout: Duration,
    /// Most connections at a time; default 1,024.
    pub max_connections: usize,
    /// Time that requests in flight may take after a stop; default 10 s.
    pub grace: Duration,
    /// Told in words when a training, a snapshot or the journal failed, on the thread that serves; default: nobody.
    pub notice: fn(&str),
}

impl Config {
    /// The defaults, with this token.
    #[must_use]
    pub fn new(token: Token) -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)),
            token,
            journal: None,
            retrain_after: Some(10_000),
            compact_bytes: 64 << 20,
            body_limit_bytes: 8 << 20,
            body_budget_bytes: 64 << 20,
            answer_budget_bytes: 128 << 20,
            cluster_gpus: None,
            sharing: None,
            timeout: Duration::from_secs(10),
            max_connections: 1024,
            grace: Duration::from_secs(10),
            notice: |_| {},
        }
    }

    /// Warnings for an operator, one sentence each.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.token.warnings().to_vec();
        if !self.bind.ip().is_loopback() {
            warnings.push(format!(
                "{} is reached from other machines, and what is sent is not encrypted; listen on 127.0.0.1 behind a proxy with TLS",
                self.bind
            ));
        }
        warnings
    }

    fn check(&self) -> ServeResult<()> {
        let positive = [
            ("retrain_after", self.retrain_after != Some(0)),
            ("compact_bytes", self.compact_bytes > 0),
            ("body_limit_bytes", self.body_limit_bytes > 0),
            ("answer_budget_bytes", self.answer_budget_bytes > 0),
            ("cluster_gpus", self.cluster_gpus.is_none_or(|gpus| gpus > 0.0)),
            ("timeout", !self.timeout.is_zero()),
            ("max_connections", self.max_connections > 0),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, positive)| !positive) {
            return Err(ServeError::Setting { name, found: "0".to_owned(), remedy: "give a number above 0" });
        }
        if self.body_budget_bytes < self.body_limit_bytes {
            return Err(ServeError::Setting {
                name: "body_budget_bytes",
                found: format!("{}, less than one body of {}", self.body_budget_bytes, self.body_limit_bytes),
                remedy: "give at least the limit of one body",
            });
        }
        Ok(())
    }
}

/// A server that has taken up all that was learnt and waits for connections.
#[derive(Debug)]
struct Server<B> {
    shared: Arc<learner::Shared<B>>,
    journal: Option<(Journal, Recent)>,
    config: Config,
    recovered: Recovered,
}

impl<B: OnlineModel> Server<B> {
    fn open(mut online: B, config: Config) -> ServeResult<Self> {
        config.check()?;
        config.warnings().iter().for_each(|warning| (config.notice)(warning));
        let mut recovered = Recovered::default();
        let mut journal = None;
        if let Some(folder) = &config.journal {
            let mut recent = Recent::default();
            let (opened, result) = Journal::open(folder, &mut |result| match result {
                Found::Snapshot(bytes, identities) => {
                    recent = Recent::restore(identities);
                    online.restore(bytes).map(|()| true)
                }
                Found::Event(event) => {
                    let identity = Identity::new(event);
                    let learnt = !recent.knows(identity) && online.observe(event).is_ok();
                    if learnt {
                        recent.remember(identity);
                    }
                    Ok(learnt)
                }
            })?;
            (journal, recovered) = (Some((opened, recent)), result);
        }
        if let Some(warning) = recovered.warning() {
            (config.notice)(&warning);
        }
        let metrics = metrics::Metrics::default();
        metrics.journal_torn.add(recovered.torn);
        metrics.journal_corrupt.add(recovered.corrupt);
        metrics.journal_repeated.add(recovered.repeated);
        metrics.journal_replayed.add(recovered.events);
        metrics.journal_missing.add(recovered.missing);
        Ok(Self { shared: Arc::new(learner::Shared::new(online, metrics)), journal, config, recovered })
    }

    async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let Self { shared, journal, config, .. } = self;
        let (posts, learning) = match journal {
            Some((journal, recent)) => {
                let pace = learner::Pace {
                    retrain_after: config.retrain_after,
                    compact_bytes: config.compact_bytes,
                    notice: config.notice,
                };
                // As long as there are connections at most, each with one post: the queue itself never keeps one waiting.
                let (posts, queue) = mpsc::channel(config.max_connections.saturating_add(connection::SPARE));
                let learner = learner::Learner::new(Arc::clone(&shared), journal, recent, pace);
                (Some(posts), Some(tokio::spawn(learner.run(queue))))
            }
            None => (None, None),
        };
        let intake = body::Intake::new(config.body_limit_bytes, config.body_budget_bytes, config.timeout);
        let outgoing = outgoing::Outgoing::new(config.answer_budget_bytes, config.timeout);
        let (token, cluster_gpus, sharing) = (config.token, config.cluster_gpus, config.sharing);
        let app =
            Arc::new(http::App { shared: Arc::clone(&shared), token, intake, outgoing, cluster_gpus, sharing, posts });
        let patience =
            connection::Patience { most: config.max_connections, timeout: config.timeout, grace: config.grace };
        connection::serve(listener, http::router(app), shared, patience, stop).await;
        // The last sender went with the last connection, so the learner sees the end of its queue.
        if let Some(learning) = learning {
            let _ = learning.await;
        }
    }
}

/// Takes up what the journal holds, then serves on `listener` until `stop` ends and the requests in flight are answered. Must run in a
/// tokio runtime with time and I/O enabled.
///
/// # Errors
/// If a setting makes no sense or the journal cannot be taken up. What goes wrong while serving is told to clients and counted.
pub async fn run<B: OnlineModel>(
    listener: TcpListener,
    online: B,
    config: Config,
    stop: impl Future<Output = ()>,
) -> ServeResult<()> {
    Server::open(online, config)?.run(listener, stop).await;
    Ok(())
}

/// Listens on the address of the settings and blocks until `stop` ends, for instance [`terminated`]. `started` is told the address
/// listened on (the port may have been 0) and what the journal held.
///
/// # Errors
/// Errors of [`run`], or if the address cannot be listened on.
pub fn serve<B: OnlineModel>(
    config: Config,
    online: B,
    started: impl FnOnce(SocketAddr, &Recovered),
    stop: impl Future<Output = ()>,
) -> ServeResult<()> {
    let address = config.bind;
    let server = Server::open(online, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let refused = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        started(listener.local_addr().map_err(refused)?, &server.recovered);
        server.run(listener, stop).await;
        Ok(())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_warned_of_an_address_beyond_loopback_and_a_short_token() {
        let long = Config::new(Token::new("0123456789abcdef").unwrap());
        assert_eq!(long.warnings(), [""; 0]);
        let beyond = Config { bind: "0.0.0.0:7420".parse().unwrap(), ..long.clone() };
        assert!(beyond.warnings().concat().contains("0.0.0.0:7420 is reached from other machines"));
        assert_eq!(Config { bind: "[::1]:7420".parse().unwrap(), ..long }.warnings(), [""; 0]);
        let short = Config::new(Token::new("sesame").unwrap());
        assert!(short.warnings().concat().contains("6 characters"));
    }
}
