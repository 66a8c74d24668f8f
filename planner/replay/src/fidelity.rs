//! Fidelity of a replay of the recorded policy to the recorded starts: the gate before any what-if.
//!
//! A what-if is a difference between two replays. If the first of them, which should repeat what happened, is far from what
//! happened, the difference means little. Compared are jobs with a recorded start that started in the replay too and did not
//! run when it began; the wait is the time from submission to the first start.
//!
//! | verdict | mean wait off by at most | Kendall's τ-b of the starts at least | who waits | jobs compared |
//! |---|---|---|---|---|
//! | exact | not at all: every job starts when it was recorded to | | | at least half |
//! | good | 10 % of the recorded, or 60 s | 0.95 | τ-b of the waits at least 0.5, or nine starts of ten met within 60 s | at least half |
//! | rough | 50 % of the recorded, or 60 s | 0.80 | | |
//! | far off | more | less | | |
//!
//! A mean can be right while others wait than did, and a τ of starts is high over any long trace, for the order of starts mostly
//! follows the order of submissions: hence the column of who waits. A τ of 0.5 has three of four pairs in the recorded order. Jobs
//! without a recorded start are replayed but cannot be compared; where they are the greater part, those compared may be of one
//! kind, and the replay is rough at best.
//!
//! That is said of a replay on what the cluster had. Nodes or quotas that come from a file and that the trace says nothing of may be those there were, or a what-if that was never meant to
//! repeat the record. A replay on them that is far off then tells nothing: it cannot be told ([`Fidelity::on_given`]).
//!
//! If more than 5 % of the jobs with a recorded start never start in the replay, it is far off whatever the rest says. With
//! fewer than 30 jobs to compare, or if all start at one moment, nothing is said.
//!
//! Complexity: O(n log n); τ-b by Knight's merge sort (JASA 61, 1966).
//!
//! Worked number: recorded starts 1, 2, 3, 4 and replayed 1, 3, 2, 4 have five pairs in the same order and one not: τ = 4/6.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::{quantile, sum};

use super::metric::JobTimes;
use crate::error::{Error, Result};
use tracecast_sim::policy::{Policy, Scan};
use tracecast_sim::schedule::Schedule;
use tracecast_sim::workload::Workload;

/// Fewest jobs from which anything is said.
const FEWEST_JOBS: usize = 30;
/// Mean waits this close are as good as equal, seconds.
const CLOSE_S: f64 = 60.0;
/// Share of jobs that may be missing from the replay.
const MISSING: f64 = 0.05;
/// Kendall's τ of the waits from which those wait who did: three of four pairs in the recorded order.
const SAME_WAIT: f64 = 0.5;
/// Share of starts within a minute that says the same where few wait, or all alike.
const SAME_START: f64 = 0.9;
/// Share of the jobs that has to be compared for the rest to be taken as met.
const COMPARED: f64 = 0.5;

/// Whether what-ifs can be built on a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Every job that has a recorded start starts in that very millisecond.
    Exact,
    /// The replay repeats what happened: how long jobs waited, in which order they started, and who waited.
    Good,
    /// The direction of a what-if can be trusted, its size cannot.
    Rough,
    /// No advice should be built on it.
    FarOff,
    /// Nothing can be said.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// A plain policy whose replay comes near enough to the record.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NearestPolicy {
    /// Order of the policy.
    pub order: String,
    /// Scan of the policy.
    pub scan: String,
    /// Mean wait of its replay, seconds.
    pub replayed_mean_wait_s: Option<f64>,
    /// Kendall's τ-b of its starts and the recorded ones.
    pub start_order_tau: Option<f64>,
    /// Whether the replay repeats the record closely, and not only roughly.
    pub close: bool,
}

/// Fidelity of a replay to the record.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fidelity {
    /// Jobs compared.
    pub jobs: u64,
    /// Jobs with a recorded start that never start in the replay.
    pub never_started: u64,
    /// Jobs of the replay without a recorded start, which cannot be compared.
    pub without_start: u64,
    /// Median of |replayed − recorded start|, seconds.
    pub median_abs_error_s: Option<f64>,
    /// Mean of it, seconds.
    pub mean_abs_error_s: Option<f64>,
    /// 90 % quantile of it, seconds.
    pub p90_abs_error_s: Option<f64>,
    /// The largest of it, seconds.
    pub max_abs_error_s: Option<f64>,
    /// Share of jobs whose start is met within 60 s.
    pub within_60_s_share: Option<f64>,
    /// Mean recorded wait, seconds.
    pub recorded_mean_wait_s: Option<f64>,
    /// Mean replayed wait, seconds.
    pub replayed_mean_wait_s: Option<f64>,
    /// Kendall's τ-b of recorded and replayed starts, −1 to 1.
    pub start_order_tau: Option<f64>,
    /// Kendall's τ-b of recorded and replayed waits.
    pub wait_order_tau: Option<f64>,
    /// Whether what-ifs can be built on the replay.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The plain policy that would have come near enough, where this one is far off and one was sought (`replay::nearest`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestPolicy>,
    /// The policy that was taken for what the cluster had, where nobody named one and it is far off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub assumed: Option<String>,
    /// Whether the replay is far off on nodes or quotas that may be a what-if
    /// ([`Fidelity::on_given`]).
    #[serde(skip)]
    on_given: bool,
}

impl Fidelity {
    /// Compares a schedule with recorded starts, milliseconds from the origin.
    ///
    /// # Errors
    /// If the schedule or the recorded starts are not of this workload.
    pub fn new(workload: &Workload, schedule: &Schedule, recorded_start_ms: &[Option<i64>]) -> Result<Self> {
        let times = JobTimes::new(workload, schedule)?;
        if recorded_start_ms.len() != workload.len() {
            return Err(Error::workload(0, "the recorded starts are not of these jobs"));
        }
        let mut starts: Vec<(i64, i64)> = Vec::new();
        let mut waits: Vec<(i64, i64)> = Vec::new();
        let (mut never_started, mut without_start) = (0, 0);
        for (job, (submit, recorded)) in workload.submit_ms.iter().zip(recorded_start_ms).enumerate() {
            if !times.is_counted(job) {
                continue;
            }
            let Some(recorded) = recorded else {
                without_start += 1;
                continue;
            };
            let Some(replayed) = schedule.start_ms(job) else {
                never_started += 1;
                continue;
            };
            starts.push((*recorded, replayed));
            waits.push((recorded - submit, replayed - submit));
        }
        let seconds = |of: &dyn Fn(&(i64, i64)) -> i64, pairs: &[(i64, i64)]| -> Vec<f64> {
            pairs.iter().map(|pair| of(pair) as f64 / 1000.0).collect()
        };
        let mut errors = seconds(&|(recorded, replayed)| (replayed - recorded).abs(), &starts);
        let mean_abs_error_s = sum::mean(&errors);
        let close = errors.iter().filter(|error| **error <= 60.0).count();
        let within_60_s_share = (!errors.is_empty()).then(|| close as f64 / errors.len() as f64);
        let max_abs_error_s = errors.iter().copied().reduce(f64::max);
        let quantiles = quantile::quantiles_in_place(&mut errors, &[0.5, 0.9]);
        let mut fidelity = Self {
            jobs: starts.len() as u64,
            never_started,
            without_start,
            median_abs_error_s: quantiles.first().copied().flatten(),
            mean_abs_error_s,
            p90_abs_error_s: quantiles.last().copied().flatten(),
            max_abs_error_s,
            within_60_s_share,
            recorded_mean_wait_s: sum::mean(seconds(&|pair| pair.0, &waits)),
            replayed_mean_wait_s: sum::mean(seconds(&|pair| pair.1, &waits)),
            start_order_tau: kendall_tau_b(starts),
            wait_order_tau: kendall_tau_b(waits),
            verdict: Verdict::FarOff,
            nearest: None,
            assumed: None,
            on_given: false,
        };
        fidelity.verdict = fidelity.judge();
        Ok(fidelity)
    }

    /// Returns a sentence on the plain policy that repeats the record; empty if none is known.
    fn nearest_in_words(&self) -> String {
        let Some(NearestPolicy { order, scan, replayed_mean_wait_s: wait, start_order_tau: tau, close }) =
            &self.nearest
        else {
            return String::new();
        };
        let wait = wait.map_or_else(String::new, |wait| format!("mean wait {}", format::duration(wait)));
        let tau = tau.map_or_else(String::new, |tau| format!(", order of starts τ = {tau:.3}"));
        let roughly = if *close { "" } else { " roughly" };
        if self.assumed.is_some() {
            return format!(
                " With --recorded {order}/{scan} the replay repeats it{roughly} ({wait}{tau}): name that, if it is how your scheduler decides, and what is replayed begins from it."
            );
        }
        format!(
            " With --scan {scan} in the order {order} the replay repeats it{roughly} ({wait}{tau}): name that, if it is how your scheduler decides; in `simulate` it is --recorded {order}/{scan}."
        )
    }

    /// Marks the fidelity of a replay on nodes or quotas from a file that the trace does not
    /// record, such as `the nodes of site.toml`: a replay that is far off there cannot be told from
    /// a what-if.
    #[must_use]
    pub fn on_given(self, given: &str) -> Self {
        if self.verdict != Verdict::FarOff {
            return self;
        }
        let why = format!(
            "it is on {given}, of which the trace does not say that the cluster had them ({}). If they are a what-if, replay what the cluster had first; if it had them, its policy was another: name that, in `simulate` with --recorded{}",
            self.measured(),
            self.nearest.as_ref().map_or_else(String::new, |nearest| format!(
                " ({} with {} would come nearest)",
                nearest.order, nearest.scan
            ))
        );
        Self { verdict: Verdict::Unknown { why }, on_given: true, ..self }
    }

    /// Whether the reader has to be warned first: the replay is far off, or was before its nodes
    /// were known to be a possible what-if.
    pub fn warns(&self) -> bool {
        self.verdict == Verdict::FarOff || self.on_given
    }

    /// Whether there was anything to compare with.
    pub fn is_measured(&self) -> bool {
        self.on_given || !matches!(self.verdict, Verdict::Unknown { .. })
    }

    /// Relative error of the mean wait; `None` if nothing waited in the record.
    pub fn mean_wait_error(&self) -> Option<f64> {
        let recorded = self.recorded_mean_wait_s.filter(|recorded| *recorded > 0.0)?;
        Some(self.replayed_mean_wait_s? / recorded - 1.0)
    }

    /// Whether advice may be built on the replay at all.
    pub fn is_believed(&self) -> bool {
        !matches!(self.verdict, Verdict::FarOff | Verdict::Unknown { .. })
    }

    /// Whether the size of a what-if can be trusted, and not its direction alone.
    pub fn is_close(&self) -> bool {
        matches!(self.verdict, Verdict::Exact | Verdict::Good)
    }

    /// Returns the first sentence of a plan whose replay is far from what happened, or is of a
    /// strict order that nothing confirms; `None` of any other.
    pub fn caution(&self, policy: &Policy) -> Option<String> {
        if let (Verdict::Unknown { why }, Scan::Strict) = (&self.verdict, policy.scan) {
            return Some(format!(
                "**The replay is of a strict order, and nothing says whether yours is** ({why}): a job that does not fit holds up all behind it. Where others may pass it (--scan easy or skip; Slurm backfills unless told otherwise), waits are shorter and fewer nodes do. Make sure of it, and name --order and --scan as they are, before you apply anything."
            ));
        }
        (self.verdict == Verdict::FarOff).then(|| {
            format!(
                "**The replay of today is far from what happened**: {} ({}).{} So what follows is of a cluster like the one replayed, and its sizes are not yours. If the nodes or the policy are a what-if, pass over this; else name those that there were (--site, --order, --scan).",
                self.measured(),
                self.compared(),
                self.nearest_in_words(),
            )
        })
    }

    /// An action of a plan that changes something. Where the replay is far from what happened, it is told as one for a cluster like that of the replay, and not to be applied.
    pub fn qualified(&self, action: String) -> String {
        if self.verdict == Verdict::FarOff {
            format!(
                "**Apply nothing yet**: the replay of today is far from what happened. On a cluster like the one replayed it would be: {action}"
            )
        } else {
            action
        }
    }

    /// Returns the caution, or the sentence on a replay that is not [close](Fidelity::is_close) to
    /// what happened, which makes a plan that rests on it unsure.
    pub fn reservation(&self, policy: &Policy) -> Option<String> {
        self.caution(policy).or_else(|| match &self.verdict {
            Verdict::Exact | Verdict::Good | Verdict::FarOff => None,
            Verdict::Rough => Some(format!(
                "**The replay repeats what happened only roughly**, so trust the direction of what follows and not its size: {} ({}).",
                self.measured(),
                self.compared()
            )),
            Verdict::Unknown { why } => Some(format!("**Whether the replay repeats what happened cannot be told**: {why}.")),
        })
    }

    fn judge(&self) -> Verdict {
        let unknown = |why: String| Verdict::Unknown { why };
        let jobs = self.jobs + self.never_started;
        if jobs == 0 {
            return unknown("no job has a recorded start".into());
        }
        if jobs < FEWEST_JOBS as u64 {
            return unknown(format!("{jobs} jobs have a recorded start; it takes {FEWEST_JOBS} to tell"));
        }
        if self.never_started as f64 > MISSING * jobs as f64 {
            return Verdict::FarOff;
        }
        let (Some(recorded), Some(replayed)) = (self.recorded_mean_wait_s, self.replayed_mean_wait_s) else {
            return Verdict::FarOff;
        };
        let Some(tau) = self.start_order_tau else {
            return unknown("all jobs start at one moment, so their order says nothing".into());
        };
        let off = (replayed - recorded).abs();
        let within = |share: f64| off <= (share * recorded.abs()).max(CLOSE_S);
        let exact = self.never_started == 0 && self.max_abs_error_s == Some(0.0);
        if exact && self.compares_most() {
            Verdict::Exact
        } else if exact || within(0.10) && tau >= 0.95 {
            if self.has_the_same_wait() && self.compares_most() { Verdict::Good } else { Verdict::Rough }
        } else if within(0.50) && tau >= 0.80 {
            Verdict::Rough
        } else {
            Verdict::FarOff
        }
    }

    /// Whether the jobs that wait are those that waited in the record.
    fn has_the_same_wait(&self) -> bool {
        self.wait_order_tau.is_some_and(|tau| tau >= SAME_WAIT)
            || self.within_60_s_share.is_some_and(|share| share >= SAME_START)
    }

    /// Whether at least half of the jobs have a recorded start.
    fn compares_most(&self) -> bool {
        let recorded = (self.jobs + self.never_started) as f64;
        recorded >= COMPARED * (recorded + self.without_start as f64)
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let meets = match &self.verdict {
            Verdict::Unknown { why } => {
                return format!("Whether the replay repeats what happened cannot be told: {why}.");
            }
            Verdict::Exact => {
                return format!(
                    "The replay repeats what happened exactly: {} when recorded, to the millisecond.",
                    format::counted(self.jobs, "job starts", "jobs all start")
                );
            }
            Verdict::Good => "The replay repeats what happened",
            Verdict::Rough => {
                "The replay repeats what happened only roughly, so trust the direction of a what-if and not its size"
            }
            Verdict::FarOff => "The replay is far from what happened, so do not build advice on it",
        };
        let meets = match &self.assumed {
            Some(assumed) => {
                format!("{meets}, as {assumed} is taken for what the cluster had (no --recorded is named)")
            }
            None => meets.to_owned(),
        };
        let others = match self.wait_order_tau {
            _ if self.has_the_same_wait() => String::new(),
            Some(tau) => format!(", and others wait than did (order of waits τ = {tau:.3})"),
            None => ", and who waits is not told by it".to_owned(),
        };
        format!("{meets}: {}{others} ({}).{}", self.measured(), self.compared(), self.nearest_in_words())
    }

    /// How many jobs were compared, of how many.
    fn compared(&self) -> String {
        let jobs = format::counted(self.jobs, "job", "jobs");
        match self.without_start {
            0 => jobs,
            without => format!(
                "{jobs} of {}, as the others have no recorded start",
                format::count(self.jobs + self.never_started + without)
            ),
        }
    }

    /// Mean waits and the order of starts, in words.
    fn measured(&self) -> String {
        let wait = match (self.recorded_mean_wait_s, self.replayed_mean_wait_s) {
            (Some(recorded), Some(replayed)) => {
                format!("mean wait {} against {} recorded", format::duration(replayed), format::duration(recorded))
            }
            _ => String::from("no job with a recorded start has started"),
        };
        let order = self.start_order_tau.map_or_else(String::new, |tau| format!(", order of starts τ = {tau:.3}"));
        let met = self
            .within_60_s_share
            .map_or_else(String::new, |share| format!(", {} of the starts within a minute", format::percent(share)));
        let missing = match self.never_started {
            0 => String::new(),
            jobs => format!(", {}", format::counted(jobs, "job never starts", "jobs never start")),
        };
        format!("{wait}{order}{met}{missing}")
    }
}

/// Kendall's τ-b of pairs: (concordant − discordant) / √((pairs not tied in x) · (pairs not tied in y)). `None` if all are tied
/// in one of the two. O(n log n).
pub fn kendall_tau_b(mut pairs: Vec<(i64, i64)>) -> Option<f64> {
    pairs.sort_unstable();
    let all = pairs_in(pairs.len());
    let tied = |runs: &mut dyn Iterator<Item = usize>| -> u128 { runs.map(pairs_in).sum() };
    let tied_x = tied(&mut pairs.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len));
    let tied_both = tied(&mut pairs.chunk_by(|a, b| a == b).map(<[_]>::len));
    let mut y: Vec<i64> = pairs.into_iter().map(|(_, y)| y).collect();
    let discordant = inversions(&mut y);
    let tied_y = tied(&mut y.chunk_by(|a, b| a == b).map(<[_]>::len));
    let (free_x, free_y) = (all - tied_x, all - tied_y);
    if free_x == 0 || free_y == 0 {
        return None;
    }
    // Pairs tied in neither are concordant or discordant.
    let untied = (all + tied_both) as i128 - (tied_x + tied_y) as i128;
    let score = untied - 2 * discordant as i128;
    Some((score as f64 / (free_x as f64).sqrt() / (free_y as f64).sqrt()).clamp(-1.0, 1.0))
}

fn pairs_in(n: usize) -> u128 {
    let n = n as u128;
    n * n.saturating_sub(1) / 2
}

/// Pairs in falling order; leaves the values sorted. Merge sort from the bottom up.
fn inversions(values: &mut Vec<i64>) -> u128 {
    let mut merged = Vec::with_capacity(values.len());
    let mut inversions = 0u128;
    let mut width = 1;
    while width < values.len() {
        merged.clear();
        for run in values.chunks(2 * width) {
            let (mut left, mut right) = run.split_at(width.min(run.len()));
            while let (Some((a, left_rest)), Some((b, right_rest))) = (left.split_first(), right.split_first()) {
                if a <= b {
                    merged.push(*a);
                    left = left_rest;
                } else {
                    inversions += left.len() as u128;
                    merged.push(*b);
                    right = right_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(values, &mut merged);
        width *= 2;
    }
    inversions
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tracecast_sim::cluster::Cluster;
    use tracecast_sim::workload::Shape;

    fn brute(pairs: &[(i64, i64)]) -> Option<f64> {
        let (mut score, mut free_x, mut free_y) = (0i64, 0i64, 0i64);
        for (at, a) in pairs.iter().enumerate() {
            for b in &pairs[at + 1..] {
                let (x, y) = ((a.0 - b.0).signum(), (a.1 - b.1).signum());
                score += x * y;
                free_x += x * x;
                free_y += y * y;
            }
        }
        (free_x > 0 && free_y > 0).then(|| score as f64 / ((free_x as f64) * (free_y as f64)).sqrt())
    }

    #[test]
    fn tau_by_hand() {
        // Six pairs, (2, 3) and (3, 2) cross: (5 − 1) / 6.
        assert!((kendall_tau_b(vec![(1, 1), (2, 3), (3, 2), (4, 4)]).unwrap() - 4.0 / 6.0).abs() < 1e-12);
        assert_eq!(kendall_tau_b(vec![(1, 2), (2, 1)]), Some(-1.0));
        assert_eq!(kendall_tau_b(vec![(1, 2), (1, 3)]), None);
        assert_eq!(kendall_tau_b(vec![]), None);
    }

    proptest! {
        #[test]
        fn tau_against_brute_force(pairs in prop::collection::vec((0i64..12, 0i64..12), 0..60)) {
            match (kendall_tau_b(pairs.clone()), brute(&pairs)) {
                (Some(fast), Some(slow)) => prop_assert!((fast - slow).abs() < 1e-9, "{fast} {slow}"),
                (fast, slow) => prop_assert_eq!(fast, slow),
            }
        }
    }

    /// 40 jobs of 10 s, one after another on one GPU, one submitted each second; the k-th starts at 10·k s.
    fn replay() -> (Workload, Schedule) {
        let mut jobs = Workload::default();
        for job in 0..40 {
            jobs.push(job * 1_000, 10_000, Shape::whole(1));
        }
        let schedule = tracecast_sim::simulate(&jobs, &Cluster::of_vcs(&[("all", 1, 1)]), &Policy::default()).unwrap();
        (jobs, schedule)
    }

    fn recorded(start_s: impl Fn(i64) -> Option<i64>) -> Fidelity {
        let (jobs, schedule) = replay();
        let starts: Vec<Option<i64>> = (0..40).map(|job| start_s(job).map(|start| start * 1_000)).collect();
        Fidelity::new(&jobs, &schedule, &starts).unwrap()
    }

    #[test]
    fn a_replay_that_repeats_the_record_is_good() {
        let same = recorded(|job| Some(10 * job));
        assert_eq!(same.verdict, Verdict::Exact);
        // The k-th waits 9 k s: 9 · 19.5.
        assert_eq!((same.recorded_mean_wait_s, same.replayed_mean_wait_s), (Some(175.5), Some(175.5)));
        assert_eq!((same.median_abs_error_s, same.start_order_tau), (Some(0.0), Some(1.0)));
        assert!(
            same.sentence().starts_with("The replay repeats what happened exactly: 40 jobs all start when recorded")
        );
        // One job a second later: no longer exact.
        let almost = recorded(|job| Some(10 * job + i64::from(job == 7)));
        assert_eq!((almost.verdict.clone(), almost.max_abs_error_s), (Verdict::Good, Some(1.0)));
        assert!(
            almost
                .sentence()
                .starts_with("The replay repeats what happened: mean wait 2 min 56 s against 2 min 56 s recorded")
        );
        // All 55 s later: within a minute of the mean, and every start within 60 s.
        let late = recorded(|job| Some(10 * job + 55));
        assert_eq!(
            (late.verdict.clone(), late.within_60_s_share, late.p90_abs_error_s),
            (Verdict::Good, Some(1.0), Some(55.0))
        );
    }

    #[test]
    fn mean_wait_and_order_both_count() {
        // 100 s earlier than recorded: the recorded mean is 275.5 s, off by 36 %.
        let rough = recorded(|job| Some(10 * job + 100));
        assert_eq!(rough.verdict, Verdict::Rough);
        assert!((rough.mean_wait_error().unwrap() + 100.0 / 275.5).abs() < 1e-12);
        // 300 s: 300 / 475.5 = 63 %.
        let far = recorded(|job| Some(10 * job + 300));
        assert_eq!(far.verdict, Verdict::FarOff);
        assert!(far.sentence().contains("do not build advice"));
        // The same starts dealt out in reverse: the mean is right, the order is not.
        let reversed = recorded(|job| Some(390 - 10 * job));
        assert_eq!((reversed.verdict, reversed.start_order_tau), (Verdict::FarOff, Some(-1.0)));
    }

    #[test]
    fn a_right_mean_with_the_waits_of_others_is_rough() {
        // Two jobs every 1,000 s on one GPU, of 200 s each: the first starts at once, the second waits for 200 s. In the record
        // it was the other way round, so the mean is right to the second, and of 1,891 pairs of starts 31 are in another order.
        let (jobs, schedule) = pairs_of_jobs();
        let starts = |of: &dyn Fn(usize) -> Option<i64>| (0..62).map(of).collect::<Vec<_>>();
        let swapped = starts(&|job| schedule.start_ms(job ^ 1));
        let others = Fidelity::new(&jobs, &schedule, &swapped).unwrap();
        assert_eq!((others.recorded_mean_wait_s, others.replayed_mean_wait_s), (Some(100.0), Some(100.0)));
        assert!((others.start_order_tau.unwrap() - (1.0 - 62.0 / 1_891.0)).abs() < 1e-12);
        assert_eq!((others.verdict.clone(), others.wait_order_tau), (Verdict::Rough, Some(-1.0)));
        assert!(
            others.sentence().contains("others wait than did (order of waits τ = -1.000)"),
            "{}",
            others.sentence()
        );
        // One second later for all is another matter: they wait who did.
        let late = starts(&|job| schedule.start_ms(job).map(|start| start + 1_000));
        assert_eq!(Fidelity::new(&jobs, &schedule, &late).unwrap().verdict, Verdict::Good);
    }

    #[test]
    fn what_holds_of_less_than_half_of_the_jobs_is_rough() {
        let (jobs, schedule) = pairs_of_jobs();
        let known = |last: usize| {
            let starts: Vec<Option<i64>> = (0..62).map(|job| schedule.start_ms(job).filter(|_| job < last)).collect();
            Fidelity::new(&jobs, &schedule, &starts).unwrap()
        };
        assert_eq!(known(31).verdict, Verdict::Exact);
        let few = known(30);
        assert_eq!((few.verdict.clone(), few.jobs, few.without_start), (Verdict::Rough, 30, 32));
        let sentence = few.sentence();
        assert!(sentence.ends_with("(30 jobs of 62, as the others have no recorded start)."), "{sentence}");
    }

    fn pairs_of_jobs() -> (Workload, Schedule) {
        let mut jobs = Workload::default();
        for job in 0..62 {
            jobs.push(job / 2 * 1_000_000, 200_000, Shape::whole(1));
        }
        let schedule = tracecast_sim::simulate(&jobs, &Cluster::of_vcs(&[("all", 1, 1)]), &Policy::default()).unwrap();
        (jobs, schedule)
    }

    #[test]
    fn little_or_nothing_to_compare() {
        assert!(matches!(recorded(|_| None).verdict, Verdict::Unknown { .. }));
        assert!(matches!(recorded(|job| (job < 29).then_some(job)).verdict, Verdict::Unknown { .. }));
        let (jobs, schedule) = replay();
        assert!(Fidelity::new(&jobs, &schedule, &[None]).is_err());
    }

    #[test]
    fn jobs_that_never_start_are_missed() {
        // 40 jobs that run and 3 too large ever to run, all recorded as started: 3 of 43 is more than 5 %.
        let mut jobs = Workload::default();
        for job in 0..43 {
            jobs.push(job * 20_000, 10_000, Shape::whole(if job < 40 { 1 } else { 2 }));
        }
        let schedule = tracecast_sim::simulate(&jobs, &Cluster::of_vcs(&[("all", 1, 1)]), &Policy::default()).unwrap();
        let starts: Vec<Option<i64>> = jobs.submit_ms.iter().map(|submit| Some(*submit)).collect();
        let fidelity = Fidelity::new(&jobs, &schedule, &starts).unwrap();
        assert_eq!((fidelity.jobs, fidelity.never_started, fidelity.verdict.clone()), (40, 3, Verdict::FarOff));
        assert!(fidelity.sentence().contains("3 jobs never start"));
    }
}
