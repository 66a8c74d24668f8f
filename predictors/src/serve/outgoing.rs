//! Sending answers: at most so many bytes of all answers at a time wait to be taken by their clients. So memory is bounded by the settings
//! and not by slow readers.
//!
//! A large answer draws its length from a budget before it is made, and gives it back when its last piece has gone out (a connection that is
//! closed gives it back too; see `connection` for how long a client may take). One that finds the budget empty waits its turn for as long as
//! a body may take to arrive, and is then refused with 503. Answers of up to [`SMALL_BYTES`] are sent without: connections bound them.
//!
//! Worked example: with a budget of 128 MiB, two answers of 56 MB are sent at a time, and a third waits for one of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal::Refusal;

/// Answers of so many bytes need no share.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// The grain of the budget, bytes: a permit each.
const GRAIN_BYTES: usize = 4 << 10;
/// Pieces in which an answer goes out: what a connection buffers of it is a few of them.
const PIECE_BYTES: usize = 32 << 10;

/// The budget of answers.
#[derive(Debug)]
pub(super) struct Outgoing {
    budget: Arc<Semaphore>,
    grains: usize,
    patience: Duration,
}

/// A part of the budget, or nothing for a small answer.
#[derive(Debug)]
pub(super) struct Share(Option<OwnedSemaphorePermit>);

fn grains(bytes: usize) -> usize {
    bytes.div_ceil(GRAIN_BYTES)
}

impl Outgoing {
    pub(super) fn new(budget_bytes: usize, patience: Duration) -> Self {
        let grains = grains(budget_bytes).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self { budget: Arc::new(Semaphore::new(grains)), grains, patience }
    }

    /// Waits for a share of the budget for an answer of up to `bytes`; all of it for a longer one.
    pub(super) async fn share(&self, bytes: usize) -> Result<Share, Refusal> {
        if bytes <= SMALL_BYTES {
            return Ok(Share(None));
        }
        let wanted = u32::try_from(grains(bytes).min(self.grains)).unwrap_or(u32::MAX);
        match timeout(self.patience, Arc::clone(&self.budget).acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(Share(Some(permit))),
            _ => Err(Refusal::busy(
                "other clients have not taken their answers yet, which hold all memory set aside for answers",
            )),
        }
    }
}

impl Share {
    /// The answer `bytes`, which hands the share back as it goes out. Bytes by which the answer is
    /// shorter than was thought are handed back now.
    pub(super) fn body(mut self, bytes: Vec<u8>) -> Body {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(grains(bytes.len()));
            drop(permit.split(surplus));
            return Body::new(Held { bytes: Bytes::from(bytes), share: self });
        }
        Body::from(bytes)
    }
}

/// An answer on its way.
struct Held {
    bytes: Bytes,
    share: Share,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.bytes.len().min(PIECE_BYTES);
        if length == 0 {
            self.share.0 = None;
            return Poll::Ready(None);
        }
        // A copy: a part that is still being written must not keep the whole.
        let piece = Bytes::copy_from_slice(&self.bytes.split_to(length));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn answers_wait_for_those_before_them_and_small_ones_do_not() {
        let outgoing = Outgoing::new(1 << 20, Duration::from_millis(30));
        // Thought to be a mebibyte, in truth half of one: the other half is free at once.
        let mut first = outgoing.share(1 << 20).await.unwrap().body(vec![b'x'; 1 << 19]);
        let second = outgoing.share(1 << 19).await.unwrap();
        assert!(outgoing.share(SMALL_BYTES + 1).await.is_err());
        assert!(outgoing.share(SMALL_BYTES).await.is_ok());
        let mut length = 0;
        while let Some(frame) = poll_fn(|context| Pin::new(&mut first).poll_frame(context)).await {
            length += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(length, 1 << 19);
        drop(first);
        // A longer answer than the budget gets all of it, once all is there.
        assert!(outgoing.share(5 << 20).await.is_err());
        drop(second);
        assert!(outgoing.share(5 << 20).await.is_ok());
    }
}
