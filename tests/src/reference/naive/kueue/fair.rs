//! Fair sharing: who is next in a cycle and who is stopped, with shares summed anew at each step.
//!
//! Worked number: of 8 GPUs that can be lent a borrows 6 and b none; b's job of 3 stops one of a's of 3, as both have 3/8 then.

use std::cmp::Ordering;

use tracecast_planner::sim::cohort::{Cohorts, FairPreemption};

use super::super::Pool;
use super::tree::{Held, Share, Tree};
use super::{Nominated, Standing};

impl Pool<'_> {
    /// Next of the heads left.
    pub(super) fn next_by_share(&self, tree: Tree<'_>, held: &Held, left: &[(Standing, Nominated)]) -> usize {
        let first = left.iter().map(|(_, head)| self.vc(head.job)).min().unwrap();
        let root = tree.path(first).into_iter().next_back().unwrap();
        self.forward(tree, held, left, root).unwrap()
    }

    /// The head that a queue or cohort puts forward.
    fn forward(&self, tree: Tree<'_>, held: &Held, left: &[(Standing, Nominated)], node: usize) -> Option<usize> {
        if tree.is_queue(node) {
            return left.iter().position(|(_, head)| self.vc(head.job) == node);
        }
        let rank = |child: usize| {
            let at = self.forward(tree, held, left, child)?;
            let (standing, head) = &left[at];
            let admitted = (self.vc(head.job), head.flavor, self.amount(head.job));
            let share = tree.share(&[held.clone(), vec![admitted]].concat(), child);
            Some((share, *standing, at))
        };
        let better = |a: &(Share, Standing, usize), b: &(Share, Standing, usize)| a.0.compare(b.0).then(a.1.cmp(&b.1));
        tree.children(node).into_iter().filter_map(rank).min_by(better).map(|(_, _, at)| at)
    }

    /// Queue in which a job is stopped next; `left` are the candidates left of each queue.
    fn search(tree: Tree<'_>, held: &Held, node: usize, own: usize, left: &[Vec<usize>]) -> Option<usize> {
        if tree.is_queue(node) {
            return (!left[node].is_empty()).then_some(node);
        }
        // (share, whether it is a cohort, which child, whom it gives)
        let rank = |child: usize| {
            let share = tree.share(held, child);
            if share.is_zero() && !tree.contains(child, own) {
                return None;
            }
            let result = Self::search(tree, held, child, own, left)?;
            Some((share, !tree.is_queue(child), child, result))
        };
        let order = |a: &(Share, bool, usize, usize), b: &(Share, bool, usize, usize)| {
            a.0.compare(b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        };
        tree.children(node).into_iter().filter_map(rank).max_by(order).map(|(.., result)| result)
    }

    /// Jobs to stop for a job.
    pub(super) fn stops_by_share(
        &self,
        cohorts: &Cohorts,
        job: usize,
        flavor: usize,
        strategies: FairPreemption,
    ) -> Vec<usize> {
        let tree = Tree(cohorts);
        let own = self.vc(job);
        let root = tree.path(own).into_iter().next_back().unwrap();
        let mut left: Vec<Vec<usize>> = vec![Vec::new(); cohorts.rules().len()];
        for other in self.candidates(cohorts, job, flavor, true) {
            left[self.vc(other)].push(other);
        }
        let mut second: Vec<Vec<usize>> = vec![Vec::new(); cohorts.rules().len()];
        let mut gone: Vec<usize> = Vec::new();
        let with_head =
            |gone: &[usize]| -> Held { [self.held_without(gone), vec![(own, flavor, self.amount(job))]].concat() };
        let fits = |gone: &[usize]| self.fits_with(cohorts, job, flavor, gone, &self.held_without(gone)).is_some();
        // Shares of the head's side as it is, of the other side as it is, of the other side without a job more.
        let shares = |gone: &[usize], theirs: usize, other: usize| {
            let meet = Self::meet(tree, own, theirs).unwrap();
            let side = |queue: usize| tree.path(queue).into_iter().take_while(|node| *node != meet).last().unwrap();
            let without = with_head(&[gone, &[other]].concat());
            let now = with_head(gone);
            (tree.share(&now, side(own)), tree.share(&now, side(theirs)), tree.share(&without, side(theirs)))
        };
        while let Some(theirs) = Self::search(tree, &with_head(&gone), root, own, &left) {
            while !left[theirs].is_empty() {
                let other = left[theirs].remove(0);
                let allowed = theirs == own || {
                    let (head, before, after) = shares(&gone, theirs, other);
                    match strategies {
                        FairPreemption::Final | FairPreemption::Both => head.compare(after) != Ordering::Greater,
                        FairPreemption::Initial => head.compare(before) == Ordering::Less,
                    }
                };
                if !allowed {
                    second[theirs].push(other);
                    continue;
                }
                gone.push(other);
                if fits(&gone) {
                    return self.put_back(&gone, fits);
                }
                break;
            }
        }
        if strategies == FairPreemption::Both {
            while let Some(theirs) = Self::search(tree, &with_head(&gone), root, own, &second) {
                let other = second[theirs][0];
                second[theirs].clear();
                let (head, before, _) = shares(&gone, theirs, other);
                if head.compare(before) == Ordering::Less {
                    gone.push(other);
                    if fits(&gone) {
                        return self.put_back(&gone, fits);
                    }
                }
            }
        }
        Vec::new()
    }
}
