//! Progress on stderr: of long reads, one bar for the file being read, of replays, one for the policies, and of other long work what is being done and for
//! how long.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracecast_analytics::ingest::{Observer, Progress};
use tracecast_analytics::watch::Watch;

/// Template of progress over so many steps, with the time left.
const COUNTED: &str = "{msg} [{bar:30}] {pos} of {len}, {elapsed}, {eta} left";
/// Template of progress where the number of steps is unknown.
const UNCOUNTED: &str = "{spinner} {msg} … {elapsed}";

/// Templates are constants; a bad one would only cost a bar its looks.
fn looks(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// A bar that shows itself only on a terminal, and not if `quiet`.
fn bar(quiet: bool, length: Option<u64>, template: &str) -> ProgressBar {
    let shown = !quiet && std::io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(length, target);
    bar.set_style(looks(template));
    bar
}

/// A bar, or nothing where stderr is not a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    file: Mutex<String>,
}

impl Bar {
    /// A bar that shows itself only on a terminal, and not if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = bar(quiet, Some(0), "{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left");
        Self { bar, file: Mutex::new(String::new()) }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Clock of the work in progress, on a terminal; it moves by itself, and is taken away when
/// dropped.
pub(crate) struct Clock(ProgressBar);

/// The line that moves by itself, so that messages do not write into it.
static RUNNING: Mutex<Option<ProgressBar>> = Mutex::new(None);

impl Clock {
    /// Says that `what` is being done, on a terminal and not if `quiet`.
    pub(crate) fn new(quiet: bool, what: &'static str) -> Self {
        Self::moving(bar(quiet, None, UNCOUNTED), what)
    }

    fn moving(line: ProgressBar, what: &'static str) -> Self {
        line.set_message(what);
        if !line.is_hidden() {
            line.enable_steady_tick(Duration::from_millis(200));
            *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
        }
        Self(line)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.finish_and_clear();
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A clock that counts steps done, such as replays or fits of models, with the time left.
pub(crate) struct Steps(Clock);

impl Steps {
    /// `count` steps of `what`.
    pub(crate) fn new(quiet: bool, what: &'static str, count: usize) -> Self {
        Self(Clock::moving(bar(quiet, Some(count as u64), COUNTED), what))
    }

    /// Progress over as many steps as [`Watch::more`] says; until it does, their number is unknown.
    pub(crate) fn watching(quiet: bool, what: &'static str) -> Self {
        Self(Clock::moving(bar(quiet, Some(0), UNCOUNTED), what))
    }
}

impl Watch for Steps {
    fn more(&self, parts: usize) {
        let line = &self.0.0;
        if line.length() == Some(0) {
            line.set_style(looks(COUNTED));
        }
        line.inc_length(parts as u64);
    }

    fn made(&self) {
        self.0.0.inc(1);
    }
}

/// Writes to stderr with the line that moves out of the way.
pub(crate) fn beside_the_clock(write: impl FnOnce()) {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match running {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

impl Observer for Bar {
    fn progress(&self, progress: &Progress<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        if let Ok(mut file) = self.file.lock()
            && *file != progress.file
        {
            progress.file.clone_into(&mut file);
            self.bar.set_message(format!("reading {}", progress.file));
            self.bar.set_length(progress.total_bytes);
        }
        self.bar.set_position(progress.done_bytes);
    }
}
