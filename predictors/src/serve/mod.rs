//! An HTTP server of predictions that learns from the events it is sent. Responsible for the protocol, the token, limits, and for keeping
//! what was acknowledged; not for the model, which is a [`Brain`]. No TLS: it listens on loopback unless told otherwise, and a proxy is the
//! place for certificates.
//!
//! One thread serves; predictions are made on it, one request after the other. What may block or take long (syncing the journal, parsing
//! large bodies, training, writing snapshots) is done on others. Paths and formats are described in `http`, the files in `journal`, the
//! Kubernetes part in `extender`.
//!
//! Promise: events answered with 200 survive a crash of the process and of the machine, and are learnt once. Events that were not answered
//! may or may not have been kept; a client posts them again, and the model refuses those that it knows.
//!
//! Cost: a request O(bytes) and the model's own; memory is bounded by the settings (connections × 64 KiB, and the budget of bodies
//! with about ten times that while they are parsed) and by the model. Nothing is kept a client, a path or a job.
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

use crate::job::{Event, Prediction, Submission};
use journal::{Found, Journal};

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
mod refusal;
mod signal;

pub use auth::Token;
pub use error::{Error, Result};
pub use journal::Recovered;
pub use signal::{signalled, terminated};

/// Work on a copy of the model's state that another thread does; an error is in words for an operator.
pub type Task<T> = Box<dyn FnOnce() -> std::result::Result<T, String> + Send>;

/// A model that predicts, learns and can be retrained. All methods are called from one thread, and every one of them delays
/// the predictions that wait: what takes long belongs into the returned [`Task`]s.
pub trait Brain: Send + 'static {
    /// What a training yields and [`Brain::adopt`] takes.
    type Model: Send + 'static;

    /// One prediction a job, in their order. `now_ms` is the time as of which to predict, milliseconds since the epoch; None: when each
    /// job was submitted.
    fn predict(&mut self, jobs: &[Submission], now_ms: Option<i64>) -> Vec<Prediction>;

    /// Learns an event. Must depend on the events before it alone, as events are replayed at start, and must refuse an event that
    /// it has learnt before, as a client that got no answer posts it again.
    ///
    /// # Errors
    /// Why the event is refused: unknown job, end before start, known already, … The state is then as before.
    fn observe(&mut self, event: &Event) -> std::result::Result<(), String>;

    /// Jobs that ended since the model was trained.
    fn ended_since_training(&self) -> u64;

    /// When the model was trained, milliseconds since the epoch, if known.
    fn trained_ms(&self) -> Option<i64>;

    /// Trains a new model on what is known now.
    fn trainer(&self) -> Task<Self::Model>;

    /// Takes up a trained model. Events learnt since [`Brain::trainer`] was called stay learnt.
    fn adopt(&mut self, model: Self::Model);

    /// Writes down all that is known now, the model included, for [`Brain::restore`].
    fn snapshot(&self) -> Task<Vec<u8>>;

    /// Takes up a snapshot in place of all that is known. Called at most once, before everything else.
    ///
    /// # Errors
    /// Why the snapshot cannot be taken up.
    fn restore(&mut self, snapshot: &[u8]) -> std::result::Result<(), String>;
}

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and port to listen on; default 127.0.0.1:7420. Read by [`serve`] alone.
    pub bind: SocketAddr,
    /// What a client must show.
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
    /// How long the head of a request, then its body, then a stalled answer may take; default 10 s.
    pub timeout: Duration,
    /// Most connections at a time; default 1,024.
    pub max_connections: usize,
    /// How long requests in flight may take after a stop; default 10 s.
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
            timeout: Duration::from_secs(10),
            max_connections: 1024,
            grace: Duration::from_secs(10),
            notice: |_| {},
        }
    }

    fn check(&self) -> Result<()> {
        let positive = [
            ("retrain_after", self.retrain_after != Some(0)),
            ("compact_bytes", self.compact_bytes > 0),
            ("body_limit_bytes", self.body_limit_bytes > 0),
            ("timeout", !self.timeout.is_zero()),
            ("max_connections", self.max_connections > 0),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, positive)| !positive) {
            return Err(Error::Setting { name, found: "0".to_owned(), remedy: "give a number above 0" });
        }
        if self.body_budget_bytes < self.body_limit_bytes {
            return Err(Error::Setting {
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
    journal: Option<Journal>,
    config: Config,
    recovered: Recovered,
}

impl<B: Brain> Server<B> {
    fn open(mut brain: B, config: Config) -> Result<Self> {
        config.check()?;
        let mut recovered = Recovered::default();
        let mut journal = None;
        if let Some(folder) = &config.journal {
            let (opened, found) = Journal::open(folder, &mut |found| match found {
                Found::Snapshot(bytes) => brain.restore(bytes).map(|()| true),
                Found::Event(event) => Ok(brain.observe(event).is_ok()),
            })?;
            (journal, recovered) = (Some(opened), found);
        }
        let metrics = metrics::Metrics::default();
        metrics.journal_torn.add(recovered.torn);
        metrics.journal_corrupt.add(recovered.corrupt);
        metrics.journal_repeated.add(recovered.repeated);
        metrics.journal_replayed.add(recovered.events);
        Ok(Self { shared: Arc::new(learner::Shared::new(brain, metrics)), journal, config, recovered })
    }

    async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let Self { shared, journal, config, .. } = self;
        let (posts, learning) = match journal {
            Some(journal) => {
                let pace = learner::Pace {
                    retrain_after: config.retrain_after,
                    compact_bytes: config.compact_bytes,
                    notice: config.notice,
                };
                // As long as there are connections at most, each with one post: the queue itself never keeps one waiting.
                let (posts, queue) = mpsc::channel(config.max_connections);
                (Some(posts), Some(tokio::spawn(learner::Learner::new(Arc::clone(&shared), journal, pace).run(queue))))
            }
            None => (None, None),
        };
        let intake = body::Intake::new(config.body_limit_bytes, config.body_budget_bytes, config.timeout);
        let app = Arc::new(http::App { shared: Arc::clone(&shared), token: config.token, intake, posts });
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
pub async fn run<B: Brain>(
    listener: TcpListener,
    brain: B,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    Server::open(brain, config)?.run(listener, stop).await;
    Ok(())
}

/// Listens on the address of the settings and blocks until `stop` ends, for instance [`terminated`]. `started` is told the address
/// listened on (the port may have been 0) and what the journal held.
///
/// # Errors
/// As [`run`], or if the address cannot be listened on.
pub fn serve<B: Brain>(
    config: Config,
    brain: B,
    started: impl FnOnce(SocketAddr, &Recovered),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let address = config.bind;
    let server = Server::open(brain, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let refused = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        started(listener.local_addr().map_err(refused)?, &server.recovered);
        server.run(listener, stop).await;
        Ok(())
    })
}
