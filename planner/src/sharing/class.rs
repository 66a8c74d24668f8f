//! Job types in classes in which every two may share.
//!
//! A partition or a label cannot say who is beside whom, only who may be on shared GPUs. So every two job types of a class may share, each type with itself, too: the type with the
//! most partners that are left comes first, then each further one that goes with all before it. What two types of different classes could share is lost.
//!
//! O(types³). Worked example: a, b and c go with each other and themselves, d with c and itself. The classes are {a, b, c} and {d}; that c and d go together is lost.

use super::engine::SharingRule;

/// Job types in classes in which every two may share, the largest first; types that go with nobody are in none.
pub fn classes(rule: &SharingRule, kinds: usize) -> Vec<Vec<usize>> {
    let may = |a: usize, b: usize| rule.preference(a, b).and(rule.preference(b, a)).is_some();
    let mut left: Vec<usize> = (0..kinds).filter(|kind| may(*kind, *kind)).collect();
    let mut result = Vec::new();
    while !left.is_empty() {
        let partners = |kind: usize| left.iter().filter(|other| may(kind, **other)).count();
        let mut order = left.clone();
        order.sort_by_key(|kind| (std::cmp::Reverse(partners(*kind)), *kind));
        let mut class: Vec<usize> = Vec::new();
        for kind in order {
            if class.iter().all(|other| may(kind, *other)) {
                class.push(kind);
            }
        }
        left.retain(|kind| !class.contains(kind));
        class.sort_unstable();
        result.push(class);
    }
    result.sort_by_key(|class| std::cmp::Reverse(class.len()));
    result
}

/// The rule under which types share within their class alone.
pub(super) fn rule_of_classes(rule: &SharingRule, classes: &[Vec<usize>], kinds: usize) -> SharingRule {
    // A class is a label, which a job has from its submission on.
    let mut narrow = rule.empty(kinds);
    narrow.reads_running = false;
    for class in classes {
        for a in class {
            for b in class {
                if let Some(preference) = rule.preference(*a, *b) {
                    narrow.allow(*a, *b, preference);
                }
            }
        }
    }
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_in_which_every_two_may_share() {
        // 0, 1 and 2 go with each other, 3 with 2 and itself, 4 with all but itself.
        let mut rule = SharingRule::exclusive(5);
        let mut both = |a: usize, b: usize| {
            rule.allow(a, b, 0);
            rule.allow(b, a, 0);
        };
        for (a, b) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (4, 0), (4, 1), (4, 2), (4, 3)] {
            both(a, b);
        }
        let result = classes(&rule, 5);
        assert_eq!(result, vec![vec![0, 1, 2], vec![3]]);
        let narrow = rule_of_classes(&rule, &result, 5);
        assert_eq!((narrow.preference(0, 2), narrow.preference(2, 3), narrow.preference(4, 0)), (Some(0), None, None));
    }
}
