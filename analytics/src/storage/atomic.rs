//! Files and folders that appear whole or not at all.
//!
//! What is written gets a passing name beside its place, is made durable, and is then renamed. The passing name is drawn and is created only if nothing has it, so
//! that nobody who can write to the folder foresees it and leads it elsewhere by a link. A program that is told to stop removes what is unfinished
//! ([`Unfinished::remove_all`]); what one left behind that was killed goes when the next begins something there.
//!
//! Worked example: `trace` is written as `.tracecast.Xq3v9a.partial` beside it. A folder that is replaced is exchanged for the new one in one step where the
//! system can do that, and else is there under a passing name until the new one has its place.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

/// Prefix and suffix of passing names.
const PREFIX: &str = ".tracecast.";
const SUFFIX: &str = ".partial";

/// Age from which on what has a passing name and is not locked was left behind: it is locked as soon as it is created.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// A file or folder being written under a passing name: removed when dropped unless it got its own,
/// and known to a program that is told to stop.
#[derive(Debug)]
pub struct Unfinished {
    path: Option<PathBuf>,
    /// The file or folder, locked so that others know that it is at work. Systems that open no folders lock none, and remove none that was left behind either.
    opened: Option<File>,
}

/// Passing files and folders of all threads. Locked while one is created or gets its name, so that a program is never stopped in between.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn all() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unfinished {
    /// An empty file that is to become `path`.
    fn file(path: &Path) -> io::Result<Self> {
        let mut all = all();
        let (file, passing) = passing(0o666).tempfile_in(beside(path))?.keep().map_err(|failed| failed.error)?;
        Ok(Self::new(passing, Some(file), &mut all))
    }

    /// An empty folder that is to become `path`.
    pub(super) fn folder(path: &Path) -> io::Result<Self> {
        let mut all = all();
        let passing = passing(0o777).tempdir_in(beside(path))?.keep();
        let opened = File::open(&passing).ok();
        Ok(Self::new(passing, opened, &mut all))
    }

    fn new(path: PathBuf, opened: Option<File>, all: &mut BTreeSet<PathBuf>) -> Self {
        // A file system without locks has none that are left behind removed.
        let _ = opened.as_ref().map(File::try_lock);
        all.insert(path.clone());
        Self { path: Some(path), opened }
    }

    /// Path of the file or folder.
    pub(super) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Renames it to `path`: a file, which is replaced, or an empty folder.
    pub(super) fn publish(self, path: &Path) -> io::Result<()> {
        publish(vec![(self, path)])
    }

    /// Puts it in the place of the folder `path`, of which `ours` are removed and all else is kept. A program that is told to stop waits until that is done.
    pub(super) fn replace(mut self, path: &Path, ours: &[String], others: &[std::ffi::OsString]) -> Result<()> {
        let mut all = all();
        let new = self.path().to_owned();
        let old = exchange(&new, path).map_err(|e| Error::io("rename", path, e))?;
        // From here on what is under the passing name holds the user's files.
        all.remove(&new);
        self.path = None;
        for name in others {
            fs::rename(old.join(name), path.join(name)).map_err(|e| Error::io("move", old.join(name), e))?;
        }
        for file in ours.iter().map(|file| old.join(file)).filter(|file| file.exists()) {
            fs::remove_file(&file).map_err(|e| Error::io("remove", file, e))?;
        }
        // Fails where somebody has put something there meanwhile, which is then kept.
        fs::remove_dir(&old).map_err(|e| Error::io("remove", old, e))
    }

    /// Removes all that is being written, for a program that is about to end: nothing can be begun or given its name afterwards.
    pub fn remove_all() {
        let all = all();
        for path in all.iter() {
            // Whoever writes into a folder may add a file while it is emptied, until the folder is gone.
            for _ in 0..100 {
                remove(path);
                if path.symlink_metadata().is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Kept locked: a rename that came now would leave half of a set, and an error of whoever was writing says nothing.
        std::mem::forget(all);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            remove(&path);
            all().remove(&path);
        }
    }
}

/// Gives files, or a folder, their names, all of them before a program can be stopped.
fn publish(passing: Vec<(Unfinished, &Path)>) -> io::Result<()> {
    // Declared first, so that those without a name are dropped when the lock is free again.
    let mut left = passing.into_iter();
    let mut all = all();
    for (mut unfinished, path) in left.by_ref() {
        let named = fs::rename(unfinished.path(), path);
        let gone = unfinished.path.take().unwrap_or_default();
        all.remove(&gone);
        if let Err(failed) = named {
            remove(&gone);
            return Err(failed);
        }
    }
    Ok(())
}

/// Builder of passing names; `mode` are the permissions before the user's mask, those that a file
/// or folder has elsewhere.
fn passing(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// The folder that holds `path`.
pub(super) fn beside(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Puts the folder `new` at `path`, and says where the one that was there is now.
fn exchange(new: &Path, path: &Path) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(new.to_owned()),
            // A file system that cannot.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(failed) => return Err(failed.into()),
        }
    }
    // Over an empty folder.
    let old = passing(0o777).tempdir_in(beside(path))?.keep();
    fs::rename(path, &old)?;
    if let Err(failed) = fs::rename(new, path) {
        // What was there before must not be lost; if that fails too, the first failure is what to tell.
        let _ = fs::rename(&old, path);
        return Err(failed);
    }
    Ok(old)
}

/// Makes the entries of a folder durable: a name that was given to a file may otherwise be lost when the machine fails.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    // Systems that open no folders have no such promise to give.
    match File::open(folder) {
        Ok(file) => file.sync_all().map_err(|e| Error::io("sync", folder, e)),
        Err(_) => Ok(()),
    }
}

/// Removes a file or folder of a passing name. The reason for the failure that led here is what the user needs; what was never made cannot
/// be removed either.
fn remove(path: &Path) {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let _ = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Removes what a killed program left behind in `folder`: files, and of folders the files that `is_ours` knows by their names, and themselves if nothing else is in them.
pub(super) fn remove_left_behind(folder: &Path, is_ours: &dyn Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_passing = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        let is_old = |result: &fs::Metadata| {
            let age = result.modified().ok().and_then(|modified| modified.elapsed().ok());
            (result.is_dir() || result.is_file()) && age.is_some_and(|age| age >= LEFT_BEHIND)
        };
        if !is_passing || !entry.metadata().is_ok_and(|metadata| is_old(&metadata)) {
            continue;
        }
        let path = entry.path();
        let Ok(opened) = File::open(&path) else { continue };
        if opened.try_lock().is_err() {
            continue;
        }
        if opened.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let _ = fs::remove_file(&path);
            continue;
        }
        // What cannot be removed is somebody's, or stays hidden.
        for inner in fs::read_dir(&path).into_iter().flatten().flatten() {
            if inner.file_name().to_str().is_some_and(is_ours) {
                let _ = fs::remove_file(inner.path());
            }
        }
        let _ = fs::remove_dir(&path);
    }
}

/// Writes files as a set: each under a passing name, all on disk before the first gets its own name, and then the names. A failure of any before
/// that leaves none of them, and what was there before is there still.
///
/// # Errors
/// When a file cannot be written.
pub fn write_files(files: &[(&Path, &[u8])]) -> Result<()> {
    let mut passing = Vec::new();
    for (path, bytes) in files {
        let failed = |e| Error::io("write", *path, e);
        remove_left_behind(beside(path), &|_| false);
        let unfinished = Unfinished::file(path).map_err(failed)?;
        if let Some(mut file) = unfinished.opened.as_ref() {
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        passing.push((unfinished, *path));
    }
    let folders: BTreeSet<&Path> = files.iter().map(|(path, _)| beside(path)).collect();
    let first = files.first().map_or(Path::new(""), |(path, _)| path);
    publish(passing).map_err(|e| Error::io("write", first, e))?;
    folders.into_iter().try_for_each(sync_folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "atomic_tests.rs"]
mod tests;
