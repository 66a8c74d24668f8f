//! Taking in the body of a request: at most so many bytes, in at most so much time, and at most so many bytes of all requests together.
//!
//! The last is a budget that a request draws its declared length (or the limit, if it declares none) from before it is read, and gives back
//! when it is answered; a request that finds it empty waits its turn. So memory is bounded by the settings, not by the clients.
//!
//! A body that is too long is read on for a while and thrown away, as many clients listen only after they have sent everything; one that
//! asked first (`Expect: 100-continue`) is refused at once.
//!
//! Worked example: with a limit of 8 MiB and a budget of 64 MiB, eight requests without a length are read at a time; of requests of
//! 500 bytes, 65,536 are.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;

/// The grain of the budget, bytes: a permit each.
const GRAIN_BYTES: usize = 1 << 10;
/// Work on bodies from this size on, bytes, leaves the thread that serves: about a millisecond of parsing.
const LARGE_BYTES: usize = 256 << 10;

/// Limits on reading request bodies.
#[derive(Debug)]
pub(super) struct Intake {
    limit_bytes: usize,
    timeout: Duration,
    budget: Arc<Semaphore>,
    grains: usize,
}

/// A request whose body is here. The budget gets its share back when this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl Intake {
    /// New intake of at most `limit_bytes` a body, `budget_bytes` of all, and `timeout` from the
    /// head of a request to the end of its body.
    pub(super) fn new(limit_bytes: usize, budget_bytes: usize, timeout: Duration) -> Self {
        let grains = budget_bytes.div_ceil(GRAIN_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self { limit_bytes, timeout, budget: Arc::new(Semaphore::new(grains)), grains }
    }

    pub(super) async fn take(&self, request: Request) -> Result<Taken, Refusal> {
        let deadline = Instant::now() + self.timeout;
        let (parts, mut body) = request.into_parts();
        let declared = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        if declared.is_some_and(|length| length > self.limit_bytes) {
            if !parts.headers.contains_key(header::EXPECT) {
                let _ = timeout_at(deadline, self.discard(&mut body)).await;
            }
            return Err(self.too_long());
        }
        let grains = declared.unwrap_or(self.limit_bytes).div_ceil(GRAIN_BYTES).clamp(1, self.grains);
        let share = Arc::clone(&self.budget).acquire_many_owned(u32::try_from(grains).unwrap_or(u32::MAX));
        let Ok(Ok(share)) = timeout_at(deadline, share).await else {
            return Err(Refusal::busy("other requests hold all memory set aside for bodies"));
        };
        let bytes = match timeout_at(deadline, self.collect(&mut body)).await {
            Ok(read) => read?,
            Err(_) => {
                return Err(Refusal::new(
                    StatusCode::REQUEST_TIMEOUT,
                    format!("the body did not arrive within {} s", self.timeout.as_secs_f64()),
                    "send smaller requests, or look for what slows the connection down",
                ));
            }
        };
        Ok(Taken { headers: parts.headers, bytes, _share: share })
    }

    fn too_long(&self) -> Refusal {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {} bytes", self.limit_bytes),
            "split it into several requests, or start the server with a higher limit",
        )
    }

    async fn collect(&self, body: &mut Body) -> Result<Bytes, Refusal> {
        let broken = |error: axum::Error| Refusal::bad(format!("the body ends early: {error}"), "send it again");
        let Some(first) = next(body).await else { return Ok(Bytes::new()) };
        let first = first.map_err(broken)?;
        if body.is_end_stream() && first.len() <= self.limit_bytes {
            // The common case, and no copy.
            return Ok(first);
        }
        let mut all = first.to_vec();
        while all.len() <= self.limit_bytes {
            match next(body).await {
                Some(piece) => all.extend_from_slice(&piece.map_err(broken)?),
                None => return Ok(all.into()),
            }
        }
        drop(all);
        self.discard(body).await;
        Err(self.too_long())
    }

    /// Reads on for at most four times the limit.
    async fn discard(&self, body: &mut Body) {
        let mut left = self.limit_bytes.saturating_mul(4);
        while let Some(Ok(piece)) = next(body).await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    }
}

/// The next bytes of a body; trailers are passed over.
async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Does work on `size` bytes here if they are few, and elsewhere if they are many, so that other requests need not wait for it.
pub(super) async fn apart<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if size < LARGE_BYTES {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::defect(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    fn intake(limit_bytes: usize, budget_bytes: usize) -> Intake {
        Intake::new(limit_bytes, budget_bytes, Duration::from_millis(50))
    }

    fn request(body: Body) -> Request {
        Request::new(body)
    }

    async fn status(intake: &Intake, body: Body) -> u16 {
        match intake.take(request(body)).await {
            Ok(_) => 200,
            Err(refusal) => refusal.into_response().status().as_u16(),
        }
    }

    #[tokio::test]
    async fn the_limit_is_the_last_length_taken() {
        let intake = intake(5, 1 << 20);
        assert_eq!(intake.take(request(Body::from("12345"))).await.unwrap().bytes, "12345");
        assert_eq!(intake.take(request(Body::empty())).await.unwrap().bytes, "");
        assert_eq!(status(&intake, Body::from("123456")).await, 413);
    }

    #[tokio::test]
    async fn the_budget_comes_back_with_the_answer() {
        // 3 KiB: three bodies of a KiB, or one of three.
        let intake = intake(3 << 10, 3 << 10);
        let small = || Body::from(vec![b' '; 1 << 10]);
        let first = intake.take(request(small())).await.unwrap();
        let second = intake.take(request(small())).await.unwrap();
        assert_eq!(status(&intake, Body::from(vec![b' '; 3 << 10])).await, 503);
        assert_eq!(status(&intake, small()).await, 200);
        drop((first, second));
        assert_eq!(status(&intake, Body::from(vec![b' '; 3 << 10])).await, 200);
    }
}
