//! What can be told to be wrong before a long read or a training begins: places that cannot be written to.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Checks that files can be written where they are asked for, those that are.
pub(crate) fn files<'a>(paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
    paths.into_iter().flatten().try_for_each(|path| file(path))
}

/// Checks that folders can be made or written to where they are asked for, those that are.
pub(crate) fn folders<'a>(paths: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
    paths.into_iter().flatten().try_for_each(|path| folder(path))
}

/// Checks that a file can be written at `path`.
pub(crate) fn file(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            bail!("{} is a folder; name a file to write", path.display())
        }
        // A pipe or a device is written to as it is.
        Ok(found) if !found.is_file() => Ok(()),
        _ => writable(path.parent().unwrap_or(Path::new("")), path),
    }
}

/// Checks that `path` is a folder that can be written to, or can be made one.
pub(crate) fn folder(path: &Path) -> Result<()> {
    writable(path, path)
}

/// Checks that files can be made in `folder`, or in the nearest one above it that is there; `wanted` is what the user named.
fn writable(folder: &Path, wanted: &Path) -> Result<()> {
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    for above in folder.ancestors().map(here) {
        match std::fs::metadata(&above) {
            Ok(found) if found.is_dir() => return probe(&above, wanted),
            Ok(_) => bail!("{} cannot be written: {} is a file and no folder", wanted.display(), above.display()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be written", wanted.display())),
        }
    }
    Ok(())
}

/// Makes an empty file and takes it away: permissions alone do not tell (a full or read-only disk, a network share).
fn probe(folder: &Path, wanted: &Path) -> Result<()> {
    let path = folder.join(format!(".tracecast.{}.probe", std::process::id()));
    std::fs::File::create(&path)
        .and_then(|_| std::fs::remove_file(&path))
        .with_context(|| format!("{} cannot be written", wanted.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("tracecast-early-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        assert!(file(&folder.join("file")).is_ok() && file(&folder.join("new/deep/file")).is_ok());
        assert!(super::folder(&folder).is_ok() && super::folder(&folder.join("new/deep")).is_ok());
        assert!(file(&folder).unwrap_err().to_string().contains("is a folder"));
        for below in ["file/new", "file/new/deep"] {
            assert!(file(&folder.join(below)).is_err() && super::folder(&folder.join(below)).is_err(), "{below}");
        }
        assert!(super::folder(&folder.join("file")).unwrap_err().to_string().contains("is a file"));
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
