//! The one task that learns: it makes posted events durable, tells them to the model in the order in which they stand in the journal, and
//! only then lets them be acknowledged. It also has the model retrained and the journal cut, both elsewhere, while predictions go on.
//!
//! Group commit: while one batch is being synced (on a thread that may block), further posts wait in the queue, and the next sync takes
//! all of them. With a disk that needs f s a sync, n clients that wait for their answers get up to n / f posts a second, not 1 / f.
//!
//! Retraining starts when so many jobs ended since the last training; after a failure, when as many more did. The old model serves until
//! the new one is adopted, which happens between two batches. After that, and when the journal has grown long, a snapshot is written.
//!
//! Worked example: posts A and B arrive while the disk is busy. One line each, one sync, A told, B told, both answered.

use std::future::{Future, pending};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle, spawn_blocking, yield_now};
use tokio::time::sleep;

use super::OnlineModel;
use super::journal::{Cut, Journal};
use super::metrics::Metrics;
use super::recent::{Identity, LEARNT_BEFORE, Recent};
use crate::job::Event;

/// Posts that one sync takes at most.
const BATCH_POSTS: usize = 1024;
/// Events told to the model in one go, so that predictions need not wait long.
const TELL_EVENTS: usize = 256;
/// Reasons given in one answer at most; refusals are counted in full.
const REASONS: usize = 100;
/// While events cannot be kept, how often it is tried whether they can.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// State shared by the requests and the learner.
#[derive(Debug)]
pub(super) struct Shared<B> {
    online: Mutex<B>,
    pub(super) metrics: Metrics,
}

impl<B> Shared<B> {
    pub(super) fn new(online: B, metrics: Metrics) -> Self {
        Self { online: Mutex::new(online), metrics }
    }

    /// The model. Everything that takes it runs on one thread and lets go before it waits for anything, so there is no contention.
    pub(super) fn online(&self) -> MutexGuard<'_, B> {
        self.online.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events of one request.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) events: Vec<Event>,
    /// Told when the events are on disk and learnt, or why they are not.
    pub(super) reply: oneshot::Sender<Result<Outcome, String>>,
}

/// Outcome of the events of one request.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Outcome {
    /// Events learnt.
    pub(super) accepted: u64,
    /// Events kept in the journal but not learnt.
    pub(super) refused: u64,
    /// Why, for the first hundred of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reasons: Vec<Reason>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    /// Place among the events of the request, from 0.
    index: usize,
    reason: String,
}

/// Thresholds for retraining and snapshots, and where failures of either are reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Jobs that end between two trainings; None: never retrain.
    pub(super) retrain_after: Option<u64>,
    /// Length of the journal at which a snapshot takes its place, bytes.
    pub(super) compact_bytes: u64,
    /// Told in words what failed.
    pub(super) notice: fn(&str),
}

#[derive(Debug)]
pub(super) struct Learner<B: OnlineModel> {
    shared: Arc<Shared<B>>,
    /// Journal; None only while another thread writes it, or if that thread died.
    journal: Option<Journal>,
    recent: Recent,
    pace: Pace,
    training: Option<oneshot::Receiver<Result<B::Model, String>>>,
    /// Jobs ended since training when it last failed.
    failed_at: u64,
    compacting: Option<JoinHandle<io::Result<()>>>,
    /// The journal's length below which no further snapshot is tried, after one failed.
    compact_from: u64,
    /// Whether a model was adopted that no snapshot holds.
    adopted: bool,
}

/// Waits for what is there, and for ever if nothing is.
async fn wait<F: Future + Unpin>(waiting: &mut Option<F>) -> F::Output {
    match waiting {
        Some(future) => {
            let output = future.await;
            *waiting = None;
            output
        }
        None => pending().await,
    }
}

impl<B: OnlineModel> Learner<B> {
    /// `recent` are the events learnt last, as the journal has them.
    pub(super) fn new(shared: Arc<Shared<B>>, journal: Journal, recent: Recent, pace: Pace) -> Self {
        shared.metrics.journal_bytes.set(journal.bytes());
        Self {
            shared,
            journal: Some(journal),
            recent,
            pace,
            training: None,
            failed_at: 0,
            compacting: None,
            compact_from: pace.compact_bytes,
            adopted: false,
        }
    }

    /// Learns until nobody can post any more, and returns when all that was posted is on disk.
    pub(super) async fn run(mut self, mut posts: mpsc::Receiver<Post>) {
        loop {
            self.retrain();
            self.compact();
            let refusing = self.shared.metrics.journal_refusing.load(Ordering::Relaxed);
            tokio::select! {
                post = posts.recv() => {
                    let Some(post) = post else { break };
                    let mut batch = vec![post];
                    while batch.len() < BATCH_POSTS && let Ok(post) = posts.try_recv() {
                        batch.push(post);
                    }
                    self.learn(batch).await;
                }
                // The sender is dropped without a word if the training panics.
                trained = wait(&mut self.training) => self.trained(trained.unwrap_or_else(|_| Err("the training panicked".to_owned()))),
                written = wait(&mut self.compacting) => self.compacted(flat(written)),
                () = sleep(PROBE_EVERY), if refusing => self.probe().await,
            }
        }
        if let Some(compacting) = self.compacting.take() {
            self.compacted(flat(compacting.await));
        }
    }

    async fn learn(&mut self, batch: Vec<Post>) {
        let (batch, written) = self.write(batch).await;
        let metrics = &self.shared.metrics;
        if let Some(journal) = &self.journal {
            metrics.journal_bytes.set(journal.bytes());
        }
        metrics.journal_broken.store(self.journal.as_ref().is_none_or(Journal::broken), Ordering::Relaxed);
        metrics.journal_refusing.store(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written {
            metrics.journal_failures.add(1);
            (self.pace.notice)(&format!("events could not be kept and were refused: {error}"));
            for post in batch {
                let _ = post.reply.send(Err(error.to_string()));
            }
            return;
        }
        metrics.journal_commits.add(1);
        for post in batch {
            let outcome = self.tell(&post.events).await;
            // A client that went away is told nothing; its events are learnt all the same.
            let _ = post.reply.send(Ok(outcome));
        }
    }

    /// Has a thread that may block write and sync a batch.
    async fn write(&mut self, batch: Vec<Post>) -> (Vec<Post>, io::Result<()>) {
        let Some(mut journal) = self.journal.take() else {
            return (batch, Err(io::Error::other("the journal is lost until a restart")));
        };
        let work = spawn_blocking(move || {
            let written = journal.append(batch.iter().flat_map(|post| &post.events));
            (journal, batch, written)
        });
        match work.await {
            Ok((journal, batch, written)) => {
                self.journal = Some(journal);
                (batch, written)
            }
            // It panicked; the posts went with it, and whoever waits for them is told so by the dropped reply.
            Err(error) => (Vec::new(), Err(io::Error::other(error))),
        }
    }

    /// Finds out whether events can be kept again, as who does not find the server ready posts none.
    async fn probe(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        let work = spawn_blocking(move || {
            let probed = journal.probe();
            (journal, probed)
        });
        let metrics = &self.shared.metrics;
        if let Ok((journal, probed)) = work.await {
            metrics.journal_broken.store(journal.broken(), Ordering::Relaxed);
            metrics.journal_refusing.store(probed.is_err(), Ordering::Relaxed);
            if probed.is_ok() {
                (self.pace.notice)("events can be kept again");
            }
            self.journal = Some(journal);
        } else {
            metrics.journal_broken.store(true, Ordering::Relaxed);
        }
    }

    async fn tell(&mut self, events: &[Event]) -> Outcome {
        let mut outcome = Outcome::default();
        for (chunk, some) in events.chunks(TELL_EVENTS).enumerate() {
            if chunk > 0 {
                yield_now().await;
            }
            let mut online = self.shared.online();
            for (place, event) in some.iter().enumerate() {
                let identity = Identity::new(event);
                let learnt =
                    if self.recent.knows(identity) { Err(LEARNT_BEFORE.to_owned()) } else { online.observe(event) };
                match learnt {
                    Ok(()) => {
                        self.recent.remember(identity);
                        outcome.accepted += 1;
                    }
                    Err(reason) => {
                        outcome.refused += 1;
                        if outcome.reasons.len() < REASONS {
                            outcome.reasons.push(Reason { index: chunk * TELL_EVENTS + place, reason });
                        }
                    }
                }
            }
        }
        self.shared.metrics.events_accepted.add(outcome.accepted);
        self.shared.metrics.events_refused.add(outcome.refused);
        outcome
    }

    /// Starts a training if one is due and none runs.
    fn retrain(&mut self) {
        let Some(after) = self.pace.retrain_after else { return };
        let online = self.shared.online();
        if self.training.is_some() || online.ended_since_training() < self.failed_at.saturating_add(after) {
            return;
        }
        let train = online.trainer();
        drop(online);
        let (tell, training) = oneshot::channel();
        let thread = std::thread::Builder::new().name("retrain".to_owned());
        match thread.spawn(move || drop(tell.send(train()))) {
            Ok(_) => self.training = Some(training),
            Err(error) => self.trained(Err(error.to_string())),
        }
    }

    fn trained(&mut self, model: Result<B::Model, String>) {
        let metrics = &self.shared.metrics;
        let mut online = self.shared.online();
        match model {
            Ok(model) => {
                online.adopt(model);
                self.failed_at = 0;
                self.adopted = true;
                metrics.retrains_ok.add(1);
            }
            Err(reason) => {
                self.failed_at = online.ended_since_training();
                metrics.retrains_failed.add(1);
                (self.pace.notice)(&format!("the training failed and the old model stays: {reason}"));
            }
        }
    }

    /// Starts to write a snapshot if one is due and none is being written.
    fn compact(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let due = self.adopted || journal.bytes() >= self.compact_from;
        if !due || self.compacting.is_some() || journal.broken() {
            return;
        }
        self.adopted = false;
        // Everything in the journal has been told to the model by now, so the two agree.
        let cut: io::Result<Cut> = journal.cut();
        match cut {
            Ok(cut) => {
                let state = self.shared.online().snapshot();
                let recent = self.recent.identities();
                self.compacting =
                    Some(spawn_blocking(move || cut.replace(&state().map_err(io::Error::other)?, &recent)));
            }
            Err(error) => self.compacted(Err(error)),
        }
    }

    fn compacted(&mut self, written: io::Result<()>) {
        let metrics = &self.shared.metrics;
        let Some(journal) = &mut self.journal else { return };
        match written {
            Ok(()) => {
                journal.replaced();
                self.compact_from = self.pace.compact_bytes;
                metrics.snapshots.add(1);
            }
            Err(error) => {
                (self.pace.notice)(&format!("the snapshot could not be written and the journal grows: {error}"));
                // Not at every post, but when it has grown by as much again. The files stay, so nothing is lost.
                self.compact_from = journal.bytes().saturating_add(self.pace.compact_bytes);
                metrics.snapshot_failures.add(1);
            }
        }
        metrics.journal_bytes.set(journal.bytes());
    }
}

/// The work's own outcome, or that it panicked.
fn flat(done: Result<io::Result<()>, JoinError>) -> io::Result<()> {
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::job::{Prediction, Submission};
    use crate::serve::Task;
    use crate::serve::journal::Found;

    /// Keeps the start times in the order in which they were told, and refuses negative ones.
    #[derive(Debug, Default)]
    struct Recorder(Vec<i64>);

    impl OnlineModel for Recorder {
        type Model = ();

        fn predict(&mut self, _jobs: &[Submission], _now_ms: Option<i64>) -> Vec<Prediction> {
            Vec::new()
        }

        fn observe(&mut self, event: &Event) -> Result<(), String> {
            match event {
                Event::Started { time_ms, .. } if *time_ms >= 0 => self.0.push(*time_ms),
                _ => return Err("no start".to_owned()),
            }
            Ok(())
        }

        fn ended_since_training(&self) -> u64 {
            0
        }

        fn trained_ms(&self) -> Option<i64> {
            None
        }

        fn trainer(&self) -> Task<()> {
            Box::new(|| Ok(()))
        }

        fn adopt(&mut self, _model: ()) {}

        fn snapshot(&self) -> Task<Vec<u8>> {
            Box::new(|| Err("asked to fail".to_owned()))
        }

        fn restore(&mut self, _snapshot: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }

    fn of_job(job_id: &str, time_ms: i64) -> Event {
        Event::Started { job_id: job_id.to_owned(), time_ms }
    }

    fn started(time_ms: i64) -> Event {
        of_job("a", time_ms)
    }

    #[tokio::test]
    async fn waiting_posts_share_one_sync_and_are_told_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), &mut |_| Ok(true)).unwrap();
        let shared = Arc::new(Shared::new(Recorder::default(), Metrics::default()));
        let learner = Learner::new(
            Arc::clone(&shared),
            journal,
            Recent::default(),
            Pace { retrain_after: None, compact_bytes: 1 << 20, notice: |_| {} },
        );
        let (posts, queue) = mpsc::channel(16);
        // Ten posts are there before the disk is free for the first; post 4 has 600 events, which is more than are told in one go.
        let mut outcomes = Vec::new();
        for post in 0..10i64 {
            let events = if post == 4 {
                // Of different jobs, as an event is learnt once.
                (0..600).map(|index| of_job(&index.to_string(), if index == 500 { -1 } else { 4 })).collect()
            } else {
                vec![started(post)]
            };
            let (reply, outcome) = oneshot::channel();
            posts.send(Post { events, reply }).await.unwrap();
            outcomes.push(outcome);
        }
        drop(posts);
        learner.run(queue).await;
        assert_eq!(shared.metrics.journal_commits.get(), 1);
        // 9 posts of one event and 600, one of which was refused.
        assert_eq!((shared.metrics.events_accepted.get(), shared.metrics.events_refused.get()), (608, 1));
        for (post, outcome) in outcomes.into_iter().enumerate() {
            let outcome = outcome.await.unwrap().unwrap();
            let reasons =
                if post == 4 { vec![Reason { index: 500, reason: "no start".to_owned() }] } else { Vec::new() };
            assert_eq!(outcome.reasons, reasons, "post {post}");
        }
        let told = shared.online().0.clone();
        assert!(told.is_sorted() && told.len() == 608);
        // On disk in the same order, the refused one included.
        let mut kept = Vec::new();
        Journal::open(folder.path(), &mut |result| match result {
            Found::Event(Event::Started { time_ms, .. }) => {
                kept.push(*time_ms);
                Ok(true)
            }
            _ => panic!("only starts were posted"),
        })
        .unwrap();
        assert_eq!(kept.len(), 609);
        kept.retain(|time_ms| *time_ms >= 0);
        assert_eq!(kept, told);
    }

    #[tokio::test]
    async fn a_snapshot_that_fails_is_not_tried_at_every_post_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), &mut |_| Ok(true)).unwrap();
        let shared = Arc::new(Shared::new(Recorder::default(), Metrics::default()));
        // A line is 80 bytes, from the tenth on 81: {"crc":"xxxxxxxx", has 18, "seq":1,"event": 16, {"event":"started","job_id":"a","time_ms":1}
        // 44, the closing brace and the line break 2. So the first try is at 9 × 80 + 81 = 801 bytes, and the next would be at 1,601 or more;
        // 19 lines are 9 × 80 + 10 × 81 = 1,530.
        let learner = Learner::new(
            Arc::clone(&shared),
            journal,
            Recent::default(),
            Pace { retrain_after: None, compact_bytes: 800, notice: |_| {} },
        );
        let (posts, queue) = mpsc::channel(16);
        let learning = tokio::spawn(learner.run(queue));
        for _ in 0..19 {
            let (reply, outcome) = oneshot::channel();
            posts.send(Post { events: vec![started(1)], reply }).await.unwrap();
            outcome.await.unwrap().unwrap();
        }
        drop(posts);
        learning.await.unwrap();
        assert_eq!((shared.metrics.snapshots.get(), shared.metrics.snapshot_failures.get()), (0, 1));
        let (_, recovered) = Journal::open(folder.path(), &mut |_| Ok(true)).unwrap();
        assert_eq!((recovered.events, recovered.snapshot_seq), (19, 0));
    }
}
