//! The `tracecast` command: arguments in, analyses of the libraries run, answers out. No logic of its own.
//!
//! Data go to stdout, progress and messages to stderr. Exit codes are in [`exit`].

mod args;
mod cmd;
mod early;
mod exit;
mod output;
mod progress;
mod source;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = cmd::Arguments::parse();
    if let Some(threads) = arguments.threads {
        // Fails only if the pool is already running, which nothing before this line starts.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
    }
    if !matches!(arguments.command, cmd::Command::Serve(_)) {
        // The server ends in good order by itself.
        exit::leave_nothing_half_written();
    }
    let outcome = cmd::run(&arguments);
    exit::code(&outcome)
}
