//! Files that plans emit: what of a site may stand in them, and comments.
//!
//! O(length). Worked example: with the mark `#`, the line `a job` with a break in its name stays one comment, `# a job`.

use crate::error::{Error, Result};

/// A file that a plan emits: its name and content.
pub type Emitted = (String, String);

/// Whether a text of the site is a name of letters, digits and `more`.
///
/// # Errors
/// If it is none, with the remedy.
pub(crate) fn check_name(what: &'static str, name: &str, more: &str, remedy: &str) -> Result<()> {
    if !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter)) {
        return Ok(());
    }
    Err(Error::Malformed { what, found: name.to_owned(), remedy: remedy.to_owned() })
}

/// Whether a node has a GPU.
///
/// # Errors
/// If it has none.
pub(crate) fn check_gpus_per_node(gpus: u32) -> Result<()> {
    if gpus > 0 {
        return Ok(());
    }
    Err(Error::Malformed {
        what: "number of GPUs of a node",
        found: "0".to_owned(),
        remedy: "give at least 1".to_owned(),
    })
}

/// The namespace of NVIDIA's operator or device plugin.
///
/// # Errors
/// If it is no name.
pub(crate) fn check_namespace(namespace: &str) -> Result<()> {
    check_name("namespace", namespace, "-", "give one such as gpu-operator")
}

/// Lines as comments that begin with `mark`. What comes from the user's files stays on its line.
pub(crate) fn comments(mark: &str, lines: &[String]) -> String {
    lines.iter().map(|line| format!("{mark} {}\n", line.replace(['\n', '\r'], " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_site_are_plain() {
        assert!(check_namespace("gpu-operator").is_ok() && check_name("type", "a100_3g.20gb", "-_.", "x").is_ok());
        let told = |checked: Result<()>| checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(told(check_namespace("gpu operator")).contains("gpu operator"));
        assert!(told(check_namespace("")).contains("give one such as gpu-operator"));
        assert!(told(check_gpus_per_node(0)).contains("give at least 1"));
    }

    #[test]
    fn the_worked_example() {
        assert_eq!(comments("#", &["a\njob".to_owned(), "b".to_owned()]), "# a job\n# b\n");
    }
}
