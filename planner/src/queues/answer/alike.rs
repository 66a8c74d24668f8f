//! Ways that came to the same, as one row that names them all.
//!
//! Two settings often make one schedule: a ceiling that nobody reaches, an order among jobs that never queue together. Their rows then hold the same figures, and the
//! first of them, which changes the least, stands for all.
//!
//! O(rows²). Worked example: ceilings of 2 and 3 times a share, each with two orders, all of one outcome, are a row of two nodes and two orders.

use tracecast_analytics::report::format;

use super::QueuesCandidate;

/// What stands between a way and those of the same outcome.
const SAME: &str = "; same outcome: ";

/// Ways of one outcome with what a table shows beside them; the chosen stands for all, else the first.
#[derive(Debug)]
pub(super) struct Alike<'a, T> {
    /// What stands for all.
    pub(super) lead: &'a QueuesCandidate,
    /// What is shown beside it.
    pub(super) beside: T,
    /// All of them, in their order.
    of: Vec<&'a QueuesCandidate>,
    /// Whether the chosen is one of them.
    pub(super) has_chosen: bool,
}

/// Rows put together where the waits of the earlier and the later jobs, what they cost, whether they are allowed, and what is shown `beside` are all the same, in the order of the first of each.
pub(super) fn merged<'a, T: PartialEq>(
    rows: impl IntoIterator<Item = (usize, &'a QueuesCandidate, T)>,
    chosen: usize,
) -> Vec<Alike<'a, T>> {
    let mut result: Vec<Alike<'a, T>> = Vec::new();
    for (at, of, beside) in rows {
        let has_chosen = at == chosen;
        match result.iter_mut().find(|row| is_same(row.lead, of) && row.beside == beside) {
            Some(row) => {
                // What is set stands for what might be set as well.
                if has_chosen {
                    (row.lead, row.has_chosen) = (of, true);
                    row.of.insert(0, of);
                } else {
                    row.of.push(of);
                }
            }
            None => result.push(Alike { lead: of, beside, of: vec![of], has_chosen }),
        }
    }
    result
}

fn is_same(a: &QueuesCandidate, b: &QueuesCandidate) -> bool {
    let waits = |of: &QueuesCandidate| (of.earlier, of.later, of.cost);
    let verdict = |of: &QueuesCandidate| (of.allowed, of.complete, of.on_front);
    waits(a) == waits(b) && verdict(a) == verdict(b) && a.wronged == b.wronged
}

impl<T> Alike<'_, T> {
    /// Whether it is more than one way.
    pub(super) fn is_several(&self) -> bool {
        self.of.len() > 1
    }

    /// How nodes are shared, and the order: each of the ones with each of the others, or the first and then the other pairs.
    pub(super) fn named(&self) -> (String, String) {
        let (sharings, orders) =
            (distinct(self.of.iter().map(|of| nodes(of))), distinct(self.of.iter().map(|of| of.order.clone())));
        if sharings.len() * orders.len() == self.of.len() {
            return (listed(&sharings), listed(&orders));
        }
        let pairs: Vec<String> = self.of.iter().skip(1).map(|of| format!("{} ({})", nodes(of), of.order)).collect();
        (nodes(self.lead), format!("{}{SAME}{}", self.lead.order, pairs.join("; ")))
    }
}

/// How nodes are shared, with the sizes of shares and what is kept for short jobs.
pub(super) fn nodes(of: &QueuesCandidate) -> String {
    let moved = (of.shares_moved > 0.0).then(|| format!("shares moved by {}", format::percent(of.shares_moved)));
    let short = of
        .short_queue
        .map(|short| format!("{} for {}", format::percent(short.part), format::duration(f64::from(short.within_s))));
    std::iter::once(of.sharing.in_words()).chain(moved).chain(short).collect::<Vec<_>>().join(", ")
}

/// Each once, in the order in which they come.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut result = Vec::new();
    for name in names {
        if !result.contains(&name) {
            result.push(name);
        }
    }
    result
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}{SAME}{}", rest.join("; ")),
    }
}

/// The first of some names, and how many more there are; `None` without any.
pub(super) fn in_short(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}, {} more", rest.len())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::Trace;

    use super::super::super::journal::SearchRun;
    use super::super::super::search::tests::{request, uneven};
    use super::super::super::share::Sharing;
    use super::*;

    /// The first candidate of a plan, with other nodes and orders.
    fn ways(of: &[(Option<f64>, &str)]) -> Vec<QueuesCandidate> {
        let answer =
            crate::queues::plan(&Trace::default(), &uneven(300), String::new(), &request(None), SearchRun::default());
        let first = answer.unwrap().body.candidates.remove(0);
        let way = |(ceiling, order): &(Option<f64>, &str)| QueuesCandidate {
            sharing: Sharing::Borrowing { ceiling: *ceiling, reclaim: false },
            order: (*order).to_owned(),
            ..first.clone()
        };
        of.iter().map(way).collect()
    }

    fn rows(ways: &[QueuesCandidate], chosen: usize) -> Vec<(String, String, bool)> {
        let rows = ways.iter().enumerate().map(|(at, of)| (at, of, ()));
        let row = |of: Alike<'_, ()>| {
            let (nodes, order) = of.named();
            (nodes, order, of.has_chosen)
        };
        merged(rows, chosen).into_iter().map(row).collect()
    }

    #[test]
    fn ways_of_one_outcome_are_a_row() {
        let mut ways = ways(&[(Some(2.0), "x"), (Some(2.0), "y"), (Some(3.0), "x"), (Some(3.0), "y")]);
        let both = |first: &str, second: &str| format!("{first}; same outcome: {second}");
        let nodes = both("borrow to 2 ×", "borrow to 3 ×");
        assert_eq!(rows(&ways, 0), [(nodes, both("x", "y"), true)]);
        let nodes = both("borrow to 3 ×", "borrow to 2 ×");
        assert_eq!(rows(&ways, 3), [(nodes, both("y", "x"), true)]);
        // Three of four are no block of nodes and orders.
        ways.pop();
        assert_eq!(
            rows(&ways, 9),
            [("borrow to 2 ×".to_owned(), both("x", "borrow to 2 × (y); borrow to 3 × (x)"), false)]
        );
        // A second of waiting more is another outcome.
        ways[1].later.mean_wait_s += 1.0;
        let nodes = both("borrow to 2 ×", "borrow to 3 ×");
        assert_eq!(
            rows(&ways, 1),
            [(nodes, "x".to_owned(), false), ("borrow to 2 ×".to_owned(), "y".to_owned(), true)]
        );
    }
}
