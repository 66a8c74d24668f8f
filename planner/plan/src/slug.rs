//! Names of pools and VCs as Kubernetes and Slurm take them.
//!
//! Lower-case letters, digits and `-`, at most 40, a letter or digit at either end; every other letter becomes `-`. O(length). Worked example: `Vision_A`
//! is `vision-a`.

use crate::error::{Error, Result};

/// The name, or `None` if no letter or digit is left.
pub fn slug(name: &str) -> Option<String> {
    let letters = name.chars().map(|letter| letter.to_ascii_lowercase());
    let safe: String = letters.map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let short: String = safe.trim_matches('-').chars().take(40).collect();
    let result = short.trim_end_matches('-').to_owned();
    (!result.is_empty()).then_some(result)
}

/// The names of some things as Kubernetes takes them; `what` says what they are, such as "pool".
///
/// # Errors
/// If nothing is left of one, or two would be called the same.
pub fn slugs<'n>(what: &str, names: impl IntoIterator<Item = &'n str>) -> Result<Vec<String>> {
    let mut result: Vec<String> = Vec::new();
    for name in names {
        let why = match slug(name) {
            Some(slug) if !result.contains(&slug) => {
                result.push(slug);
                continue;
            }
            Some(slug) => format!("would be called {slug} in Kubernetes, as another is; rename one of them"),
            None => "has no name that Kubernetes takes; rename it with letters, digits and `-`".to_owned(),
        };
        return Err(Error::NotEmitted(format!("{what} {name:?} {why}")));
    }
    Ok(result)
}

/// Whether a name is one of `others`, alone or with `suffix`, which some names are written with as well. O(others).
pub fn is_taken<'n>(mut others: impl Iterator<Item = &'n str>, name: &str, suffix: Option<&str>) -> bool {
    let with = |name: &str| suffix.map(|suffix| format!("{name}{suffix}"));
    others.any(|other| {
        other == name || with(other).is_some_and(|other| other == name) || with(name).is_some_and(|name| other == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_collide_with_their_suffix_as_well() {
        let taken = |other: &str, name: &str, suffix| is_taken([other].into_iter(), name, suffix);
        assert!(taken("a", "a", None) && !taken("a", "a-borrow", None));
        assert!(taken("a", "a-borrow", Some("-borrow")) && taken("a-borrow", "a", Some("-borrow")));
    }

    #[test]
    fn the_worked_example_and_names_that_cannot_be() {
        assert_eq!(slug("Vision_A").as_deref(), Some("vision-a"));
        assert_eq!((slug("-ä-"), slug("")), (None, None));
        assert_eq!(slug(&"x".repeat(99)).map(|name| name.len()), Some(40));
    }
}
