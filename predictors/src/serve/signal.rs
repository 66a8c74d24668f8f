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
