//! The files that a plan writes: for whom, and where to. A plan that advises no change writes none, and says why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgAction, Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_planner::plan::Emitted;
use tracecast_planner::plan::emit::own::{OwnFile, Patch};
use tracecast_planner::plan::emit::slurm::hosts;

use crate::args::choices;
use crate::exit::Usage;
use crate::{output, source};

/// Readers for whom a plan writes files, and the help on that.
pub(crate) trait Audience: ValueEnum + Send + Sync + 'static {
    /// Help on the files and their readers.
    const WHAT: &'static str;

    /// Readers for whom files are written where nobody is named; none where what is set differs by
    /// reader.
    fn unnamed() -> &'static [Self] {
        Self::value_variants()
    }
}

/// Readers for whom files are written, and the folder.
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
    /// Folder into which they are written; where the plan advises no change, nothing is
    #[arg(long, value_name = "FOLDER", help_heading = "Configuration")]
    pub(crate) emit_to: Option<PathBuf>,
}

impl<R: Audience> Emitting<R> {
    /// Readers for whom files are written.
    pub(crate) fn readers(&self) -> &[R] {
        if self.emit.is_empty() { R::unnamed() } else { &self.emit }
    }

    /// Refuses a folder without anybody to write for, and names who there is.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.emit_to.is_none() || !self.readers().is_empty() {
            return Ok(());
        }
        let values = R::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let example = names.first().map_or("WHO", String::as_str);
        Err(Usage(format!(
            "--emit-to: nobody is named to write for; add --emit with one or more of {}, such as --emit {example}",
            names.join(", ")
        )))
    }

    /// The folder, if one is named and something is to be written into it. Where that is `refused`, says so and why, and what lies there: whoever goes on with files has to know.
    pub(crate) fn folder(&self, refused: Option<String>) -> Option<&Path> {
        let folder = self.emit_to.as_deref()?;
        let Some(why) = refused else { return Some(folder) };
        let mut said = format!("nothing is written to --emit-to: {}", why.replace("**", ""));
        let there = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        if !names.is_empty() {
            let more = if said.ends_with('.') { "" } else { "." };
            said.push_str(&format!(
                "{more} What lies in {} is not of this plan: {}",
                folder.display(),
                format::names(&names, 6)
            ));
        }
        output::warn(&said);
        None
    }

    /// Writes the files of those for whom there are to be any, if a folder is named and that is not `refused`.
    pub(crate) fn write<N: AsRef<str> + Clone>(
        &self,
        refused: Option<String>,
        of: impl Fn(&R) -> Result<Vec<(N, String)>>,
        quiet: bool,
    ) -> Result<()> {
        let Some(folder) = self.folder(refused) else { return Ok(()) };
        output::emitted(folder, &self.readers().iter().map(of).collect::<Result<Vec<_>>>()?.concat(), quiet)
    }
}

/// A list of hosts as slurm.conf writes it.
pub(crate) fn host_list(text: &str) -> Result<String, String> {
    hosts::expand(text).map(|_| text.to_owned())
}

/// The user's own files that `--against` names, none in the folder of `--emit-to`. `unread` says of one, by whether it is Slurm's, that nobody of `--emit` reads it.
pub(crate) fn own_files(
    against: &[PathBuf],
    emit_to: Option<&Path>,
    unread: impl Fn(bool) -> Option<&'static str>,
) -> Result<Vec<OwnFile>> {
    let read = |path: &PathBuf| {
        let file = OwnFile::new(path.display().to_string(), source::text(path)?)?;
        match unread(file.is_slurm()) {
            Some(why) => Err(Usage(format!("--against {}: {why}", path.display())).into()),
            None => Ok(file),
        }
    };
    let folder = emit_to.and_then(|folder| folder.canonicalize().ok());
    let beside = |path: &&PathBuf| path.canonicalize().ok().and_then(|path| Some(path.parent()? == folder.as_deref()?));
    if let Some(path) = against.iter().find(|path| beside(path) == Some(true)) {
        let what = format!(
            "--emit-to: {} of --against lies there and could be written over; name another folder",
            path.display()
        );
        return Err(Usage(what).into());
    }
    let files: Vec<OwnFile> = against.iter().map(read).collect::<Result<_>>()?;
    let mut seen = BTreeSet::new();
    match files.iter().find(|file| !seen.insert(file.path())) {
        Some(file) => Err(Usage(format!("--against {}: it is named twice", file.path())).into()),
        None => Ok(files),
    }
}

/// Writes files and the patches to the user's own, and says how much of the plan each patch holds.
pub(crate) fn patched(
    folder: &Path,
    files: Vec<Emitted>,
    patches: impl IntoIterator<Item = Patch>,
    quiet: bool,
) -> Result<()> {
    let (told, patches): (Vec<String>, Vec<Emitted>) =
        patches.into_iter().map(|patch| (patch.told(), patch.file)).unzip();
    output::emitted(folder, &[files, patches].concat(), quiet)?;
    told.iter().for_each(|patch| output::say(quiet, &format!("tracecast: {patch}")));
    Ok(())
}

/// Says that files are written for a cluster that is not the recorded one, so that nobody applies them unread.
pub(crate) fn written_of_another() {
    output::warn(
        "the replay of today is far from what happened, so the files in --emit-to are of a cluster like the one replayed: do not apply them as they are",
    );
}
