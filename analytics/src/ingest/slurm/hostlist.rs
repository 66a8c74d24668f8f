//! Slurm's host lists: `d09n04s[01-02],d13n[03,05,07-08]`.
//!
//! [`expand`] gives the names, the last bracket varying fastest, zero padding kept; brackets may follow one another and
//! hold lists themselves. [`compress`] writes the shortest list with one bracket a name (the last number of each name).
//! Expansion is bounded by the caller, as a few characters can stand for millions of names: O(names + text).
//!
//! Worked number: `r[1-2]n[08-10]` is 2 × 3 = 6 names, `r1n08` to `r2n10`.

use std::collections::{BTreeMap, BTreeSet};

/// Why a host list cannot be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostlistError {
    /// Not a host list.
    Syntax,
    /// More names than the caller wants.
    TooMany,
}

/// The names `text` stands for, in its own order, at most `limit`.
///
/// # Errors
/// [`HostlistError`] says which.
pub fn expand(text: &str, limit: usize) -> Result<Vec<String>, HostlistError> {
    expand_at(text, limit, 0)
}

/// Greatest depth of nested lists.
const DEEPEST: usize = 4;

fn expand_at(text: &str, limit: usize, depth: usize) -> Result<Vec<String>, HostlistError> {
    if depth > DEEPEST {
        return Err(HostlistError::Syntax);
    }
    let mut names = Vec::new();
    for term in split(text)? {
        if term.is_empty() {
            return Err(HostlistError::Syntax);
        }
        names.extend(product(term, limit - names.len().min(limit), depth)?);
        if names.len() > limit {
            return Err(HostlistError::TooMany);
        }
    }
    Ok(names)
}

/// Splits at commas outside brackets.
fn split(text: &str) -> Result<Vec<&str>, HostlistError> {
    let (mut open, mut from, mut parts) = (0usize, 0usize, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => open += 1,
            b']' => open = open.checked_sub(1).ok_or(HostlistError::Syntax)?,
            b',' if open == 0 => {
                parts.push(text.get(from..at).ok_or(HostlistError::Syntax)?);
                from = at + 1;
            }
            _ => {}
        }
    }
    if open != 0 {
        return Err(HostlistError::Syntax);
    }
    parts.push(text.get(from..).ok_or(HostlistError::Syntax)?);
    Ok(parts)
}

/// The names of one term: literal text and brackets in turn.
fn product(term: &str, limit: usize, depth: usize) -> Result<Vec<String>, HostlistError> {
    let mut names = vec![String::new()];
    let mut rest = term;
    while !rest.is_empty() {
        let Some((literal, after)) = rest.split_once('[') else {
            names.iter_mut().for_each(|name| name.push_str(rest));
            break;
        };
        let close = closing(after).ok_or(HostlistError::Syntax)?;
        let inside = after.get(..close).ok_or(HostlistError::Syntax)?;
        let choices = bracket(inside, limit, depth)?;
        if names.len().saturating_mul(choices.len()) > limit {
            return Err(HostlistError::TooMany);
        }
        names = names
            .iter()
            .flat_map(|name| choices.iter().map(move |choice| format!("{name}{literal}{choice}")))
            .collect();
        rest = after.get(close + 1..).ok_or(HostlistError::Syntax)?;
    }
    Ok(names)
}

/// Position of the bracket that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => open += 1,
            b']' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Expands a bracket: numbers, ranges, or lists within.
fn bracket(text: &str, limit: usize, depth: usize) -> Result<Vec<String>, HostlistError> {
    let mut choices = Vec::new();
    for item in split(text)? {
        if item.contains('[') {
            choices.extend(expand_at(item, limit, depth + 1)?);
        } else {
            let (low, high) = item.split_once('-').unwrap_or((item, item));
            let (from, to) = (number(low)?, number(high)?);
            if to < from {
                return Err(HostlistError::Syntax);
            }
            if to - from >= limit as u64 {
                return Err(HostlistError::TooMany);
            }
            let width = low.len();
            choices.extend((from..=to).map(|number| format!("{number:0width$}")));
        }
        if choices.len() > limit {
            return Err(HostlistError::TooMany);
        }
    }
    Ok(choices)
}

fn number(digits: &str) -> Result<u64, HostlistError> {
    let plain = (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().map_err(|_| HostlistError::Syntax) } else { Err(HostlistError::Syntax) }
}

/// A name around its last number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Around<'a> {
    before: &'a str,
    after: &'a str,
    /// Digits a number is padded to, 0 for not padded.
    width: usize,
}

/// The host list of `names`: sorted by what surrounds the number, numbers ascending, repeats dropped. O(n log n).
pub fn compress<S: AsRef<str>>(names: &[S]) -> String {
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    let mut numbered: Vec<(Around<'_>, &str)> = Vec::new();
    for name in names {
        match around(name.as_ref()) {
            Some(result) => numbered.push(result),
            None => {
                plain.insert(name.as_ref());
            }
        }
    }
    let padded: BTreeSet<Around<'_>> =
        numbered.iter().filter(|(around, _)| around.width > 0).map(|(around, _)| around.clone()).collect();
    let mut groups: BTreeMap<Around<'_>, BTreeSet<u64>> = BTreeMap::new();
    for (mut around, digits) in numbered {
        if around.width == 0 {
            // `10` belongs with `08`: padded to two digits, it looks the same.
            let same = Around { width: digits.len(), ..around.clone() };
            if padded.contains(&same) {
                around = same;
            }
        }
        if let Ok(number) = digits.parse() {
            groups.entry(around).or_default().insert(number);
        }
    }
    let mut terms: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    for (around, numbers) in groups {
        let (before, after, width) = (around.before, around.after, around.width);
        let list = ranges(&numbers, width);
        terms.push(match numbers.len() {
            1 => format!("{before}{list}{after}"),
            _ => format!("{before}[{list}]{after}"),
        });
    }
    terms.join(",")
}

/// Splits a name around its last number.
fn around(name: &str) -> Option<(Around<'_>, &str)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name
        .get(..end)?
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + name.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let digits = name.get(start..end)?;
    if digits.len() > 18 {
        return None;
    }
    let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
    Some((Around { before: name.get(..start)?, after: name.get(end..)?, width }, digits))
}

fn ranges(numbers: &BTreeSet<u64>, width: usize) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers.iter().copied() {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let texts: Vec<String> = runs
        .iter()
        .map(|(from, to)| if from == to { format!("{from:0width$}") } else { format!("{from:0width$}-{to:0width$}") })
        .collect();
    texts.join(",")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn padding_lists_and_several_brackets() {
        assert_eq!(
            expand("d09n04s[01-02],d13n[03,05,07-08]", 100).unwrap(),
            ["d09n04s01", "d09n04s02", "d13n03", "d13n05", "d13n07", "d13n08"]
        );
        assert_eq!(expand("r[1-2]n[08-10]", 6).unwrap(), ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]);
        assert_eq!(expand("n[8-10]x", 9).unwrap(), ["n8x", "n9x", "n10x"]);
        assert_eq!(expand("login", 1).unwrap(), ["login"]);
        // A list within a bracket: a1, ab3, ab4.
        assert_eq!(expand("n[1,7[3-4]]", 9).unwrap(), ["n1", "n73", "n74"]);
    }

    #[test]
    fn a_short_text_cannot_ask_for_a_million_names() {
        assert_eq!(expand("n[0-999999999]", 4_096), Err(HostlistError::TooMany));
        assert_eq!(expand("a[0-99]b[0-99]", 4_096), Err(HostlistError::TooMany));
        assert_eq!(expand("a,b,c", 2), Err(HostlistError::TooMany));
    }

    #[test]
    fn what_is_not_a_list_is_said_so() {
        for text in ["", "n[1-", "n1]", "n[]", "n[2-1]", "n[a-b]", "n[1-2-3]", ",n1", "n[1,,2]", "é[1-]"] {
            assert_eq!(expand(text, 10), Err(HostlistError::Syntax), "{text}");
        }
    }

    #[test]
    fn names_are_folded_and_padding_decides_what_belongs_together() {
        assert_eq!(compress(&["n10", "n08", "n09", "n3", "login", "n09"]), "login,n3,n[08-10]");
        assert_eq!(compress(&["g1-ib", "g2-ib"]), "g[1-2]-ib");
        assert_eq!(compress::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn expanding_what_was_compressed_gives_the_same_names(
            names in proptest::collection::btree_set("[a-c]{0,2}[0-9]{0,2}[a-b]{1,2}[0-9]{0,4}(-ib)?", 1..30)
        ) {
            let list: Vec<&String> = names.iter().collect();
            let back: BTreeSet<String> = expand(&compress(&list), 1_000).unwrap().into_iter().collect();
            prop_assert_eq!(back, names);
        }

        #[test]
        fn no_text_panics_or_exceeds_the_limit(text in "[a-b\\[\\]0-9,é-]{0,24}") {
            if let Ok(names) = expand(&text, 64) {
                prop_assert!(names.len() <= 64);
            }
        }
    }
}
