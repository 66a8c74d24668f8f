//! Sets of nodes, written as Slurm's host lists, and how many of each are meant.
//!
//! Expanding and writing is [`tracecast_analytics::ingest::slurm::hostlist`]; here lies what a configuration needs beyond: sets that are bounded, and
//! a set cut into pieces that hold no comma, as Slurm from 23.02 on cuts `SuspendExcNodes` at every comma, those in brackets included
//! (`_parse_exc_nodes` of `src/slurmctld/power_save.c`). O(n log n) in the nodes.
//!
//! Worked number: 3 nodes of `n[1-4,7-8]` to stay up are 2 of `n[1-4]` and 1 of `n[7-8]`, as 3 × 4/6 = 2 and 3 × 2/6 = 1.

use std::collections::BTreeSet;

use tracecast_analytics::ingest::slurm::hostlist;

/// Most nodes of a set.
const MOST: usize = 1_000_000;

/// Names of nodes.
pub type Nodes = BTreeSet<String>;

/// The nodes that a host list stands for.
///
/// # Errors
/// What is wrong with it, in words.
pub fn expand(list: &str) -> Result<Nodes, String> {
    let names = hostlist::expand(list.trim(), MOST).map_err(|failure| match failure {
        hostlist::HostlistError::Syntax => format!("`{list}` is no host list (for example n[1-16,20])"),
        hostlist::HostlistError::TooMany => format!("`{list}` stands for more than {MOST} nodes"),
    })?;
    match names.iter().find(|name| name.is_empty() || !name.bytes().all(named)) {
        Some(name) => {
            Err(format!("`{list}` holds `{name}`, which is no name of a node: letters, digits, `-`, `_` and `.`"))
        }
        None => Ok(names.into_iter().collect()),
    }
}

fn named(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// The host list of `nodes`.
pub fn fold(nodes: &Nodes) -> String {
    hostlist::compress(&nodes.iter().collect::<Vec<_>>())
}

/// The first `count` of `nodes`, in the order of their numbers.
pub fn first(nodes: &Nodes, count: usize) -> Nodes {
    let in_order = hostlist::expand(&fold(nodes), MOST).unwrap_or_default();
    in_order.into_iter().take(count).collect()
}

/// The names that a line gives nodes, in its own order; what is no host list is one name.
pub fn names(text: &str) -> Vec<String> {
    hostlist::expand(text, MOST).unwrap_or_else(|_| vec![text.to_owned()])
}

/// Names as a list that stands for them in this order.
pub fn list(names: &[String]) -> String {
    let short = hostlist::compress(names);
    let same = hostlist::expand(&short, MOST).is_ok_and(|result| result == names);
    if same { short } else { names.join(",") }
}

/// The parts of a list, at commas that stand in no brackets.
pub fn parts(text: &str, [open, close]: [char; 2]) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |letter| {
        depth = (depth + i32::from(letter == open) - i32::from(letter == close)).max(0);
        letter == ',' && depth == 0
    })
}

/// `nodes` in pieces without a comma, with their sizes.
pub fn pieces(nodes: &Nodes) -> Vec<(String, usize)> {
    let mut result = Vec::new();
    for part in parts(&fold(nodes), ['[', ']']).filter(|part| !part.is_empty()) {
        // At most one bracket a name, nothing nested: that is how host lists are written here.
        let Some((before, (inside, after))) =
            part.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?)))
        else {
            result.push(part.to_owned());
            continue;
        };
        result.extend(inside.split(',').map(|number| match number.contains('-') {
            true => format!("{before}[{number}]{after}"),
            false => format!("{before}{number}{after}"),
        }));
    }
    let with_size = |part: String| {
        let size = hostlist::expand(&part, MOST).map_or(0, |names| names.len());
        (part, size)
    };
    result.into_iter().map(with_size).collect()
}

/// `count` dealt to `sizes` in proportion: whole parts first, then one each to the largest remainders, the first of equals.
pub fn deal(count: usize, sizes: &[usize]) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    if total == 0 {
        return vec![0; sizes.len()];
    }
    let count = count.min(total);
    let mut dealt: Vec<usize> = sizes.iter().map(|size| count * size / total).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(sizes.get(*at).map_or(0, |size| count * size % total)));
    let left = count - dealt.iter().sum::<usize>();
    for at in order.into_iter().take(left) {
        if let Some(one) = dealt.get_mut(at) {
            *one += 1;
        }
    }
    dealt
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_cut_where_commas_are() {
        let cut = |list: &str| pieces(&expand(list).unwrap());
        let one = |text: &str, size| (text.to_owned(), size);
        assert_eq!(cut("n[1-4,7-8]"), [one("n[1-4]", 4), one("n[7-8]", 2)]);
        assert_eq!(
            cut("n[01-03,5],login,gpu7-ib"),
            [one("login", 1), one("gpu7-ib", 1), one("n5", 1), one("n[01-03]", 3)]
        );
        assert_eq!(cut("a3"), [one("a3", 1)]);
    }

    #[test]
    fn counts_are_dealt_in_proportion() {
        // 3 × 4/6 = 2, 3 × 2/6 = 1.
        assert_eq!(deal(3, &[4, 2]), [2, 1]);
        // 2 of 3 equal sets: 2/3 each, the first two get theirs.
        assert_eq!(deal(2, &[5, 5, 5]), [1, 1, 0]);
        // 5 × 1/10 = 0.5, 5 × 9/10 = 4.5: equal remainders, the first of them.
        assert_eq!(deal(5, &[1, 9]), [1, 4]);
        assert_eq!(deal(9, &[2, 3]), [2, 3], "no more than there are");
        assert_eq!(deal(1, &[]), Vec::<usize>::new());
        // 5 × 3/10 = 1.5, 5 × 6/10 = 3, 5 × 1/10 = 0.5: of the two equal remainders the first gets the one that is left.
        assert_eq!((deal(5, &[3, 6, 1]), deal(0, &[3, 6])), (vec![2, 3, 0], vec![0, 0]));
    }

    #[test]
    fn what_is_no_host_list_is_told() {
        assert!(expand("n[1-").unwrap_err().contains("no host list"));
        assert!(expand("n[1-9999999]").unwrap_err().contains("more than 1000000"));
        assert!(expand("a;reboot").unwrap_err().contains("no name of a node"));
        assert_eq!(fold(&first(&expand("n[9-11]").unwrap(), 2)), "n[9-10]", "by number, not by letter");
    }
}
