//! Sets of nodes, written as Slurm's host lists.
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
pub(super) type Nodes = BTreeSet<String>;

/// The nodes that a host list stands for; the error says what is wrong with it.
pub(super) fn expand(list: &str) -> Result<Nodes, String> {
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
pub(super) fn fold(nodes: &Nodes) -> String {
    hostlist::compress(&nodes.iter().collect::<Vec<_>>())
}

/// The first `count` of `nodes`, in the order of their numbers.
pub(super) fn first(nodes: &Nodes, count: usize) -> Nodes {
    let in_order = hostlist::expand(&fold(nodes), MOST).unwrap_or_default();
    in_order.into_iter().take(count).collect()
}

/// `nodes` in pieces without a comma, with their sizes.
pub(super) fn pieces(nodes: &Nodes) -> Vec<(String, usize)> {
    let list = fold(nodes);
    let (mut parts, mut before, mut inside, mut part) = (Vec::new(), String::new(), false, String::new());
    let mut ended: Vec<String> = Vec::new();
    // At most one bracket a name, nothing nested: that is how host lists are written here.
    for letter in list.chars() {
        match letter {
            '[' => {
                before = std::mem::take(&mut part);
                inside = true;
            }
            ']' => {
                ended.push(std::mem::take(&mut part));
                inside = false;
            }
            ',' if inside => ended.push(std::mem::take(&mut part)),
            ',' => close(&mut parts, &mut before, &mut ended, &mut part),
            letter => part.push(letter),
        }
    }
    close(&mut parts, &mut before, &mut ended, &mut part);
    parts
        .into_iter()
        .map(|part| (hostlist::expand(&part, MOST).map_or(0, |names| names.len()), part))
        .map(swap)
        .collect()
}

fn swap((size, part): (usize, String)) -> (String, usize) {
    (part, size)
}

/// Ends a name: `before`, one of `ended`, and the text after it.
fn close(parts: &mut Vec<String>, before: &mut String, ended: &mut Vec<String>, part: &mut String) {
    let (before, ended, after) = (std::mem::take(before), std::mem::take(ended), std::mem::take(part));
    if ended.is_empty() && !after.is_empty() {
        parts.push(after.clone());
    }
    for number in ended {
        let open = number.contains('-');
        parts.push(if open { format!("{before}[{number}]{after}") } else { format!("{before}{number}{after}") });
    }
}

/// `count` dealt to `sizes` in proportion: whole parts first, then one each to the largest remainders, the first of equals.
pub(super) fn deal(count: usize, sizes: &[usize]) -> Vec<usize> {
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
    }

    #[test]
    fn what_is_no_host_list_is_told() {
        assert!(expand("n[1-").unwrap_err().contains("no host list"));
        assert!(expand("n[1-9999999]").unwrap_err().contains("more than 1000000"));
        assert!(expand("a;reboot").unwrap_err().contains("no name of a node"));
        assert_eq!(fold(&first(&expand("n[9-11]").unwrap(), 2)), "n[9-10]", "by number, not by letter");
    }
}
