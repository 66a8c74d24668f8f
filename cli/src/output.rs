//! Where answers go: stdout, or a file that appears whole or not at all.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::report::text::TextOptions;
use tracecast_analytics::storage;

/// Writes `text` to stdout, or to a file if one was named.
pub(crate) fn text(text: &str, file: Option<&Path>) -> Result<()> {
    bytes(text.as_bytes(), file)
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

/// Writes a file under a temporary name beside it, then renames it. What is there and no regular file (`/dev/null`, a pipe) is written
/// to as it is: a rename would put a file in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let opened = std::fs::OpenOptions::new().write(true).open(path);
        return opened.and_then(|mut file| file.write_all(bytes)).with_context(|| format!("write {}", path.display()));
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).with_context(|| format!("create folder {}", parent.display()))?;
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let outcome = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if outcome.is_err() {
        // The failure itself is what the user needs to hear of.
        let _ = std::fs::remove_file(&temporary);
    }
    outcome.with_context(|| format!("write {}", path.display()))
}

/// Refuses to replace a trace folder unless told to.
pub(crate) fn may_replace(folder: &Path, force: bool) -> Result<()> {
    if storage::is_folder(folder) && !force {
        bail!("{} is a trace folder already; say --force to replace it, or name another", folder.display());
    }
    Ok(())
}

/// Says something on stderr.
pub(crate) fn say(quiet: bool, message: &str) {
    if !quiet {
        // If stderr is gone, there is nobody left to tell.
        let _ = writeln!(std::io::stderr().lock(), "{message}");
    }
}

/// Width and colour of the terminal; 100 columns without colour where stdout is none.
pub(crate) fn terminal() -> TextOptions {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return TextOptions::default();
    }
    let width = comfy_table::Table::new().width().map_or(100, usize::from);
    TextOptions { width, color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
}
