//! Number of GPUs over time and by VC: from the capacity table, else from the activity series, else
//! from the inventory.

use std::collections::{BTreeMap, BTreeSet};

use super::activity::spacing;
use super::job::JobFacts;
use super::occupancy::{Steps, beyond, sum};
use super::sizes::{self, Outrun};
use crate::report::format::{count, counted, duration, names, percent};
use crate::schema::{Numbers, Table, gpu_count};
use crate::time::Zone;
use crate::trace::Trace;

/// Share of the GPU time from which an answer that leaves it out says little of the cluster: half.
pub const MOST_LEFT_OUT: f64 = 0.5;

/// Share of the jobs that come after the last size from which it is told.
const TOLD_LATER: f64 = 0.01;

/// VCs that a sentence names.
const NAMED: usize = 5;

/// Share of the GPU time without a VC beyond which what VCs leave idle, or have left of their quota, cannot be told.
pub(crate) const MOST_WITHOUT_VC: f64 = 0.1;

/// GPUs there were over time.
#[derive(Debug)]
pub struct Capacity {
    /// GPUs of the cluster.
    pub cluster: Steps,
    /// GPUs of each VC, by name; empty where only the cluster's are known.
    pub by_vc: BTreeMap<String, Steps>,
    /// Origin of the figures, in words.
    pub how: String,
}

impl Capacity {
    /// The capacity `trace` records, `None` if it records none. `to` is the end of the observation, at which open
    /// intervals end. O(n log n).
    pub fn new(trace: &Trace, from: i64, to: i64) -> Option<Self> {
        Self::of_table(trace, from, to).or_else(|| Self::of_activity(trace)).or_else(|| Self::of_nodes(trace, from, to))
    }

    /// Sentence on what is assumed of the number of GPUs or nodes; `None` where the trace records
    /// it over time, or not at all. For every answer that rests on it.
    pub fn assumption(trace: &Trace) -> Option<String> {
        if let Some(others) = Self::of_other_vcs(trace) {
            return Some(format!(
                "The recorded capacity is of VCs of which no job is in the source ({}): it is not that of these jobs, and how many GPUs these had is not known.",
                names(&others, NAMED)
            ));
        }
        match Outrun::new(trace) {
            Some(outrun) if outrun.is_of_another_time() => return Some(another_time(trace, &outrun)),
            Some(outrun) if outrun.later_share > TOLD_LATER => {
                return Some(format!(
                    "The recorded sizes end before the jobs do: {}. The last known sizes stand for the time after.",
                    told(trace, &outrun)
                ));
            }
            _ => {}
        }
        let table = &trace.capacity;
        let sized = |ix: &usize| table.gpus.get(*ix).or(table.nodes.get(*ix)).is_some();
        let (mut sizes, mut undated) = (0u64, 0u64);
        for ix in (0..table.len()).filter(sized) {
            sizes += 1;
            undated += u64::from(table.from.get(ix).is_none());
        }
        if sizes > 0 {
            return (undated > 0).then(|| {
                format!(
                    "{} of {} recorded without a date and taken to have been the same at all times.",
                    count(undated),
                    counted(sizes, "capacity is", "capacities are")
                )
            });
        }
        let activity = &trace.activity;
        let counted_over_time = activity.gpus_total.iter().flatten().next().is_some();
        let nodes = trace.nodes.gpus.iter().flatten().filter(|gpus| *gpus > 0.0).count() as u64;
        (!counted_over_time && nodes > 0).then(|| {
            format!(
                "How many GPUs there were is not recorded over time: the inventory ({}) is taken to have been the same at \
                 all times.",
                counted(nodes, "node with GPUs", "nodes with GPUs")
            )
        })
    }

    /// Sentence, with dates, saying that the recorded sizes are of [another
    /// time](Outrun::is_of_another_time) than most of the jobs; `None` where they are not. A plan
    /// that rests on them begins with it.
    pub fn of_another_time(trace: &Trace) -> Option<String> {
        Outrun::new(trace).filter(Outrun::is_of_another_time).map(|outrun| another_time(trace, &outrun))
    }

    /// VCs that jobs name, if the capacity of all others is to be left out: a source may hold the jobs of some VCs and the GPUs of all, and where
    /// no job of a VC is in it, its GPUs are not known to be idle. `None` where every VC counts, as much GPU time names none and may be of any.
    pub fn vcs_with_jobs<'t>(facts: &JobFacts<'t>) -> Option<BTreeSet<&'t str>> {
        if facts.gpu_time_without_vc().is_none_or(|share| share > MOST_WITHOUT_VC) {
            return None;
        }
        let jobs = &facts.trace.jobs;
        let named: BTreeSet<&str> = (0..facts.len()).filter_map(|job| jobs.vc.get(job)).collect();
        (!named.is_empty()).then_some(named)
    }

    /// Names of the VCs whose capacity is recorded, if it is recorded by VC alone, jobs name VCs and none of these is among them: they are of
    /// another cluster, or called otherwise, and say nothing of what these jobs ran on.
    pub fn of_other_vcs(trace: &Trace) -> Option<Vec<&str>> {
        let table = &trace.capacity;
        let sized = |ix: &usize| table.gpus.get(*ix).or(table.nodes.get(*ix)).is_some_and(|many| many > 0.0);
        let of =
            |scope: &'static str| (0..table.len()).filter(sized).filter(move |ix| table.scope.get(*ix) == Some(scope));
        if of("cluster").next().is_some() {
            return None;
        }
        let recorded: BTreeSet<&str> = of("vc").filter_map(|ix| table.name.get(ix)).collect();
        let vcs = &trace.jobs.vc;
        let mut named = (0..vcs.distinct() as u32).filter_map(|code| vcs.name(code)).peekable();
        let are_others = named.peek().is_some() && !named.any(|vc| recorded.contains(vc));
        (are_others && !recorded.is_empty()).then(|| recorded.into_iter().collect())
    }

    /// Capacity of the [VCs with jobs](Capacity::vcs_with_jobs) alone, where it is known by VC and
    /// these are fewer than all, else [`Capacity::new`]. `how` says so.
    pub(crate) fn of_jobs(facts: &JobFacts<'_>, from: i64, to: i64) -> Option<Self> {
        if Self::of_other_vcs(facts.trace).is_some() {
            return None;
        }
        let mut capacity = Self::new(facts.trace, from, to)?;
        let Some(named) = Self::vcs_with_jobs(facts) else { return Some(capacity) };
        let all = capacity.by_vc.len();
        let known = capacity.by_vc.keys().filter(|vc| named.contains(vc.as_str())).count();
        if known > 0 && known < all {
            // What the cluster has beyond its VCs is of nobody alone, and stays.
            let of_no_vc = beyond(&capacity.cluster, &sum(capacity.by_vc.values()), (from, to.saturating_add(1)));
            capacity.by_vc.retain(|vc, _| named.contains(vc.as_str()));
            capacity.cluster = sum(capacity.by_vc.values().chain([&of_no_vc]));
            capacity.how.push_str(&format!(", of the {known} of {all} VCs that have jobs in the source"));
        }
        Some(capacity)
    }

    fn of_table(trace: &Trace, from: i64, to: i64) -> Option<Self> {
        let table = &trace.capacity;
        let mut by_vc: BTreeMap<String, Vec<(i64, i64, f64)>> = BTreeMap::new();
        let mut cluster = Vec::new();
        let mut dated = false;
        let of_another_time = Outrun::new(trace).is_some_and(|outrun| outrun.is_of_another_time());
        for (ix, held) in sizes::held(trace).into_iter().enumerate() {
            let up = table.state.get(ix).is_none_or(|state| state == "up");
            let (Some(gpus), true) = (table.gpus.get(ix).and_then(gpu_count), up) else { continue };
            dated |= table.from.get(ix).is_some();
            let (since, until) = held.within(from, to.saturating_add(1));
            let interval = (since, until, gpus);
            match (table.scope.get(ix), table.name.get(ix)) {
                (Some("vc"), Some(name)) => by_vc.entry(name.to_owned()).or_default().push(interval),
                (Some("cluster"), _) => cluster.push(interval),
                _ => {}
            }
        }
        if cluster.is_empty() {
            cluster = by_vc.values().flatten().copied().collect();
        }
        if cluster.is_empty() {
            return None;
        }
        Some(Self {
            cluster: Steps::of_intervals(cluster),
            by_vc: by_vc.into_iter().map(|(name, intervals)| (name, Steps::of_intervals(intervals))).collect(),
            how: if of_another_time {
                "the last recorded capacity, which is of before most of the jobs".to_owned()
            } else if dated {
                "the recorded capacity over time".to_owned()
            } else {
                "the recorded capacity, taken to be the same at all times".to_owned()
            },
        })
    }

    fn of_activity(trace: &Trace) -> Option<Self> {
        let table = &trace.activity;
        let by_vc = samples_by_name(trace, "vc", &table.gpus_total);
        let cluster = samples_by_name(trace, "cluster", &table.gpus_total).into_values().next();
        let cluster = cluster.or_else(|| (!by_vc.is_empty()).then(|| sum(by_vc.values())))?;
        Some(Self { cluster, by_vc, how: "the GPU totals of the activity series".to_owned() })
    }

    fn of_nodes(trace: &Trace, from: i64, to: i64) -> Option<Self> {
        let nodes = &trace.nodes;
        let mut by_vc: BTreeMap<String, f64> = BTreeMap::new();
        let mut total = 0.0;
        for ix in 0..nodes.len() {
            let Some(gpus) = nodes.gpus.get(ix).and_then(gpu_count) else { continue };
            total += gpus;
            if let Some(vc) = nodes.vc.get(ix) {
                *by_vc.entry(vc.to_owned()).or_default() += gpus;
            }
        }
        let always = |gpus: f64| Steps::of_intervals([(from, to.saturating_add(1), gpus)]);
        (total > 0.0).then(|| Self {
            cluster: always(total),
            by_vc: by_vc.into_iter().map(|(vc, gpus)| (vc, always(gpus))).collect(),
            how: "the inventory, taken to be the same at all times".to_owned(),
        })
    }
}

/// Sentence saying that sizes are of another time than most of the jobs.
fn another_time(trace: &Trace, outrun: &Outrun) -> String {
    format!(
        "**The recorded sizes are of another time than the jobs**: {}. The last known sizes stand for those of the jobs; nobody knows whether they were still the same.",
        told(trace, outrun)
    )
}

/// Words for when sizes end and jobs come.
fn told(trace: &Trace, outrun: &Outrun) -> String {
    let zone = Zone::named(&trace.zone).unwrap_or_else(|_| Zone::utc());
    let day = |ms: i64| zone.show(ms).chars().take(10).collect::<String>();
    let Outrun { end_ms, first_ms, later_share } = *outrun;
    // What ends at midnight is of the day before.
    let last = if trace.basis.has_dates() {
        format!("the last is of {}", day(end_ms.saturating_sub(1)))
    } else {
        "the last ends".to_owned()
    };
    match (trace.basis.has_dates(), first_ms >= end_ms) {
        (true, true) => format!("{last}, and the first job of {}", day(first_ms)),
        (false, true) => {
            format!("{last} {} before the first job", duration(first_ms.saturating_sub(end_ms) as f64 / 1e3))
        }
        (true, false) => format!("{last}, and {} of the jobs came after it", percent(later_share)),
        (false, false) => format!("{last} before {} of the jobs came", percent(later_share)),
    }
}

/// The series of one activity column by VC (or cluster) name. Each sample holds until the next, the last for one median
/// gap, as in `load`: what is not sampled any more is not there for ever.
pub(crate) fn samples_by_name(trace: &Trace, scope: &str, column: &Numbers<f64>) -> BTreeMap<String, Steps> {
    let table = &trace.activity;
    let mut samples: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    for ix in 0..table.len() {
        if table.scope.get(ix) != Some(scope) {
            continue;
        }
        if let (Some(name), Some(ts), Some(value)) = (table.name.get(ix), table.ts.get(ix), column.get(ix)) {
            samples.entry(name.to_owned()).or_default().push((ts, value));
        }
    }
    samples.into_iter().map(|(name, samples)| (name, held(samples))).collect()
}

/// Samples held until the next, the last for one median gap; a single one for ever.
fn held(mut samples: Vec<(i64, f64)>) -> Steps {
    samples.sort_by_key(|(ts, _)| *ts);
    samples.dedup_by_key(|(ts, _)| *ts);
    let gap = spacing(samples.iter().map(|(ts, _)| *ts));
    let end = gap.zip(samples.last()).map(|(gap, (last, _))| (last.saturating_add(gap), 0.0));
    Steps::of_samples(samples.into_iter().chain(end))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota, sample};
    use crate::schema::{CapacityRow, NodeRow};

    #[test]
    fn what_is_assumed_is_said_and_nothing_else() {
        let said = |trace: &Trace| Capacity::assumption(trace).unwrap_or_default();
        let mut trace = Trace::default();
        assert_eq!(said(&trace), "");
        let node = |gpus| NodeRow { gpus: Some(gpus), ..NodeRow::default() };
        trace.nodes.push(node(8.0));
        trace.nodes.push(node(0.0));
        assert!(said(&trace).contains("the inventory (1 node with GPUs)"), "{}", said(&trace));
        // A table beats the inventory; without dates it is no record over time either.
        trace.capacity.push(quota("a", 8.0));
        assert_eq!(said(&trace), "");
        let undated = CapacityRow { from: None, ..quota("b", 8.0) };
        trace.capacity.push(undated);
        assert!(said(&trace).starts_with("1 of 2 capacities are recorded without a date"), "{}", said(&trace));
    }

    /// Capacity of VCs without jobs is not taken for that of the jobs, as it once was in a folder
    /// of two clusters.
    #[test]
    fn capacity_of_other_vcs_alone_is_not_that_of_the_jobs() {
        let mut trace = Trace::default();
        trace.jobs.push(job("1", "a", 4.0, 0, 0, 100));
        trace.capacity.push(quota("earth/a", 8.0));
        trace.capacity.push(quota("venus/a", 8.0));
        assert_eq!(Capacity::of_other_vcs(&trace), Some(vec!["earth/a", "venus/a"]));
        assert!(Capacity::of_jobs(&JobFacts::new(&trace), 0, 100_000).is_none());
        let said = Capacity::assumption(&trace).unwrap();
        assert!(said.contains("(earth/a, venus/a)") && said.ends_with("is not known."), "{said}");
        // One VC of the jobs, or a size of the whole cluster, is of these jobs.
        trace.capacity.push(quota("a", 16.0));
        assert_eq!(Capacity::of_other_vcs(&trace), None);
        assert_eq!(Capacity::of_jobs(&JobFacts::new(&trace), 0, 100_000).unwrap().cluster.at(0), 16.0);
    }

    #[test]
    fn a_capacity_without_a_date_holds_at_all_times() {
        let mut trace = Trace::default();
        trace.capacity.push(CapacityRow { from: None, ..quota("a", 8.0) });
        let capacity = Capacity::new(&trace, 1_000, 5_000).unwrap();
        assert_eq!((capacity.cluster.at(1_000), capacity.cluster.at(5_000), capacity.by_vc.len()), (8.0, 8.0, 1));
        assert!(capacity.how.ends_with("taken to be the same at all times"), "{}", capacity.how);
    }

    /// Sizes that end months before the first job are carried on with a note; they were once taken
    /// for today's sizes, or for 0 GPUs.
    #[test]
    fn sizes_of_before_the_first_job_are_carried_on_and_told() {
        const DAY_S: i64 = 86_400;
        let mut trace = Trace { zone: "UTC".to_owned(), ..Trace::default() };
        trace.jobs.push(job("1", "a", 4.0, 100 * DAY_S, 100 * DAY_S, 101 * DAY_S));
        let size = |from: i64, to: i64, gpus| CapacityRow {
            from: Some(from * DAY_S * 1000),
            to: Some(to * DAY_S * 1000),
            ..quota("a", gpus)
        };
        trace.capacity.push(size(0, 10, 8.0));
        trace.capacity.push(size(10, 20, 16.0));
        let said = Capacity::assumption(&trace).unwrap();
        assert!(said.contains("the last is of 1970-01-20, and the first job of 1970-04-11"), "{said}");
        let window = (100 * DAY_S * 1000, 101 * DAY_S * 1000);
        let capacity = Capacity::new(&trace, window.0, window.1).unwrap();
        assert_eq!((capacity.cluster.at(window.0), capacity.by_vc["a"].at(window.1)), (16.0, 16.0));
        assert!(capacity.how.contains("of before most of the jobs"), "{}", capacity.how);
        // One that holds when the jobs come is of their time.
        trace.capacity.push(size(20, 101, 24.0));
        assert_eq!(Capacity::of_another_time(&trace), None);
    }

    /// GPUs of no VC are kept; they were once left out with those of VCs without jobs.
    #[test]
    fn gpus_of_no_vc_stay_where_vcs_without_jobs_are_left_out() {
        let mut trace = Trace::default();
        trace.jobs.push(job("1", "a", 4.0, 0, 0, 100));
        trace.capacity.push(quota("a", 8.0));
        trace.capacity.push(quota("b", 32.0));
        trace.capacity.push(CapacityRow { scope: Some("cluster".into()), ..quota("all", 60.0) });
        let capacity = Capacity::of_jobs(&JobFacts::new(&trace), 0, 100_000).unwrap();
        // Of 60, 32 are b's and 20 nobody's.
        assert_eq!((capacity.cluster.at(0), capacity.by_vc.len()), (28.0, 1));
    }

    #[test]
    fn a_vc_that_is_no_longer_sampled_has_no_gpus_any_more() {
        let mut trace = Trace::default();
        for (vc, ts) in [("a", 0), ("a", 60), ("a", 120), ("a", 180), ("b", 0), ("b", 60)] {
            trace.activity.push(sample(vc, ts, 8.0, 1.0, 0.0));
        }
        let capacity = Capacity::new(&trace, 0, 240_000).unwrap();
        // b's last sample holds for a minute: 16 GPUs until 120 s, 8 until 240 s, none after.
        let at = |second: i64| capacity.cluster.at(second * 1_000);
        assert_eq!((at(119), at(120), at(239), at(240)), (16.0, 8.0, 8.0, 0.0));
    }

    #[test]
    fn only_vcs_that_jobs_name_count_and_the_source_says_so() {
        let mut trace = Trace::default();
        trace.jobs.push(job("1", "a", 4.0, 0, 0, 100));
        trace.capacity.push(quota("a", 8.0));
        trace.capacity.push(quota("b", 32.0));
        let of = |trace: &Trace| Capacity::of_jobs(&JobFacts::new(trace), 0, 100_000).unwrap();
        let capacity = of(&trace);
        assert_eq!((capacity.cluster.at(0), capacity.by_vc.len()), (8.0, 1));
        assert!(capacity.how.ends_with("of the 1 of 2 VCs that have jobs in the source"), "{}", capacity.how);
        // Half of the GPU time without a VC may be anyone's, so all GPUs count.
        let mut other = job("2", "", 4.0, 0, 0, 100);
        other.vc = None;
        trace.jobs.push(other);
        assert_eq!(of(&trace).cluster.at(0), 40.0);
    }
}
