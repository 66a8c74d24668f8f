//! Destinations of answers: stdout, or a file that appears complete or not at all.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::report::{format, text::TextOptions};
use tracecast_analytics::storage;

use crate::progress;

/// Writes `text` to stdout, or to a file if one was named. On a terminal through a pager, which shows what fits on one screen as it is.
pub(crate) fn text(text: &str, file: Option<&Path>) -> Result<()> {
    if file.is_none() && std::io::stdout().is_terminal() && paged(text) {
        return Ok(());
    }
    bytes(text.as_bytes(), file)
}

/// Shows `text` in the pager that `TRACECAST_PAGER` or `PAGER` names (`less` if neither does, none
/// if it is empty or `cat`). Returns whether there was one.
fn paged(text: &str) -> bool {
    let named = ["TRACECAST_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    let pager = named.unwrap_or_else(|| "less".into());
    if pager.is_empty() || pager == "cat" {
        return false;
    }
    // As git has it: leave at the end of a single screen, let colours through, keep the screen.
    let options = std::env::var_os("LESS").unwrap_or_else(|| "FRX".into());
    let child = Command::new("sh").arg("-c").arg(pager).env("LESS", options).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return false };
    // Who leaves the pager early has seen enough.
    let _ = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    // A pager that fails has shown nothing, or not all.
    child.wait().is_ok_and(|status| status.success())
}

/// Writes bytes to stdout, or to a file if one was named.
pub(crate) fn bytes(bytes: &[u8], file: Option<&Path>) -> Result<()> {
    match file {
        Some(path) => write(path, bytes),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush()).context("write to stdout")
        }
    }
}

/// Writes a file under a passing name beside it, makes it durable, then renames it. What is there and no regular file (`/dev/null`, a pipe) is
/// written to as it is: a rename would put a file in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_all(&[(path, bytes)])
}

/// Writes files that belong together as [`write()`] does: if one of them cannot be written, none
/// is.
pub(crate) fn write_all(files: &[(&Path, &[u8])]) -> Result<()> {
    let mut regular = Vec::new();
    for (path, bytes) in files {
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let opened = std::fs::OpenOptions::new().write(true).open(path);
            let written = opened.and_then(|mut file| file.write_all(bytes));
            written.with_context(|| format!("write {}", path.display()))?;
            continue;
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).with_context(|| format!("create folder {}", parent.display()))?;
        }
        regular.push((*path, *bytes));
    }
    storage::write_files(&regular).map_err(plain)
}

/// Writes the files of a plan into a folder, all of them or none, and says how many there are.
pub(crate) fn emitted(folder: &Path, files: &[(impl AsRef<str>, String)], quiet: bool) -> Result<()> {
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name.as_ref())).collect();
    let contents = files.iter().map(|(_, content)| content.as_bytes());
    write_all(&paths.iter().map(PathBuf::as_path).zip(contents).collect::<Vec<_>>())?;
    let files = format::counted(files.len() as u64, "file", "files");
    say(quiet, &format!("tracecast: {files} in {}", folder.display()));
    Ok(())
}

/// The error as one of the system, so that a closed stdout is known for what it is.
fn plain(error: tracecast_analytics::Error) -> anyhow::Error {
    match error {
        tracecast_analytics::Error::Io { action, path, source } => {
            anyhow::Error::new(source).context(format!("{action} {}", path.display()))
        }
        other => other.into(),
    }
}

/// Refuses to write over anything but a trace folder, and over one unless told to.
pub(crate) fn may_replace(folder: &Path, force: bool) -> Result<()> {
    match storage::place(folder) {
        storage::Place::Trace if !force => {
            bail!("{} is already a trace folder; add --force to replace it, or name another folder", folder.display());
        }
        storage::Place::Other => bail!(
            "{} is there and is no trace folder that tracecast wrote{}; name another folder, or remove it yourself",
            folder.display(),
            if force { ", so --force does not replace it" } else { "" }
        ),
        _ => Ok(()),
    }
}

/// Warns on stderr, also where progress is not told: whoever asks for files goes on with them.
pub(crate) fn warn(what: &str) {
    say(false, &format!("tracecast: warning: {what}"));
}

/// Says something on stderr.
pub(crate) fn say(quiet: bool, message: &str) {
    if !quiet {
        progress::beside_the_clock(|| {
            // If stderr is gone, there is nobody left to tell.
            let _ = writeln!(std::io::stderr().lock(), "{message}");
        });
    }
}

/// Width and colour of an answer: files have neither a width nor colours.
pub(crate) fn width(file: Option<&Path>) -> TextOptions {
    if file.is_some() { TextOptions::default() } else { terminal() }
}

/// Width and colour of the terminal: `COLUMNS` if it is set, else what the terminal says; 100 columns without colour where stdout is none.
pub(crate) fn terminal() -> TextOptions {
    let arguments = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        let plain = TextOptions::default();
        return TextOptions { width: arguments.unwrap_or(plain.width), ..plain };
    }
    let width = arguments.unwrap_or_else(|| comfy_table::Table::new().width().map_or(100, usize::from));
    TextOptions { width, color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
}
