//! Every dependency that a manifest lists is named in the code it is listed for.
//!
//! A `[dependencies]` entry is named in `src`, outside of unit tests; a `[dev-dependencies]` entry in unit tests, tests, benches or examples; an
//! entry of the workspace is taken by a member. Names in comments do not count, but for the examples in documentation of `[dev-dependencies]`.

use std::collections::BTreeSet;

use super::source;
use super::{MEMBERS, root};

/// Dependencies that no code names: crate, dependency, and why it is there.
const EXEMPT: [(&str, &str, &str); 1] =
    [("analytics", "bitflags", "turns on the feature that test dependencies need, so that polars is built once")];

/// Names listed in a section of a manifest.
fn listed(manifest: &str, section: &str) -> Vec<String> {
    let mut within = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line == section;
        } else if within && line.contains('=') && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap();
            names.push(name.to_owned());
        }
    }
    names
}

/// Words that some tokens use as the beginning of a path.
fn crates_named(tokens: &[String], into: &mut BTreeSet<String>) {
    for (at, token) in tokens.iter().enumerate() {
        let follows = tokens.get(at + 1).map(String::as_str);
        let after_use = at > 0 && tokens[at - 1] == "use" && matches!(follows, Some(";" | "as"));
        if after_use || (follows == Some("::") && !(at > 0 && tokens[at - 1] == "::")) {
            into.insert(token.clone());
        }
    }
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for member in MEMBERS {
        let folder = root().join(member);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let mut in_code = BTreeSet::new();
        for tokens in source::modules(&folder.join("src")).values() {
            crates_named(tokens, &mut in_code);
        }
        // The package `tests` is tests as a whole; those of the command line lie there, too.
        let mut files = Vec::new();
        let places = ["src", "tests", "benches", "examples"].map(|place| folder.join(place));
        let beside = [if member == "cli" { root().join("tests/cli") } else { folder.clone() }];
        let of_tests = if ["cli", "tests"].contains(&member) { &beside[..] } else { &[] };
        for place in places.iter().chain(of_tests) {
            source::rust_files(place, &mut files);
        }
        let mut in_tests = BTreeSet::new();
        for text in files.iter().map(|file| std::fs::read_to_string(file).unwrap()) {
            crates_named(&source::tokens(&text), &mut in_tests);
            for example in text.lines().filter_map(|line| line.trim().strip_prefix("//")) {
                crates_named(&source::tokens(example.trim_start_matches(['/', '!'])), &mut in_tests);
            }
        }
        for (section, named) in [("[dependencies]", &in_code), ("[dev-dependencies]", &in_tests)] {
            for name in listed(&manifest, section) {
                taken.insert(name.clone());
                let exempt = EXEMPT.iter().any(|(of, exempt, _)| *of == member && *exempt == name);
                if named.contains(&name.replace('-', "_")) == exempt {
                    unused.push(format!(
                        "{member}: {name} of {section}{}",
                        if exempt { " is exempt, but used" } else { "" }
                    ));
                }
            }
        }
    }
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let offered = listed(&workspace, "[workspace.dependencies]");
    assert!(offered.len() > 20, "{offered:?}");
    unused.extend(offered.into_iter().filter(|name| !taken.contains(name)).map(|name| format!("workspace: {name}")));
    assert!(unused.is_empty(), "dependencies that nothing uses: {unused:#?}");
}
