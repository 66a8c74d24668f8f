//! Identifiers speak the field's English: a word of the dictionary stands in no more places than it
//! did.
//!
//! Counted are identifiers of the crates' sources without tests. Lower a count with every word that
//! you replace; a word that is gone stays here with 0.
//!
//! Worked example: `let told = note(); told.len()` has `told` twice.

use std::collections::BTreeMap;

use super::{MEMBERS, root, source};

/// A word, how often it still stands, and what to write.
const WORDS: [(&str, usize, &str); 14] = [
    ("asked", 442, "request"),
    ("found", 436, "result"),
    ("heard", 0, "observed"),
    ("hindsight", 0, "oracle"),
    ("lane", 88, "replica, or node of an elastic job"),
    ("of", 115, "new, from_jobs, try_from, fit"),
    ("own", 705, "private, dedicated, self"),
    ("pilot", 49, "one type, named for what it holds"),
    ("said", 872, "statement, text"),
    ("standing", 69, "one type, named for what it holds"),
    ("studied", 0, "study_result"),
    ("told", 965, "estimate, note, message"),
    ("walk", 231, "one type, named for what it holds"),
    ("ways", 131, "candidates, policies, configurations"),
];

#[test]
fn words_of_the_dictionary_become_fewer() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for member in MEMBERS {
        for tokens in source::modules(&root().join(member).join("src")).values() {
            for pair in tokens.windows(2) {
                // Closures that look something up are often called `of`; the dictionary means
                // functions.
                let word = if pair[1] == "of" && pair[0] != "fn" { "" } else { pair[1].as_str() };
                if let Some((word, ..)) = WORDS.iter().find(|(listed, ..)| *listed == word) {
                    *counts.entry(word).or_default() += 1;
                }
            }
        }
    }
    let more: Vec<String> = WORDS
        .iter()
        .map(|(word, most, better)| (word, counts.get(word).copied().unwrap_or_default(), most, better))
        .filter(|(_, count, most, _)| count > most)
        .map(|(word, count, most, better)| {
            format!("\n    `{word}` stands {count} times, at most {most}: write {better}")
        })
        .collect();
    assert!(more.is_empty(), "identifiers to replace:{}", more.concat());
}
