//! Modules that stand beside each other do not depend on each other in a circle, on any level of any crate.
//!
//! A module depends on another of its level if a file below it names something below the other; what the parent imports counts as coming from
//! where it is defined. What a parent and its children name of each other is not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Named};
use super::{MEMBERS, root};

/// Names of modules from the crate's root on.
pub(crate) type Path = Vec<String>;

/// For each parent: (module, module it depends on) → where the first names the second, and how.
pub(crate) type Edges = BTreeMap<Path, BTreeMap<(String, String), String>>;

/// The path below the crate's root that `named`, in module `of`, means; `None` if it leads out of the crate.
fn absolute(modules: &BTreeMap<Path, Vec<String>>, of: &Path, named: &Named) -> Option<Path> {
    let mut base = of.clone();
    let mut rest = named.path.as_slice();
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" | "super" => {
            while let Some(word @ ("self" | "super")) = rest.first().map(String::as_str) {
                if word == "super" {
                    base.pop();
                }
                rest = &rest[1..];
            }
        }
        child if modules.contains_key(&[of.as_slice(), &[child.to_owned()]].concat()) => {}
        _ => return None,
    }
    base.extend(rest.iter().filter(|word| *word != "*").cloned());
    Some(base)
}

/// Dependencies between the modules of the crate below `src`.
pub(crate) fn edges(src: &std::path::Path) -> Edges {
    let modules = source::modules(src);
    let mut found: Vec<(&Path, &Named, Path)> = Vec::new();
    let all: Vec<(&Path, Vec<Named>)> = modules.iter().map(|(path, tokens)| (path, source::named(tokens))).collect();
    for (of, named) in all.iter().flat_map(|(of, named)| named.iter().map(move |named| (*of, named))) {
        if let Some(to) = absolute(&modules, of, named) {
            found.push((of, named, to));
        }
    }
    // What a module imports can be named as if it were its own.
    let mut kept: BTreeMap<Path, Path> = BTreeMap::new();
    for (of, named, to) in &found {
        if let Some(name) = &named.kept_as {
            let here = [of.as_slice(), std::slice::from_ref(name)].concat();
            if here != *to {
                kept.insert(here, to.clone());
            }
        }
    }
    let mut edges = Edges::new();
    for (of, named, to) in found {
        let mut to = to;
        // Imports of imports; a few steps are enough, and a circle of imports must end.
        for _ in 0..8 {
            let import = (0..=to.len()).rev().find(|length| modules.contains_key(&to[..*length]));
            let Some(next) = import.and_then(|length| to.get(..=length)).and_then(|here| kept.get(here)) else { break };
            let rest = import.map_or(0, |length| length + 1);
            to = [next.as_slice(), to.get(rest..).unwrap_or_default()].concat();
        }
        let length = (0..=to.len()).rev().find(|length| modules.contains_key(&to[..*length])).unwrap_or(0);
        to.truncate(length);
        let common = of.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if let (Some(from), Some(onto)) = (of.get(common), to.get(common)) {
            let example = format!("{} names {}", of.join("::"), named.path.join("::"));
            edges.entry(of[..common].to_vec()).or_default().entry((from.clone(), onto.clone())).or_insert(example);
        }
    }
    edges
}

/// Modules in a circle, each circle once.
fn circles<'a>(edges: impl Iterator<Item = &'a (String, String)>) -> BTreeSet<BTreeSet<&'a str>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        reached.entry(from).or_default().insert(to);
    }
    let names: Vec<&str> = reached.keys().copied().collect();
    for _ in &names {
        for name in &names {
            let further: Vec<&str> = reached[name].iter().filter_map(|to| reached.get(to)).flatten().copied().collect();
            reached.get_mut(name).unwrap().extend(further);
        }
    }
    let both = |a: &str, b: &str| reached[a].contains(b) && reached.get(b).is_some_and(|of_b| of_b.contains(a));
    let in_circle = names.iter().filter(|name| reached[*name].contains(*name));
    in_circle.map(|name| reached[name].iter().copied().filter(|to| both(name, to)).collect()).collect()
}

#[test]
fn modules_do_not_depend_on_each_other_in_a_circle() {
    let mut wrong = String::new();
    for member in MEMBERS {
        let edges = edges(&root().join(member).join("src"));
        assert!(!edges.is_empty(), "{member}: no module names another");
        for (parent, edges) in &edges {
            for circle in circles(edges.keys()) {
                let parent = parent.join("::");
                wrong.push_str(&format!("\n{member}, {parent}: {circle:?}\n"));
                let inside =
                    |(from, to): &(String, String)| circle.contains(from.as_str()) && circle.contains(to.as_str());
                for ((from, to), example) in edges.iter().filter(|(edge, _)| inside(edge)) {
                    wrong.push_str(&format!("    {from} → {to}: {example}\n"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "modules that depend on each other:\n{wrong}");
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let edges = [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("c", "d"), edge("d", "e"), edge("f", "a")];
    assert_eq!(circles(edges.iter()), BTreeSet::from([BTreeSet::from(["a", "b", "c"])]));
    assert!(circles(edges[3..].iter()).is_empty());
}
