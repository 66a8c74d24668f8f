//! The files that a request names: single ones, folders at every depth, patterns, standard input.
//!
//! In a folder, files and folders whose names begin with `.` or `_` are left out; links are followed, and no folder is
//! entered and no file read twice, so that links in a circle end. What cannot be read as a file (a link that leads
//! nowhere, a FIFO, a trace folder among sources) is named and passed over with its reason, which the ledger then holds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::source::{Passed, SourceFile};
use crate::error::{Error, Result};
use crate::storage;

/// The files a request names: each argument is a file, a folder (all files in it and below it, by path, hidden ones left
/// out), a pattern with `*`, `?` or `[…]`, or `-` for standard input.
///
/// # Errors
/// When an argument names nothing, or a folder or pattern holds no file.
pub fn expand(arguments: &[PathBuf]) -> Result<Vec<SourceFile>> {
    let mut files: Vec<SourceFile> = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy();
        let mut walk = Walk::default();
        if text == "-" {
            walk.found.push(SourceFile::new(argument));
        } else if argument.is_dir() {
            walk.folder(argument)?;
        } else if argument.exists() || !text.contains(['*', '?', '[']) {
            // A missing file is reported by its own name here, not as "no reader recognises it" later.
            fs::metadata(argument).map_err(|e| Error::io("open", argument, e))?;
            walk.found.push(SourceFile::new(argument));
        } else {
            walk.pattern(&text)?;
        }
        if walk.found.iter().all(|file| file.passed().is_some()) {
            let reasons: Vec<String> = walk
                .found
                .iter()
                .filter_map(|file| Some(format!("{} is {}", file.name(), file.passed()?.what())))
                .collect();
            return Err(Error::Empty {
                source_name: text.into_owned(),
                what: if reasons.is_empty() { "no file found".to_owned() } else { reasons.join(", ") },
                remedy: "check the folder or pattern".to_owned(),
            });
        }
        files.append(&mut walk.found);
    }
    Ok(files)
}

/// Files found for one argument.
#[derive(Default)]
struct Walk {
    found: Vec<SourceFile>,
    /// Folders entered and files found, without links.
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    fn pattern(&mut self, text: &str) -> Result<()> {
        // As in a shell, `*` finds no hidden files.
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::default() };
        let paths = glob::glob_with(text, options).map_err(|e| Error::Setting {
            setting: format!("source {text}"),
            found: format!("not a pattern: {e}"),
            remedy: "quote the pattern, or name the files".to_owned(),
        })?;
        for path in paths {
            let path = path.map_err(|e| {
                let folder = e.path().to_owned();
                Error::io("read", folder, e.into())
            })?;
            // `**` finds the files of a folder too.
            if !path.is_dir() {
                self.file(&path)?;
            } else if !text.contains("**") {
                self.folder(&path)?;
            }
        }
        Ok(())
    }

    /// Everything in `root` and below it: what lies there first, then where links lead.
    fn folder(&mut self, root: &Path) -> Result<()> {
        let from = self.found.len();
        let mut folders = vec![root.to_owned()];
        let mut links: Vec<PathBuf> = Vec::new();
        loop {
            let folder = match folders.pop() {
                Some(folder) => folder,
                None => {
                    links.sort_by(|a, b| b.cmp(a));
                    match links.pop() {
                        Some(link) if link.is_dir() => link,
                        Some(link) => {
                            self.file(&link)?;
                            continue;
                        }
                        None => break,
                    }
                }
            };
            if !self.seen.insert(without_links(&folder)?) {
                continue;
            }
            let entries = fs::read_dir(&folder).map_err(|e| Error::io("open", &folder, e))?;
            for entry in entries {
                let entry = entry.map_err(|e| Error::io("read", &folder, e))?;
                if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
                    continue;
                }
                let path = entry.path();
                let kind = entry.file_type().map_err(|e| Error::io("open", &path, e))?;
                if kind.is_symlink() {
                    links.push(path);
                } else if !kind.is_dir() {
                    self.file(&path)?;
                } else if storage::is_folder(&path) {
                    self.found.push(SourceFile::passed_over(&path, Passed::TraceFolder));
                } else {
                    folders.push(path);
                }
            }
        }
        if let Some(found) = self.found.get_mut(from..) {
            found.sort_by(|a, b| a.path().cmp(b.path()));
        }
        Ok(())
    }

    /// A file of a folder or pattern, unless it was found before.
    fn file(&mut self, path: &Path) -> Result<()> {
        let passed = match fs::metadata(path) {
            Err(_) => Some(Passed::DanglingLink),
            Ok(meta) if meta.is_file() => None,
            Ok(_) => Some(Passed::NoFile),
        };
        match passed {
            Some(passed) => self.found.push(SourceFile::passed_over(path, passed)),
            None if self.seen.insert(without_links(path)?) => self.found.push(SourceFile::new(path)),
            None => {}
        }
        Ok(())
    }
}

fn without_links(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|e| Error::io("open", path, e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_and_a_missing_file_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(expand(&[dir.path().to_owned()]), Err(Error::Empty { .. })));
        assert!(matches!(expand(&[dir.path().join("no.csv")]), Err(Error::Io { .. })));
        assert!(matches!(expand(&[dir.path().join("*.csv")]), Err(Error::Empty { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn folders_are_searched_at_every_depth_and_links_in_a_circle_end() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        for file in ["z.csv", "a/b/c/deep.csv", "a/_side.csv", ".git/x.csv"] {
            fs::write(root.join(file), "x").unwrap();
        }
        symlink(root, root.join("a/b/up")).unwrap();
        symlink("nowhere", root.join("a/gone")).unwrap();
        symlink("itself", root.join("a/itself")).unwrap();
        symlink(root.join("z.csv"), root.join("a/again.csv")).unwrap();
        let result = expand(&[root.to_owned()]).unwrap();
        let names: Vec<(String, Option<Passed>)> = result
            .iter()
            .map(|file| (file.path().strip_prefix(root).unwrap().display().to_string(), file.passed()))
            .collect();
        let expected = [
            ("a/b/c/deep.csv", None),
            ("a/gone", Some(Passed::DanglingLink)),
            ("a/itself", Some(Passed::DanglingLink)),
            ("z.csv", None),
        ];
        assert_eq!(names, expected.map(|(name, passed)| (name.to_owned(), passed)));
        // The quoted pattern leads to the same.
        let result = expand(&[root.join("*")]).unwrap();
        assert_eq!(result.iter().filter(|file| file.passed().is_none()).count(), 2);
    }
}
