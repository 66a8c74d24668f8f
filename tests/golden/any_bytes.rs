#![allow(clippy::panic)]

use std::cell::Cell;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tracecast_analytics::describe::Description;
use tracecast_analytics::ingest;
use tracecast_analytics::report::html;
use tracecast_tests::bytes::{read_any, read_bytes};
use tracecast_tests::fixture;

const CASES: u32 = 256;

/// Runner of the same cases on every run; a failure is shrunk and printed.
fn runner() -> TestRunner {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Text fixtures of a reader, whole.
fn fixtures(reader: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    // A family of readers (`philly-joined`) may share one folder.
    let names = [reader.to_owned(), reader.replace('-', "_"), reader.split('-').next().unwrap_or(reader).to_owned()];
    let mut paths = Vec::new();
    if let Some(folder) = names.iter().map(|name| fixture(name)).find(|folder| folder.is_dir()) {
        walk(&folder, &mut paths);
    }
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// Words and marks of a text, each once.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        found.extend([std::mem::take(&mut word), c.to_string()]);
    }
    found.sort();
    found.dedup();
    found.retain(|token| !token.is_empty());
    found
}

/// Inputs that trip parsers, whatever the format.
const MARKS: [&str; 33] = [
    ",",
    "|",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ":",
    ";",
    "=",
    "#",
    "\n",
    "\r\n",
    "\\",
    " ",
    "\t",
    "-",
    "+",
    "\0",
    "\u{feff}",
    "é",
    "NaN",
    "1e308",
    "-9223372036854775808",
    "18446744073709551616",
    "2020-02-30 25:61:61",
    "9999-12-31 23:59:59",
    "253402300799",
    "-1e18",
    "null",
];

#[test]
fn arbitrary_bytes_never_panic_and_always_balance() {
    for reader in ingest::readers() {
        runner()
            .run(&proptest::collection::vec(any::<u8>(), 0..400), |bytes| {
                read_bytes(Some(reader.id()), &bytes);
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("reader {}: {failure}", reader.id()));
    }
    runner()
        .run(&proptest::collection::vec(any::<u8>(), 0..400), |bytes| {
            read_any(&bytes);
            Ok(())
        })
        .unwrap();
}

// Bytes at random seldom get past a header. So: the beginning of a real file of the format, then its own lines, words and
// marks in any order. What is read of them can be described and drawn.
#[test]
fn mixes_of_a_formats_own_words_never_panic_and_always_balance() {
    let with_rows = Cell::new(0);
    for reader in ingest::readers() {
        let texts = fixtures(reader.id());
        let lines: Vec<String> = texts.iter().flat_map(|text| text.split_inclusive('\n')).map(str::to_owned).collect();
        let words = tokens(&texts.concat());
        let starts: Vec<String> = texts
            .iter()
            .map(|text| text.split_inclusive('\n').next().unwrap_or("").to_owned())
            .chain([String::new()])
            .collect();
        let mark = proptest::sample::select(MARKS.map(str::to_owned).to_vec()).boxed();
        let or_mark = |list: Vec<String>| {
            if list.is_empty() { mark.clone() } else { proptest::sample::select(list).boxed() }
        };
        let piece = prop_oneof![3 => or_mark(lines), 6 => or_mark(words), 2 => mark.clone()];
        let text = (proptest::sample::select(starts), proptest::collection::vec(piece, 0..60));
        runner()
            .run(&text, |(start, pieces)| {
                let bytes = start + &pieces.concat();
                let read = read_bytes(Some(reader.id()), bytes.as_bytes()).map_or(0, |trace| {
                    assert!(html::render(&Description::new(&trace).report("Mix")).is_ok());
                    trace.ledger.read
                });
                with_rows.set(with_rows.get() + u32::from(read > 0));
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("reader {}: {failure}", reader.id()));
    }
    assert!(with_rows.get() > CASES, "only {} mixes were read as rows: they do not reach the parsers", with_rows.get());
}

// A document that is all one value (JSON) is seldom hit by mixing its words: whole files with a few bytes changed reach
// deeper.
#[test]
fn fixtures_with_words_swapped_never_panic_and_always_balance() {
    for reader in ingest::readers() {
        let texts = fixtures(reader.id());
        if texts.is_empty() {
            continue;
        }
        let mut words = tokens(&texts.concat());
        words.extend(MARKS.map(str::to_owned));
        let swaps = proptest::collection::vec((any::<prop::sample::Index>(), proptest::sample::select(words)), 1..6);
        runner()
            .run(&(proptest::sample::select(texts), swaps), |(text, swaps)| {
                let mut text = text;
                for (at, word) in swaps {
                    // Replace the word or mark that stands at a character boundary near the place drawn.
                    let mut from = at.index(text.len() + 1);
                    while !text.is_char_boundary(from) {
                        from -= 1;
                    }
                    let rest = &text[from..];
                    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
                    let length = match rest.find(|c: char| !inside(c)) {
                        Some(0) => rest.chars().next().map_or(0, char::len_utf8),
                        Some(end) => end,
                        None => rest.len(),
                    };
                    text.replace_range(from..from + length, &word);
                }
                read_bytes(Some(reader.id()), text.as_bytes());
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("reader {}: {failure}", reader.id()));
    }
}

// Adding a reader must not forget its fuzz target.
#[test]
fn every_reader_has_a_fuzz_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut missing = Vec::new();
    for reader in ingest::readers() {
        let id = reader.id();
        let target = std::fs::read_to_string(folder.join(format!("fuzz_targets/{id}.rs"))).unwrap_or_default();
        if !target.contains(&format!("target!(\"{id}\")")) {
            missing.push(format!("fuzz_targets/{id}.rs with `tracecast_fuzz::target!(\"{id}\");`"));
        }
        if !manifest.contains(&format!("name = \"{id}\"\npath = \"fuzz_targets/{id}.rs\"\n")) {
            missing.push(format!("a [[bin]] `{id}` in Cargo.toml"));
        }
    }
    assert!(missing.is_empty(), "tests/fuzz lacks: {}", missing.join("; "));
}
