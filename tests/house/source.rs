//! Parser of as much of Rust as shows which module names which: words, `::`, brackets, and which
//! items only tests have.
//!
//! Worked example: of `use crate::a::{b, c::d}; // e` the paths `crate::a::b` and `crate::a::c::d` are left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A word of the code, or one of its signs (`::` is one).
type Token = String;

/// A path that a module names: its segments, and the name under which a `use` keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Segments, as written.
    pub(crate) path: Vec<String>,
    /// `Some` where it comes from a `use`.
    pub(crate) kept_as: Option<String>,
}

/// Modules of a crate by their path below the crate's root (the root's is empty), each as tokens without what only tests have.
pub(crate) fn modules(src: &Path) -> BTreeMap<Vec<String>, Vec<Token>> {
    let mut files = Vec::new();
    rust_files(src, &mut files);
    let mut modules = BTreeMap::new();
    let mut of_tests = BTreeSet::new();
    for file in files {
        let inside = file.strip_prefix(src).unwrap().with_extension("");
        let mut path: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            path.pop();
        }
        let (tokens, tests) = without_tests(&tokens(&std::fs::read_to_string(&file).unwrap()));
        of_tests.extend(tests.into_iter().map(|name| [path.as_slice(), &[name]].concat()));
        modules.insert(path, tokens);
    }
    modules.retain(|path, _| !(1..=path.len()).any(|length| of_tests.contains(&path[..length])));
    modules
}

/// All Rust files below `folder`, in order of their paths.
pub(crate) fn rust_files(folder: &Path, into: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// Tokens of some code; comments, texts and numbers are left out.
pub(crate) fn tokens(code: &str) -> Vec<Token> {
    let chars: Vec<char> = code.chars().collect();
    let starts = |at: usize, text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            let mut depth = 0;
            while at < chars.len() {
                depth += usize::from(starts(at, "/*"));
                let closes = starts(at, "*/");
                at += 1;
                if closes {
                    depth -= 1;
                    if depth == 0 {
                        at += 1;
                        break;
                    }
                }
            }
        } else if c == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += 1 + usize::from(chars[at] == '\\');
            }
            at += 1;
        } else if c == '\'' {
            // A character, else a lifetime.
            if chars.get(at + 1) == Some(&'\\') {
                at += 3;
                while at < chars.len() && chars[at] != '\'' {
                    at += 1;
                }
                at += 1;
            } else {
                at += if chars.get(at + 2) == Some(&'\'') { 3 } else { 1 };
            }
        } else if c.is_alphanumeric() || c == '_' {
            let start = at;
            while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                at += 1;
            }
            let word: String = chars[start..at].iter().collect();
            if ["r", "br", "b", "c", "cr"].contains(&word.as_str()) && matches!(chars.get(at), Some('"' | '#')) {
                if word.contains('r') {
                    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
                    if chars.get(at + hashes) == Some(&'"') {
                        let end = format!("\"{}", "#".repeat(hashes));
                        at += hashes + 1;
                        while at < chars.len() && !starts(at, &end) {
                            at += 1;
                        }
                        at += hashes + 1;
                    }
                }
                continue;
            }
            if !c.is_numeric() {
                tokens.push(word);
            }
        } else if starts(at, "::") {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}

fn begins(tokens: &[Token], at: usize, with: &[&str]) -> bool {
    with.iter().enumerate().all(|(i, word)| tokens.get(at + i).is_some_and(|token| token == word))
}

/// The tokens without items under `#[cfg(test)]`, and the names of modules under it that are files of their own.
pub(crate) fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut files) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if !begins(tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with `;`, or with the brace that closes its first one.
        let mut depth = 0usize;
        while let Some(token) = tokens.get(at) {
            if token == "mod" && depth == 0 && tokens.get(at + 2).is_some_and(|next| next == ";") {
                files.push(tokens[at + 1].clone());
            }
            at += 1;
            match token.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && token == "}" {
                        break;
                    }
                }
                ";" if depth == 0 => break,
                _ => {}
            }
        }
    }
    (kept, files)
}

/// The paths that some tokens name: those of `use`, and others that begin with `crate`, `self` or `super`.
pub(crate) fn named(tokens: &[Token]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let word = tokens[at].as_str();
        // `use<'a>` is a bound, not an import.
        if word == "use" && !begins(tokens, at + 1, &["<"]) {
            at = tree(tokens, at + 1, &[], &mut found);
            continue;
        }
        let goes_on = begins(tokens, at + 1, &["::"]);
        if ["crate", "self", "super"].contains(&word) && goes_on && !(at > 0 && tokens[at - 1] == "::") {
            let mut path = vec![tokens[at].clone()];
            at += 1;
            while begins(tokens, at, &["::"]) && tokens.get(at + 1).is_some_and(|next| is_word(next)) {
                path.push(tokens[at + 1].clone());
                at += 2;
            }
            found.push(Named { path, kept_as: None });
            continue;
        }
        at += 1;
    }
    found
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Reads the tree of a `use` from `at`, below `above`; returns where it ends.
fn tree(tokens: &[Token], mut at: usize, above: &[String], into: &mut Vec<Named>) -> usize {
    let mut path = above.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    at = tree(tokens, at, &path, into);
                    at += usize::from(begins(tokens, at, &[","]));
                }
                return at + 1;
            }
            "as" => {
                into.push(Named { path, kept_as: tokens.get(at + 1).cloned() });
                return at + 2;
            }
            word if is_word(word) || word == "*" => {
                path.push(token.clone());
                at += 1;
            }
            _ => break,
        }
    }
    // `a::{self}` is `a`.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let kept_as = path.last().cloned();
    into.push(Named { path, kept_as });
    at
}

#[test]
fn paths_are_read() {
    let code = r##"
        //! `crate::comment::is` no path.
        use crate::a::{self, b, c::{d, e as f}};
        pub(crate) use super::g::*;
        fn x<'a>(c: char) -> impl Fn() + use<'a> { let _ = ("use crate::text::of;", r#"crate::raw"#, ':', '\''); self::h::i(); super::super::j::K }
        #[cfg(test)]
        #[rustfmt::skip]
        mod tests { use crate::only::tests; }
        #[cfg(test)]
        mod own_file;
        const Y: u8 = crate::z::Z;
    "##;
    let (kept, files) = without_tests(&tokens(code));
    let paths: Vec<String> = named(&kept).iter().map(|named| named.path.join("::")).collect();
    let expected = [
        "crate::a",
        "crate::a::b",
        "crate::a::c::d",
        "crate::a::c::e",
        "super::g::*",
        "self::h::i",
        "super::super::j::K",
        "crate::z::Z",
    ];
    assert_eq!((paths, files), (expected.map(str::to_owned).to_vec(), vec!["own_file".to_owned()]));
    assert_eq!(named(&kept)[3].kept_as.as_deref(), Some("f"));
}
