//! The files that a plan writes: for whom, and where to. The same for every plan that writes for all who can read it unless it is told otherwise.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};

use crate::args::choices;
use crate::output;

/// Those for whom a plan writes files, and what `--help` says of that.
pub(crate) trait Audience: ValueEnum + Send + Sync + 'static {
    /// What is written for whom.
    const WHAT: &'static str;
    /// Where to.
    const FOLDER: &'static str = "Folder into which they are written";
}

/// For whom files are written, and where to.
#[derive(Debug, Args)]
pub(crate) struct Emitting<R: Audience> {
    #[arg(
        long,
        help = R::WHAT,
        value_name = "WHO",
        value_delimiter = ',',
        value_parser = choices::<R>(),
        requires = "emit_to",
        action = ArgAction::Append,
        help_heading = "Configuration"
    )]
    emit: Vec<R>,
    #[arg(long, help = R::FOLDER, value_name = "FOLDER", help_heading = "Configuration")]
    pub(crate) emit_to: Option<PathBuf>,
}

impl<R: Audience> Emitting<R> {
    /// Writes the files, if a folder is named: of those who are asked for, of all where none is. Where it is `refused`, says that nothing is written, and why.
    pub(crate) fn write<N: AsRef<str> + Clone>(
        &self,
        refused: Option<String>,
        of: impl Fn(&R) -> Result<Vec<(N, String)>>,
        quiet: bool,
    ) -> Result<()> {
        let Some(folder) = &self.emit_to else { return Ok(()) };
        if let Some(why) = refused {
            not_written(&why);
            return Ok(());
        }
        let asked = if self.emit.is_empty() { R::value_variants() } else { &self.emit };
        output::emitted(folder, &asked.iter().map(of).collect::<Result<Vec<_>>>()?.concat(), quiet)
    }
}

/// Says that nothing is written to `--emit-to`, and why. Whoever asks for files goes on with them, so that this is told where progress is not.
pub(crate) fn not_written(why: &str) {
    output::say(false, &format!("tracecast: warning: nothing is written to --emit-to, as {}", why.replace("**", "")));
}
