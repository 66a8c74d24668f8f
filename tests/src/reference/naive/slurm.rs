//! Slurm's backfill in the plainest way, from the rules that `tracecast_planner::sim::scan::slurm` states: what is free is counted
//! anew from the jobs that hold GPUs, node by node, at every question.
//!
//! Worked number: see that page.

use super::place::{room, whole};
use super::{Phase, Pool, View};

/// Times that nodes are kept for begin and end on whole minutes.
const MINUTE_S: i64 = 60;
/// Running jobs are first taken away half a minute at a time.
const STEP_S: i64 = 30;
/// Most tries of a job in a cycle.
const ATTEMPTS: usize = 400;

/// Nodes that are kept whole, and the table of times that Slurm needs for them.
#[derive(Default)]
pub(super) struct Kept {
    /// From, to, and which nodes.
    all: Vec<(i64, i64, Vec<usize>)>,
    /// Beginnings of the rows of the table, but for the first.
    begins: Vec<i64>,
    /// Number of rows made beside the first.
    made: usize,
    /// Whether no more could be made.
    over: bool,
}

impl Kept {
    /// Keeps nodes in a table from `now` until `last`.
    fn keep(&mut self, now: i64, last: Option<i64>, begin: i64, end: i64, nodes: Vec<usize>) {
        let begin = begin.max(now);
        let is_in = |at: i64| last.is_none_or(|last| at < last);
        if !is_in(begin) {
            return;
        }
        self.all.push((begin, end, nodes));
        for at in [begin, end] {
            if is_in(at) && !self.begins.contains(&at) {
                self.begins.push(at);
                self.made += 1;
            }
        }
        self.begins.sort_unstable();
        // Of two rows that say the same the second goes, once.
        let at = |second: i64| -> Vec<usize> {
            let held = self.all.iter().filter(|(begin, end, _)| *begin <= second && second < *end);
            let mut nodes: Vec<usize> = held.flat_map(|(.., nodes)| nodes.iter().copied()).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let rows: Vec<Vec<usize>> = [now - 1].iter().chain(&self.begins).map(|second| at(*second)).collect();
        if let Some(same) = rows.windows(2).position(|pair| pair[0] == pair[1]) {
            self.begins.remove(same);
        }
    }
}
/// End of the limit of a running job, and the job.
type Holder = (i64, usize);

impl Pool<'_> {
    fn second(&self, ms: i64) -> i64 {
        (self.workload.origin_ms + ms).div_euclid(1000)
    }

    /// Nodes that a job asks for, and GPUs of each.
    pub(super) fn gang(&self, job: usize) -> (usize, usize) {
        let shape = self.shape(job);
        let of_type = (0..self.nodes.len()).filter(|node| self.is_type(*node, job));
        let largest = of_type.map(|node| self.sizes[node]).max().unwrap_or(0).max(1);
        let gpus = shape.gpus as usize;
        let nodes = if shape.nodes > 0 { usize::from(shape.nodes) } else { gpus.div_ceil(largest).max(1) };
        (nodes, gpus.div_ceil(nodes))
    }

    pub(super) fn is_type(&self, node: usize, job: usize) -> bool {
        self.shape(job).gpu_type.is_none_or(|wanted| self.nodes[node].gpu_type == Some(wanted))
    }

    /// The end of the table of times.
    fn last_second(&self, now: i64) -> Option<i64> {
        self.policy.window_ms.map(|window| (now + window / 1000).div_euclid(MINUTE_S) * MINUTE_S)
    }

    /// Runs one cycle.
    pub(super) fn slurm(&mut self, queue: &[usize]) {
        let mut kept = Kept::default();
        for job in queue.iter().copied().take(self.policy.depth.map_or(usize::MAX, |depth| depth as usize)) {
            if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                let _ = self.look_slurm(job, &mut kept);
            }
        }
    }

    /// The turn of a job that its VC's quota allows.
    /// Returns whether others were stopped for it.
    pub(super) fn look_slurm(&mut self, job: usize, kept: &mut Kept) -> bool {
        if kept.over {
            return false;
        }
        let Some(nodes) = self.plan(job, kept) else { return false };
        let (_, each) = self.gang(job);
        let view = self.view();
        if nodes.iter().any(|node| room(&view, *node, self.shape(job)) < each) {
            let Some((nodes, victims)) = self.victims_slurm(job, kept) else { return false };
            let now = self.second(self.now);
            let limit = (self.expected_ms(job) + 999) / 1000;
            let whole = |second: i64| second.div_euclid(MINUTE_S) * MINUTE_S;
            let (begin, end) = (whole(now), whole(now + limit));
            kept.keep(now, self.last_second(now), begin, end.max(begin + MINUTE_S), nodes);
            return self.tell(victims) > 0;
        }
        let view = self.view();
        let (_, each) = self.gang(job);
        let mut left = self.shape(job).gpus as usize;
        let mut pieces = Vec::new();
        for node in nodes {
            let free = (0..view[node].0.len()).filter(|gpu| view[node].0[*gpu] == 1000);
            let gpus: Vec<usize> = free.take(each.min(left)).collect();
            left -= gpus.len();
            if !gpus.is_empty() {
                pieces.push(whole(self.first + node as u32, self.shape(job), gpus.into_iter()));
            }
        }
        self.start(job, pieces);
        false
    }

    /// Whom it stops, and where it then fits: on nodes that nothing is kept on while it would run.
    fn victims_slurm(&self, job: usize, kept: &Kept) -> Option<(Vec<usize>, Vec<usize>)> {
        let now = self.second(self.now);
        let until = now + (self.expected_ms(job) + 999) / 1000;
        let takes = self.empty(false);
        let is_kept = |node: usize| {
            kept.all.iter().any(|(begin, end, nodes)| *begin <= until && *end > now && nodes.contains(&node))
        };
        let allowed: Vec<usize> = (0..self.nodes.len())
            .filter(|node| takes[*node].1 && self.is_type(*node, job) && !is_kept(*node))
            .collect();
        let running = self.in_phase(Phase::Running);
        let on = |other: usize| -> Vec<usize> {
            self.jobs[other].pieces.iter().map(|piece| (piece.node - self.first) as usize).collect()
        };
        let mut order = self.stoppable(job);
        for time in 1.. {
            let mut result = None;
            for taken in 1..=order.len() {
                let left: Vec<usize> =
                    running.iter().copied().filter(|other| !order[..taken].contains(other)).collect();
                if let Some(nodes) = self.fit_among(job, &allowed, &left) {
                    result = Some((taken, nodes));
                    break;
                }
            }
            let (taken, nodes) = result?;
            let shared = |other: usize| on(other).iter().filter(|node| nodes.contains(node)).count();
            if time == 3 || order.len() <= time {
                let victims = order[..taken].iter().copied().filter(|other| shared(*other) > 0).collect();
                return Some((nodes, victims));
            }
            let (before, last, after) = (order[..taken - 1].to_vec(), order[taken - 1], order[taken..].to_vec());
            let mut before: Vec<(usize, usize)> = before.into_iter().map(|other| (shared(other), other)).collect();
            before.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
            order = vec![last];
            order.extend(before.into_iter().map(|(_, other)| other));
            order.extend(after);
        }
        None
    }

    /// The nodes on which the job starts now; else nodes are kept for it, if there is a time for that.
    fn plan(&self, job: usize, kept: &mut Kept) -> Option<Vec<usize>> {
        let now = self.second(self.now);
        let limit = (self.expected_ms(job) + 999) / 1000;
        let (wanted, _) = self.gang(job);
        let takes = self.empty(false);
        let mut from = now;
        for _ in 0..ATTEMPTS {
            let until = from + limit;
            let is_kept = |node: usize| {
                kept.all.iter().any(|(begin, end, nodes)| *begin <= until && *end > from && nodes.contains(&node))
            };
            let allowed: Vec<usize> = (0..self.nodes.len())
                .filter(|node| takes[*node].1 && self.is_type(*node, job) && !is_kept(*node))
                .collect();
            // The next second at which a node is kept no longer, and for nobody else either.
            let holds = |at: i64, node: usize, before: bool| {
                kept.all.iter().any(|(begin, end, nodes)| {
                    let inside = if before { *begin < at && at <= *end } else { *begin <= at && at < *end };
                    inside && nodes.contains(&node)
                })
            };
            let frees = |at: &i64| (0..self.nodes.len()).any(|node| holds(*at, node, true) && !holds(*at, node, false));
            let edges = kept.all.iter().flat_map(|(begin, end, _)| [*begin, *end]).filter(|at| *at > from);
            let later = edges.filter(frees).min();
            let result = if allowed.len() >= wanted { self.earliest(job, &allowed, now) } else { None };
            let Some((at, nodes)) = result else {
                from = later?;
                continue;
            };
            let at = at.max(from);
            if at <= now {
                return Some(nodes);
            }
            if let Some(later) = later.filter(|later| at > *later) {
                from = later;
                continue;
            }
            let whole = |second: i64| second.div_euclid(MINUTE_S) * MINUTE_S;
            let (begin, end) = (whole(at), whole(at + limit).max(whole(at) + MINUTE_S));
            if self.last_second(now).is_some_and(|last| begin >= last) {
                return None;
            }
            let clash = kept.all.iter().any(|(other, until, theirs)| {
                *other < end && *until > begin && nodes.iter().any(|node| theirs.contains(node))
            });
            if clash {
                from = if from == at { at + MINUTE_S } else { at };
                continue;
            }
            if self.policy.depth.is_some_and(|depth| kept.made + 1 >= depth as usize) {
                kept.over = true;
                return None;
            }
            kept.keep(now, self.last_second(now), begin, end, nodes);
            return None;
        }
        None
    }

    /// The first second at which the job fits on the allowed nodes, and on which.
    fn earliest(&self, job: usize, allowed: &[usize], now: i64) -> Option<(i64, Vec<usize>)> {
        let mut holders: Vec<Holder> = self
            .in_phase(Phase::Running)
            .into_iter()
            .map(|other| (self.second(self.expected_end(other)), other))
            .collect();
        holders.extend(self.ends_elsewhere.iter().map(|(end, other)| (self.second(*end), *other)));
        holders.sort_unstable();
        let all: Vec<usize> = holders.iter().map(|(_, other)| *other).collect();
        if let Some(result) = self.fit_among(job, allowed, &all) {
            return Some((now, result));
        }
        // Those that it may stop are gone first.
        let stops = self.stoppable(job);
        let holders: Vec<Holder> = holders.into_iter().filter(|(_, other)| !stops.contains(other)).collect();
        let all: Vec<usize> = all.into_iter().filter(|other| !stops.contains(other)).collect();
        if !stops.is_empty()
            && let Some(result) = self.fit_among(job, allowed, &all)
        {
            return Some((now, result));
        }
        let touches = |other: usize| {
            self.jobs[other].pieces.iter().any(|piece| allowed.contains(&((piece.node - self.first) as usize)))
        };
        let mut left = all.clone();
        let mut at = 0;
        let mut step = STEP_S;
        let mut edge: Option<i64> = None;
        while at < holders.len() {
            let mut last = None;
            while at < holders.len() {
                let (end, other) = holders[at];
                at += 1;
                if !touches(other) {
                    continue;
                }
                let edge = *edge.get_or_insert(end + step - end.rem_euclid(step));
                left.retain(|held| *held != other);
                last = Some(end);
                if holders.get(at).is_none_or(|(next, _)| *next > edge + step) {
                    break;
                }
            }
            let last = last?;
            if let Some(result) = self.fit_among(job, allowed, &left) {
                return Some((last.max(now + 1), result));
            }
            step *= 2;
            while holders.get(at).is_some_and(|(next, _)| *next > edge.unwrap_or(0) + step) {
                step *= 2;
            }
        }
        None
    }

    /// Nodes for the job among the allowed, while `others` hold their GPUs.
    pub(super) fn fit_among(&self, job: usize, allowed: &[usize], others: &[usize]) -> Option<Vec<usize>> {
        let (wanted, each) = self.gang(job);
        let mut view: View = self.empty(true);
        for other in others {
            self.take(&mut view, &self.jobs[*other].pieces);
        }
        let have_cores = self.nodes.iter().all(|node| node.cores.is_some());
        // Processors that a node has left: whole cores, or, of many, all but one for each job.
        let spare = |node: usize| -> (i64, i64) {
            let on = |other: &&usize| {
                self.jobs[**other].pieces.iter().any(|piece| (piece.node - self.first) as usize == node)
            };
            let of_many = (1, -(others.iter().filter(on).count() as i64));
            if have_cores { (view[node].2.cores / 1000, 0) } else { of_many }
        };
        let fits = |node: &usize| room(&view, *node, self.shape(job)) >= each;
        let mut fitting: Vec<usize> = allowed.iter().copied().filter(fits).collect();
        fitting.sort_unstable();
        if self.hangs_on_switches() {
            return self.on_switches(&fitting, wanted);
        }
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < wanted {
            // Stretches of neighbours among the nodes that are left.
            let mut stretches: Vec<Vec<usize>> = Vec::new();
            for node in &fitting {
                match stretches.last_mut() {
                    Some(stretch) if stretch.last().is_some_and(|last| last + 1 == *node) => stretch.push(*node),
                    _ => stretches.push(vec![*node]),
                }
            }
            let missing = wanted - chosen.len();
            let order = |stretch: &Vec<usize>| {
                let spare = || stretch.iter().map(|node| spare(*node));
                (spare().map(|spare| spare.0).sum::<i64>(), spare().map(|spare| spare.1).sum::<i64>(), stretch[0])
            };
            stretches.sort_by_key(order);
            let taken: Vec<usize> = match stretches.iter().find(|stretch| stretch.len() >= missing) {
                Some(stretch) if missing == 1 && chosen.is_empty() => {
                    let mut nodes = stretch.clone();
                    nodes.sort_by_key(|node| (spare(*node), *node));
                    nodes[..1].to_vec()
                }
                Some(stretch) => stretch[..missing].to_vec(),
                None => {
                    // The one with most to spare, the first of equals.
                    let most = stretches.iter().map(|stretch| (order(stretch).0, order(stretch).1)).max()?;
                    stretches.iter().find(|stretch| (order(stretch).0, order(stretch).1) == most)?.clone()
                }
            };
            fitting.retain(|node| !taken.contains(node));
            chosen.extend(taken);
        }
        chosen.sort_unstable();
        Some(chosen)
    }
}
