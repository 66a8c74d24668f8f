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

/// Whether the process was started with a signal ignored (`nohup`, a shell's background job), as
/// Linux reports.
fn ignored(number: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

/// Blocks until the system tells the process to stop: the number of the signal (1 hangup, 2 interrupt, 15 termination). Signals that the process
/// was started to ignore stay ignored. `None` if signals cannot be listened for. For programs that do not serve: their outputs are to be whole or not there.
pub fn signalled() -> Option<i32> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let received = async |kind: SignalKind| {
            let listened = if ignored(kind.as_raw_value()) { None } else { signal(kind).ok() };
            match listened {
                Some(mut listened) => drop(listened.recv().await),
                None => std::future::pending().await,
            }
            kind.as_raw_value()
        };
        Some(tokio::select! {
            number = received(SignalKind::hangup()) => number,
            number = received(SignalKind::interrupt()) => number,
            number = received(SignalKind::terminate()) => number,
        })
    })
}
