//! The way in which two jobs share a GPU, and which of several that were measured on one GPU is better for the jobs.
//!
//! ```text
//! named     a GPU type whose name ends in "(time slicing)" or "(MPS)", as `datasets/pairs/measure.py` writes it, is that GPU shared in that way
//! compared  GPU types that differ in nothing else; each has a plan of its own, on as many GPUs and on the same jobs, as far as the same job types were measured
//! chosen    the way with the least mean delay on the earlier jobs, with speeds as forecast; the measured speeds of couples that are decided on have no
//!           part in it. Only the plan of that way can be followed
//! later     both are held against the later jobs, each by its own choice on the earlier ones. Where the chosen one fails there and the other would have held, that is said;
//!           nothing is followed, as nobody could have known
//! ```
//!
//! Speeds on MIG instances are of a part of the GPU alone, so they are not compared with either.
//!
//! O(GPU types²). Worked example: time slicing makes the earlier jobs wait and run 20 min beyond their runs, MPS 12 min and nobody sharing 30: MPS is chosen, whatever
//! the later jobs say.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Section, format};

use super::evidence::PairEvidence;
use super::study::{HowSet, SharingStudy};
use crate::plan::slug::slug;
use crate::plan::tell;
use crate::replay::compare::IntervalEstimate;

/// How two jobs share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharingWay {
    /// In turns: `gres/shard` in Slurm, time-slicing in Kubernetes.
    TimeSlicing,
    /// At once, through NVIDIA's MPS.
    Mps,
}

impl SharingWay {
    /// Name in texts, and in the names of GPU types.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::TimeSlicing => "time slicing",
            Self::Mps => "MPS",
        }
    }

    /// The GPU and the way that the name of a GPU type tells; `None` where it tells no way.
    pub fn of(gpu_type: &str) -> Option<(&str, Self)> {
        let (gpu, told) = gpu_type.strip_suffix(')')?.rsplit_once('(')?;
        let way = [Self::TimeSlicing, Self::Mps].into_iter().find(|way| way.in_words() == told)?;
        Some((gpu.trim_end(), way))
    }
}

/// A way on the earlier and on the later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WayOutcome {
    /// GPU type, as its plan names it.
    pub gpu_type: String,
    /// How two jobs share it.
    pub way: SharingWay,
    /// Couples of job types that were measured; nobody else shares.
    pub measured_couples: usize,
    /// Mean delay of the earlier jobs under the best candidate, with speeds as forecast, seconds.
    pub earlier_mean_delay_s: f64,
    /// Whether any sharing was better than none there.
    pub shares: bool,
    /// Mean delay of the later jobs with the rule in one class, seconds; none where the rule is not among those tried.
    pub later_mean_delay_s: Option<f64>,
    /// Change of that against nobody sharing, seconds.
    pub mean_delay_change_s: Option<IntervalEstimate>,
    /// 0.9 quantile of the slowdown of the later jobs that shared; none where none did.
    pub later_slowdown90: Option<f64>,
    /// GPUs with which the 95 % wait of the later jobs is that of nobody sharing on all.
    pub gpus_instead: Option<u32>,
    /// Whether it was chosen on the earlier jobs.
    pub chosen: bool,
    /// Whether it holds on the later jobs: its plan could be followed, were it the way that was chosen.
    pub holds: bool,
    /// Why it does not; empty if it holds.
    pub why_not: String,
}

/// The ways of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WaysCompared {
    /// The GPU.
    pub gpu: String,
    /// GPUs of the replays.
    pub gpus: u32,
    /// Mean delay of the later jobs with nobody sharing, seconds.
    pub exclusive_mean_delay_s: f64,
    /// Each way.
    pub ways: Vec<WayOutcome>,
}

impl WaysCompared {
    /// The way that was chosen.
    pub fn chosen(&self) -> Option<&WayOutcome> {
        self.ways.iter().find(|way| way.chosen)
    }

    /// Outcome, in a sentence.
    pub fn finding(&self) -> String {
        let Some(chosen) = self.chosen() else {
            return format!("{}: no way to share it was chosen.", self.gpu);
        };
        let others_hold: Vec<&str> =
            self.ways.iter().filter(|way| !way.chosen && way.holds).map(|way| way.way.in_words()).collect();
        let held = match (chosen.holds, others_hold.as_slice()) {
            (true, _) => String::new(),
            (false, []) => format!(" **It does not hold on the later jobs**: {}. Nor does the other.", chosen.why_not),
            (false, others) => format!(
                " **It does not hold on the later jobs**: {}. By {} it would have held there. Nothing before them said so, so neither is followed.",
                chosen.why_not,
                others.join(" or ")
            ),
        };
        let told = |of: &WayOutcome| {
            let later = of.later_mean_delay_s.map_or_else(|| "unknown".to_owned(), format::duration);
            format!("{later} by {}", of.way.in_words())
        };
        let others: Vec<String> = self.ways.iter().filter(|way| !way.chosen).map(told).collect();
        let oracle = self.ways.iter().filter_map(|way| way.later_mean_delay_s).fold(f64::INFINITY, f64::min);
        let is_best = chosen.later_mean_delay_s.is_some_and(|delay| delay <= oracle);
        format!(
            "**{} shared by {}**, if at all: with speeds as forecast the earlier jobs end soonest so. The mean delay of the later jobs is {}, {}, and {} with nobody sharing.{}{held}",
            self.gpu,
            chosen.way.in_words(),
            told(chosen),
            others.join(", "),
            format::duration(self.exclusive_mean_delay_s),
            if is_best { "" } else { " With hindsight the other would have been better." }
        )
    }

    /// The ways as a section of the report.
    pub(super) fn section(&self) -> Section {
        let mut table = tell::table(
            format!("Ways to share {} {} GPUs, in one class", self.gpus, self.gpu),
            "Way | #Measured couples | #Mean delay, earlier, as forecast | #Mean delay, later | #Slowdown, 0.9 | #GPUs instead | Holds on the later jobs | Verdict",
        );
        for of in &self.ways {
            table.rows.push(vec![
                of.way.in_words().into(),
                Cell::Int(of.measured_couples as i64),
                Cell::Duration(of.earlier_mean_delay_s),
                Cell::opt(of.later_mean_delay_s, Cell::Duration),
                Cell::opt(of.later_slowdown90, |slowdown| Cell::float(slowdown, 2)),
                Cell::opt(of.gpus_instead, |gpus| Cell::Int(i64::from(gpus))),
                if of.holds { "yes".into() } else { format!("no: {}", of.why_not).into() },
                if of.chosen { "chosen" } else { "" }.into(),
            ]);
        }
        let id = slug(&self.gpu).unwrap_or_else(|| "gpu".to_owned());
        let mut section = Section::new(format!("sharing-ways-{id}"), format!("{}: by time slicing or MPS?", self.gpu))
            .with_table(table)
            .with_finding(self.finding())
            .with_definition("Each way is chosen for and tested on the later jobs as if it were the only one; which of them is followed goes by the earlier jobs alone.");
        let couples = |of: &WayOutcome| of.measured_couples;
        if self.ways.iter().map(couples).min() != self.ways.iter().map(couples).max() {
            section = section.with_definition(
                "Not as many couples were measured in each way, and a couple that was not measured does not share: the rows are of what is known, not of the ways alone.",
            );
        }
        section
    }
}

/// Compares GPU types that are one GPU shared in several ways: what was found on each, and its rule in one class on the later jobs.
///
/// The last of each says why its plan would not be followed if there were no other way; empty if it would.
pub(super) fn compared<'a>(
    result: impl Iterator<Item = (&'a PairEvidence, &'a SharingStudy, &'a str)>,
) -> Vec<WaysCompared> {
    let mut all: Vec<WaysCompared> = Vec::new();
    for (evidence, study, why_not) in result {
        let Some((gpu, way)) = SharingWay::of(&evidence.gpu_type) else { continue };
        let candidate = study.candidates.iter().find(|candidate| candidate.chosen);
        let planned = study.tried.iter().find(|tried| tried.how == HowSet::OneClass);
        let outcome = WayOutcome {
            gpu_type: evidence.gpu_type.clone(),
            way,
            measured_couples: evidence.couples().count(),
            earlier_mean_delay_s: candidate.map_or(f64::INFINITY, |candidate| candidate.earlier.mean_delay_s),
            shares: study.shares,
            later_mean_delay_s: planned.map(|tried| tried.later.mean_delay_s),
            mean_delay_change_s: planned.map(|tried| tried.mean_delay_change_s),
            later_slowdown90: planned.and_then(|tried| tried.later.slowdown90),
            gpus_instead: planned.and_then(|tried| tried.gpus_instead),
            chosen: false,
            holds: why_not.is_empty(),
            why_not: why_not.to_owned(),
        };
        match all.iter_mut().find(|known| known.gpu == gpu) {
            Some(known) => known.ways.push(outcome),
            None => all.push(WaysCompared {
                gpu: gpu.to_owned(),
                gpus: study.gpus,
                exclusive_mean_delay_s: study.tried.first().map_or(0.0, |tried| tried.later.mean_delay_s),
                ways: vec![outcome],
            }),
        }
    }
    all.retain(|of| of.ways.len() > 1);
    for of in &mut all {
        let sharing = of.ways.iter_mut().filter(|way| way.shares);
        if let Some(best) = sharing.min_by(|a, b| a.earlier_mean_delay_s.total_cmp(&b.earlier_mean_delay_s)) {
            best.chosen = true;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_way() {
        assert_eq!(SharingWay::of("NVIDIA H100 (MPS)"), Some(("NVIDIA H100", SharingWay::Mps)));
        assert_eq!(SharingWay::of("H100 (80 GB) (time slicing)"), Some(("H100 (80 GB)", SharingWay::TimeSlicing)));
        for none in ["v100", "A100 (MIG)", "A100 (80 GB)", "MPS", "(MPS", ""] {
            assert_eq!(SharingWay::of(none), None, "{none}");
        }
    }

    fn outcome(way: SharingWay, earlier: f64, later: f64, shares: bool) -> WayOutcome {
        WayOutcome {
            gpu_type: format!("h100 ({})", way.in_words()),
            way,
            measured_couples: 78,
            earlier_mean_delay_s: earlier,
            shares,
            later_mean_delay_s: Some(later),
            mean_delay_change_s: None,
            later_slowdown90: Some(1.4),
            gpus_instead: None,
            chosen: false,
            holds: true,
            why_not: String::new(),
        }
    }

    #[test]
    fn what_hindsight_says_is_told_and_changes_nothing() {
        let mut mps = outcome(SharingWay::Mps, 720.0, 1_300.0, true);
        mps.chosen = true;
        let ways = vec![outcome(SharingWay::TimeSlicing, 1_200.0, 1_200.0, true), mps];
        let of = WaysCompared { gpu: "h100".to_owned(), gpus: 8, exclusive_mean_delay_s: 1_800.0, ways };
        let told = of.finding();
        assert!(told.starts_with("**h100 shared by MPS**"), "{told}");
        assert!(told.contains("21 min 40 s by MPS, 20 min by time slicing, and 30 min with nobody sharing"), "{told}");
        assert!(told.ends_with("With hindsight the other would have been better."), "{told}");
        // The chosen one fails on the later jobs, and the other would have held there, or not.
        let mut failed = of.clone();
        failed.ways[1].holds = false;
        failed.ways[1].why_not = "those that shared were too slow".to_owned();
        let told = failed.finding();
        let words = "**It does not hold on the later jobs**: those that shared were too slow. By time slicing it would have held there.";
        assert!(told.contains(words) && told.ends_with("so neither is followed."), "{told}");
        failed.ways[0].holds = false;
        assert!(failed.finding().ends_with("Nor does the other."), "{}", failed.finding());
    }
}
