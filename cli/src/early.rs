//! Checks before a long read or a training begins: places that cannot be written to, and what would
//! be lost there.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use crate::args::extension;
use crate::exit::Usage;

/// Fate of files that are there already.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Replacing {
    /// Replace files that are there already, and write into folders that are not empty
    #[arg(long, help_heading = "Answer")]
    pub(crate) force: bool,
}

impl Replacing {
    /// Path of the answer of `command` in `form`, checked as a [`file`](Self::file): the one that
    /// was named, or one of the command's name if a folder was.
    pub(crate) fn answer(self, out: Option<&Path>, command: &str, form: &impl ValueEnum) -> Result<Option<PathBuf>> {
        let out = named(out, || format!("{command}.{}", extension(form)));
        self.files([&out])?;
        Ok(out)
    }

    /// Checks that files can be written where they are asked for, those that are.
    pub(crate) fn files<'a>(self, paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
        paths.into_iter().flatten().try_for_each(|path| self.file(path))
    }

    /// Checks that folders can be made or written to where they are asked for, those that are.
    pub(crate) fn folders<'a>(self, paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
        paths.into_iter().flatten().try_for_each(|path| self.folder(path))
    }

    /// Checks that a file can be written at `path`.
    pub(crate) fn file(self, path: &Path) -> Result<()> {
        match std::fs::metadata(path) {
            Ok(result) if result.is_dir() => {
                bail!(
                    "{0} is a folder; name a file to write, or {0}/ for a file of the usual name where the command offers that",
                    path.display()
                )
            }
            // A pipe or a device is written to as it is.
            Ok(result) if !result.is_file() => return Ok(()),
            Ok(_) if !self.force => {
                bail!("{} is there already; add --force to replace it, or name another file", path.display())
            }
            _ => {}
        }
        if is_folder(path) {
            bail!("{} is named as a folder; name a file to write", path.display());
        }
        writable(path.parent().unwrap_or(Path::new("")), path)
    }

    /// Checks that `path` is a folder that can be written to and is empty, or can be made one.
    pub(crate) fn folder(self, path: &Path) -> Result<()> {
        if !self.force && std::fs::read_dir(path).is_ok_and(|mut result| result.next().is_some()) {
            bail!(
                "{} is not empty; add --force to write into it all the same, which replaces files of the same names, or name another folder",
                path.display()
            );
        }
        writable_folder(path)
    }
}

/// Refuses a file that is named for two outputs of a command: the later one would replace the earlier. A pipe or a device may take both.
pub(crate) fn apart<'a>(paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
    let mut before: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().flatten() {
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            continue;
        }
        let place = place(path);
        if before.contains(&place) {
            let what = "is named for two outputs, and one would replace the other; name another file for one of them";
            return Err(Usage(format!("{} {what}", path.display())).into());
        }
        before.push(place);
    }
    Ok(())
}

/// Canonical form of a path: without links, as far as it is there, and without `.` and `..`.
fn place(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            part => {
                whole.push(part);
                // Before what follows: `..` goes back from where a link leads.
                whole = std::fs::canonicalize(&whole).unwrap_or(whole);
            }
        }
    }
    whole
}

/// Checks that `path` is a folder that can be written to, or can be made one, for files beside those that are there.
pub(crate) fn writable_folder(path: &Path) -> Result<()> {
    writable(path, path)
}

/// Whether a path is typed as that of a folder: it ends in a slash.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().last().is_some_and(|last| std::path::is_separator(char::from(*last)))
}

/// The form in which a file of that name would be looked for, whatever the case of its ending; `None` for another ending, a folder or no file.
pub(crate) fn form_of_name<F: ValueEnum + Copy>(out: Option<&Path>) -> Option<F> {
    let ending = out.filter(|out| !is_folder(out))?.extension()?;
    F::value_variants().iter().copied().find(|form| ending.eq_ignore_ascii_case(extension(form)))
}

/// Path of an answer: the file that was named, or one called `name` if a folder was, which ends in
/// a slash.
fn named(out: Option<&Path>, name: impl FnOnce() -> String) -> Option<PathBuf> {
    out.map(|path| if is_folder(path) { path.join(name()) } else { path.to_owned() })
}

/// Checks that files can be made in `folder`, or in the nearest one above it that is there; `wanted` is what the user named.
fn writable(folder: &Path, wanted: &Path) -> Result<()> {
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    for above in folder.ancestors().map(here) {
        match std::fs::metadata(&above) {
            Ok(result) if result.is_dir() => return probe(&above, wanted),
            Ok(_) => bail!("{} cannot be written: {} is a file and no folder", wanted.display(), above.display()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be written", wanted.display())),
        }
    }
    Ok(())
}

/// Makes a file that has no name, or loses it at once: permissions alone do not tell (a full or read-only disk, a network share).
fn probe(folder: &Path, wanted: &Path) -> Result<()> {
    tempfile::tempfile_in(folder).map(drop).with_context(|| format!("{} cannot be written", wanted.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("file"), "").unwrap();
        let (careful, force) = (Replacing::default(), Replacing { force: true });
        for of in [careful, force] {
            assert!(of.file(&folder.join("new/deep/file")).is_ok() && of.folder(&folder.join("new/deep")).is_ok());
            assert!(of.file(folder).unwrap_err().to_string().contains("is a folder"));
            assert!(of.file(&folder.join("new/")).unwrap_err().to_string().contains("named as a folder"));
            for below in ["file/new", "file/new/deep"] {
                assert!(of.file(&folder.join(below)).is_err() && of.folder(&folder.join(below)).is_err(), "{below}");
            }
            assert!(of.folder(&folder.join("file")).unwrap_err().to_string().contains("is a file"));
        }
        assert!(force.file(&folder.join("file")).is_ok() && force.folder(folder).is_ok());
        assert!(careful.file(&folder.join("file")).unwrap_err().to_string().contains("add --force"));
        assert!(careful.folder(folder).unwrap_err().to_string().contains("add --force"));
        assert!(writable_folder(folder).is_ok());
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"]);
    }

    #[test]
    fn two_outputs_of_one_place_are_refused_however_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let refused = |one: &str, other: &str| apart([&path(one), &None, &path(other)]).is_err();
        assert!(!refused("x.csv", "y.csv") && !refused("x.csv", "in/x.csv") && !refused("new/x.csv", "newer/x.csv"));
        for other in ["x.csv", "./x.csv", "in/../x.csv", "new/../x.csv", "in//..//x.csv"] {
            assert!(refused("x.csv", other), "{other}");
            std::fs::write(folder.path().join("x.csv"), "").unwrap();
            assert!(refused("x.csv", other), "{other}");
            std::fs::remove_file(folder.path().join("x.csv")).unwrap();
        }
        let told = apart([&path("x"), &path("x")]).unwrap_err();
        assert!(told.to_string().contains("is named for two outputs") && told.is::<Usage>());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("in"), folder.path().join("link")).unwrap();
            assert!(refused("in/x.csv", "link/x.csv") && refused("x.csv", "link/../x.csv"));
            let null = Some(PathBuf::from("/dev/null"));
            assert!(apart([&null, &null]).is_ok());
        }
    }

    #[test]
    fn a_path_that_ends_in_a_slash_is_a_folder() {
        let named = |path: &str| named(Some(Path::new(path)), || "describe.txt".to_owned());
        assert_eq!(named("out/"), Some(PathBuf::from("out/describe.txt")));
        assert_eq!(named("out"), Some(PathBuf::from("out")));
        assert_eq!(super::named(None, String::new), None);
    }
}
