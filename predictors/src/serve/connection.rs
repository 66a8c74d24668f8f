//! Connections: how many there may be, how long each may dawdle, and how they end. HTTP/1.1 is hyper's part.
//!
//! - Beyond the most connections allowed, the oldest that has not shown the token makes room: who only holds connections open keeps nobody out.
//!   If all have shown it, some more ([`SPARE`]) are let in for `/healthz` alone; a further one is told 503 and closed, without being read.
//! - The head of a request must be there within the timeout, counted from the moment the connection waits for one; so an idle
//!   connection closes after it too. Bodies have their own watch (see `body`).
//! - A client that takes less than [`LEAST_TAKEN`] of a waiting answer within the timeout is closed: no slow reader holds an answer for long.
//! - On stop no connection is accepted, idle ones close, requests in flight are answered, and after the grace period what is left is cut.
//!
//! Cost: one task and at most 64 KiB of buffer a connection, and the body that the budget grants it.
//!
//! Worked example: with a timeout of 10 s, a client that sends one byte a second of a head of 40 bytes is closed after 10.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Sleep, sleep, timeout};

use super::learner::Shared;

/// Largest head of a request, bytes; also what a connection buffers at most.
const HEAD_BYTES: usize = 64 << 10;
/// Connections beyond the most, for `/healthz` alone.
pub(super) const SPARE: usize = 8;
/// Bytes that a client takes of an answer within the timeout at least, if so many wait: 100 KiB a second with the default.
const LEAST_TAKEN: usize = 1 << 20;
/// Wait for a connection that was asked to make room.
const DISPLACED: Duration = Duration::from_millis(50);
/// Connections that are being told at one time that there are too many.
const TURNED_AWAY: usize = 64;
/// Wait after the system refuses to accept, as it has no descriptor left: others close meanwhile.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 101\r\n\r\n\
    {\"error\":{\"message\":\"too many connections are open\",\"remedy\":\"close some, or try again in a second\"}}";

/// Limits on connections: their number, and timeouts of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) most: usize,
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
}

/// A connection, as its requests know it.
#[derive(Debug, Default)]
pub(super) struct Guest {
    /// Whether the connection is beyond the limit, and may ask for `/healthz` alone.
    pub(super) spare: bool,
    admitted: AtomicBool,
    leave: Notify,
}

impl Guest {
    /// Records that the client has shown the token.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }
}

/// The connections that may have to make room, the oldest first.
#[derive(Debug, Default)]
struct Guests(VecDeque<Weak<Guest>>);

impl Guests {
    fn add(&mut self, guest: &Arc<Guest>) {
        self.0.push_back(Arc::downgrade(guest));
    }

    /// Asks the oldest that has not shown the token to leave; whether there was one. Those that have shown it or are gone are forgotten.
    fn displace(&mut self) -> bool {
        while let Some(guest) = self.0.pop_front() {
            if let Some(guest) = guest.upgrade().filter(|guest| !guest.admitted.load(Ordering::Relaxed)) {
                guest.leave.notify_one();
                return true;
            }
        }
        false
    }

    /// Forgets those that are gone, now and then.
    fn tidy(&mut self, most: usize) {
        if self.0.len() > most.saturating_mul(2) {
            self.0.retain(|guest| guest.strong_count() > 0);
        }
    }
}

/// Serves connections until `stop`, then ends them.
pub(super) async fn serve<B: Send + 'static>(
    listener: TcpListener,
    router: Router,
    shared: Arc<Shared<B>>,
    patience: Patience,
    stop: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience.timeout).max_buf_size(HEAD_BYTES);
    let (stopping, stopped) = watch::channel(());
    let mut served = JoinSet::new();
    let mut turned_away = JoinSet::new();
    let mut guests = Guests::default();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
            // So that the number of connections is right when nobody comes.
            Some(_) = served.join_next() => {
                shared.metrics.connections.set(served.len() as u64);
                continue;
            }
        };
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        while served.try_join_next().is_some() {}
        while turned_away.try_join_next().is_some() {}
        if served.len() >= patience.most && guests.displace() {
            shared.metrics.connections_displaced.add(1);
            let _ = timeout(DISPLACED, served.join_next()).await;
        }
        let spare = served.len() >= patience.most;
        if served.len() >= patience.most.saturating_add(SPARE) {
            shared.metrics.connections_refused.add(1);
            if turned_away.len() < TURNED_AWAY {
                turned_away.spawn(turn_away(stream));
            }
            continue;
        }
        // An answer is one write; waiting for more would only delay it. A socket that refuses this is served all the same.
        let _ = stream.set_nodelay(true);
        let stream = Watched { stream: TokioIo::new(stream), timeout: patience.timeout, stalled: None, taken: 0 };
        let guest = Arc::new(Guest { spare, ..Guest::default() });
        guests.add(&guest);
        guests.tidy(patience.most.saturating_add(SPARE));
        let (service, extension) = (TowerToHyperService::new(router.clone()), Arc::clone(&guest));
        let service = service_fn(move |request| {
            let mut request: Request<hyper::body::Incoming> = request;
            request.extensions_mut().insert(Arc::clone(&extension));
            service.call(request)
        });
        let connection = builder.serve_connection(stream, service);
        let mut stopped = stopped.clone();
        served.spawn(async move {
            let mut connection = pin!(connection);
            // How a connection ends is the client's business: nothing is owed to one that broke off.
            tokio::select! {
                biased;
                _ = connection.as_mut() => return,
                () = guest.leave.notified() => return,
                _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        });
        shared.metrics.connections.set(served.len() as u64);
    }
    drop(listener);
    // Once round the event loop, so that requests which have arrived but not been looked at are in flight too.
    yield_now().await;
    // Also true if nobody listens, as there are no connections.
    let _ = stopping.send(());
    let _ = timeout(patience.grace, async { while served.join_next().await.is_some() {} }).await;
    served.shutdown().await;
    shared.metrics.connections.set(0);
}

/// Tells a client that there are too many, and waits a moment for it to close, as closing on unread bytes would take the answer back.
async fn turn_away(stream: TcpStream) {
    let _ = timeout(Duration::from_secs(1), async {
        stream.writable().await?;
        // A fresh socket has room for it all.
        stream.try_write(FULL)?;
        let mut unread = [0; 1024];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut unread) {
                Ok(0) => return io::Result::Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    })
    .await;
}

/// A stream whose writes fail when the other side takes too little for too long.
struct Watched<S> {
    stream: S,
    timeout: Duration,
    /// Runs from when a write first waits until all is written or enough is taken.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes taken since then.
    taken: usize,
}

impl<S> Watched<S> {
    fn written(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.taken = self.taken.saturating_add(*bytes);
            if self.taken >= LEAST_TAKEN {
                self.rest();
            }
        }
        if written.is_ready() { written } else { self.wait(context) }
    }

    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.stalled.is_none() {
            self.taken = 0;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn rest(&mut self) {
        self.stalled = None;
        self.taken = 0;
    }
}

impl<S: Read + Unpin> Read for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Asked for once all that there is has been written.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_pending() {
            return self.wait(context);
        }
        self.rest();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, written)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_has_its_length_right() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
