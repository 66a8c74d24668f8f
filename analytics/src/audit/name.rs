//! Names of files in an audit, independent of their folder.

use std::path::Path;

/// The name of a file without its folder.
pub(in crate::audit) fn base(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
