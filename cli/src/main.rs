//! The `tracecast` command: arguments in, analyses of the libraries run, answers out. No logic of its own.
//!
//! Data go to stdout, progress and messages to stderr. Exit codes are in [`exit`].

mod args;
mod cmd;
mod early;
mod exit;
mod glossary;
mod memory;
mod output;
mod progress;
mod settings;
mod source;

use std::process::ExitCode;

fn main() -> ExitCode {
    let (arguments, settings) = match settings::parse::<cmd::Arguments>() {
        Ok(parsed) => parsed,
        Err(error) => return exit::code(&Err(error)),
    };
    if let Some(threads) = arguments.threads {
        // Fails only if the pool is already running, which nothing before this line starts.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
    }
    if !matches!(arguments.command, Some(cmd::Command::Serve(_))) {
        // The server ends in good order by itself.
        exit::leave_nothing_half_written();
    }
    let outcome = cmd::run(&arguments, &settings);
    exit::code(&outcome)
}
