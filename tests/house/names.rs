//! No two public types of a crate have one name, so that a name says what is meant without the imports.
//!
//! Counted is what is written `pub struct`, `enum`, `trait`, `type` or `union` at the level of a module, whether or not the module is public; what
//! only tests have, what stands in a macro and what an `impl` or a function holds is not.
//!
//! Worked example: `plan::Window` and `rolling::Window` in one crate are told as `Window: plan, rolling`.

use std::collections::BTreeMap;

use super::{MEMBERS, root, source};

/// Words that begin the definition of a type.
const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// The place after the bracket that closes the one at `at`.
fn closed(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Names of the public types that a file defines, those of modules within it included.
fn public_types(tokens: &[String]) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let ahead = |steps: usize| tokens.get(at + steps).map_or("", String::as_str);
        at = match token.as_str() {
            // What a module holds is read on; every other bracket is passed over.
            "mod" if ahead(2) == "{" => at + 3,
            "{" | "(" | "[" => closed(tokens, at),
            "pub" => {
                let kind = if ahead(1) == "unsafe" { 2 } else { 1 };
                if KINDS.contains(&ahead(kind)) {
                    found.push(ahead(kind + 1));
                }
                at + 1
            }
            _ => at + 1,
        };
    }
    found
}

/// Names that several public types have, each with the modules that define one.
fn shared(modules: &BTreeMap<Vec<String>, Vec<String>>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, tokens) in modules {
        for name in public_types(tokens) {
            let place = if path.is_empty() { "the root".to_owned() } else { path.join("::") };
            places.entry(name).or_default().push(place);
        }
    }
    places.retain(|_, places| places.len() > 1);
    places.iter().map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn no_two_public_types_of_a_crate_have_one_name() {
    let mut wrong = String::new();
    for member in MEMBERS {
        let modules = source::modules(&root().join(member).join("src"));
        assert!(!modules.is_empty(), "{member}: no module is read");
        for name in shared(&modules) {
            wrong.push_str(&format!("\n    {member}, {name}"));
        }
    }
    assert!(wrong.is_empty(), "names that several public types of a crate have, and where:{wrong}");
}

#[test]
fn a_name_given_twice_is_found() {
    let told = |texts: &[(&str, &str)]| {
        let read = |(path, text): &(&str, &str)| {
            let path: Vec<String> = path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
            (path, source::without_tests(&source::tokens(text)).0)
        };
        shared(&texts.iter().map(read).collect())
    };
    let once = "
        //! pub struct Window;
        pub struct Window<'a> { pub open: &'a str }
        pub(crate) struct Pane;
        impl Iterator for Window<'_> { type Item = u8; fn next(&mut self) -> Option<u8> { pub struct Frame; None } }
        macro_rules! made { ($name:ident) => { pub struct Frame; pub struct $name; } }
        made! { pub enum Pane {} }
        pub trait Opens { type Frame; }
        pub fn window() {}
        #[cfg(test)]
        mod tests { pub struct Opens; }
    ";
    assert!(told(&[("", once), ("a", "struct Window; pub enum Frame { Window } pub type Pane = u8;")]).is_empty());
    let twice = "pub mod b { pub enum Window {} } pub use c::Opens; pub unsafe trait Opens {}";
    assert_eq!(told(&[("", once), ("a::d", twice)]), ["Opens: the root, a::d", "Window: the root, a::d"]);
    assert_eq!(told(&[("a", "pub type X = u8;"), ("b", "pub union X { a: u8 }")]), ["X: a, b"]);
}
