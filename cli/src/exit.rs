//! Exit codes, as the README lists them.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use tracecast_analytics::Kind;
use tracecast_analytics::report::markup::printable;
use tracecast_analytics::storage::Unfinished;
use tracecast_predictors::serve::signalled;

/// The source could not be read or the answer not written.
const FAILED: u8 = 1;
/// `--strict` was asked for and rows were quarantined or a file is damaged. (2 is clap's code for wrong usage.)
const STRICT: u8 = 3;
/// Code of a request that does not exist or does not go together; clap's code for wrong usage.
const USAGE: u8 = 2;
/// No reader recognised the source.
const UNKNOWN_FORMAT: u8 = 4;
/// Code for data that do not suffice for the request.
const TOO_LITTLE_DATA: u8 = 5;

/// Options that do not go together, or name what there is not.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Removes files of passing names when the system tells the program to stop, and then stops it with 128 + the number of the signal, as a shell
/// does. If no thread can be had for it, signals end the program as they do any other.
pub(crate) fn leave_nothing_half_written() {
    let wait = || {
        if let Some(number) = signalled() {
            Unfinished::remove_all();
            #[expect(clippy::exit, reason = "the main thread is at work, and a signal does not ask it")]
            std::process::exit(128 + number);
        }
    };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

/// The exit code of an outcome; a failure's chain of reasons goes to stderr.
pub(crate) fn code(outcome: &anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if is_of(error, ErrorKind::BrokenPipe) {
        // The reader of the output (`head`, a pager) has seen enough; that is no failure.
        return ExitCode::SUCCESS;
    }
    // If stderr is gone too, there is nobody left to tell.
    // What was found may be a line of a binary file, which must not drive the terminal.
    let _ = writeln!(std::io::stderr().lock(), "tracecast: {}", message(error));
    ExitCode::from(match kind(error) {
        Kind::Failed => FAILED,
        Kind::Usage => USAGE,
        Kind::Strict => STRICT,
        Kind::UnknownFormat => UNKNOWN_FORMAT,
        Kind::TooLittleData => TOO_LITTLE_DATA,
    })
}

/// The kind of the error, of whichever crate it is.
fn kind(error: &anyhow::Error) -> Kind {
    let analytics = || error.downcast_ref().map(tracecast_analytics::Error::kind);
    let predictors = || error.downcast_ref().map(tracecast_predictors::Error::kind);
    let replay = || error.downcast_ref().map(tracecast_planner::replay::Error::kind);
    let planner = || error.downcast_ref().map(tracecast_planner::Error::kind);
    let here = || error.downcast_ref().map(|Usage(_)| Kind::Usage);
    analytics().or_else(predictors).or_else(replay).or_else(planner).or_else(here).unwrap_or(Kind::Failed)
}

/// The chain of reasons, with what to do where a file is not there. A plan's may be a file to copy,
/// so its line ends stay.
fn message(error: &anyhow::Error) -> String {
    let mut text = format!("{error:#}");
    if is_of(error, ErrorKind::NotFound) {
        text.push_str("; check the path (one that does not begin with / starts at the current folder)");
    }
    if error.is::<tracecast_planner::Error>() || error.is::<tracecast_planner::replay::Error>() {
        text.lines().map(printable).collect::<Vec<_>>().join("\n")
    } else {
        printable(&text)
    }
}

/// Whether the system refused something for a reason of this kind.
fn is_of(error: &anyhow::Error, kind: ErrorKind) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|cause| cause.kind() == kind)
}
