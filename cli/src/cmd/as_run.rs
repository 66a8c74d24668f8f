//! The command as it was run, for answers that say how to run it again: quoted for a shell, without options that change nothing in the answer.
//!
//! Worked example: `tracecast --threads 2 plan rent job "my zone.json" --work 48h --json` is told
//! as `tracecast plan rent job 'my zone.json' --work 48h`.

use std::ffi::OsString;

/// Options that change how fast an answer comes, in which form, or where to: with a value, and without.
const WITH_VALUE: [&str; 6] = ["--threads", "--format", "--section", "--out", "-o", "--charts"];
const ALONE: [&str; 3] = ["--json", "--quiet", "-q"];

/// A word as a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c));
    if plain && !text.is_empty() { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The command that runs now.
pub(crate) fn command() -> String {
    told(std::env::args_os().skip(1))
}

fn told(arguments: impl Iterator<Item = OsString>) -> String {
    let mut said = "tracecast".to_owned();
    let mut is_value = false;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        if std::mem::take(&mut is_value) || ALONE.contains(&argument.as_ref()) {
            continue;
        }
        if WITH_VALUE.contains(&argument.as_ref()) {
            is_value = true;
            continue;
        }
        if argument.split_once('=').is_some_and(|(option, _)| WITH_VALUE.contains(&option)) {
            continue;
        }
        said.push(' ');
        said.push_str(&quoted(&argument));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let of = |words: &[&str]| told(words.iter().map(OsString::from));
        let words = ["--threads", "2", "plan", "rent", "job", "my zone.json", "--work", "48h", "--json"];
        assert_eq!(of(&words), "tracecast plan rent job 'my zone.json' --work 48h");
        assert_eq!(
            of(&["plan", "--threads=2", "-o", "a.json", "--work-quantiles", "0=1h,1=2h"]),
            "tracecast plan --work-quantiles 0=1h,1=2h"
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
