//! The system's wish that the server stop. Worked example: `kill <pid>` sends SIGTERM, Ctrl-C sends SIGINT; either ends [`terminated`].

/// Waits for SIGTERM or SIGINT. If neither can be listened for, it waits for ever: the server still serves, and the signals end the process.
pub async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Blocks until the system tells the process to stop: the number of the signal (1 hangup, 2 interrupt, 15 termination). `None` if signals
/// cannot be listened for. For programs that do not serve: their outputs are to be whole or not there.
pub fn signalled() -> Option<i32> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup()).ok()?;
        let mut interrupt = signal(SignalKind::interrupt()).ok()?;
        let mut term = signal(SignalKind::terminate()).ok()?;
        Some(tokio::select! {
            _ = hangup.recv() => SignalKind::hangup().as_raw_value(),
            _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = term.recv() => SignalKind::terminate().as_raw_value(),
        })
    })
}
