//! Who may share with whom: the rule of a plan, and those it is held against.
//!
//! A policy is a table over kinds (which new job may go beside which running one, and which is preferred), as a scheduler is told of job types and not of single runs.
//!
//! | name | shares if | prefers |
//! |---|---|---|
//! | `exclusive` | never | |
//! | `first_fit` | always | the GPU of the lowest number |
//! | `least_loaded` | always | the running job that uses least, as its GPU is read |
//! | `gandiva` | always; after 5 min the new job is taken out if both together make no more than one alone | the GPU of the lowest number |
//! | `lucid` | the scores of both sum to at most 2, and they probably fit; a score is 0, 1 or 2 for a mean forecast speed beside others of at least 0.95, at least 0.85, and less | the lowest sum |
//! | `horus_published`, `horus` | always; the cost is 1.3 × memory + g / 100 + 1 | the lowest cost |
//! | `antman` | both fit; the first on the GPU keeps 0.95 of its speed, and the second has what is left | where known, the first with the least utilisation |
//! | `salus_fair`, `salus_attained` | both fit; in turns of equal length, or first who has run less | the GPU of the lowest number |
//! | `mean_forecast` | the expected speeds sum to more than 1 | the highest sum |
//! | `forecast` | expected progress above a threshold, the 0.9 quantile of the slowdown of the worse within the SLO, chance not to fit within its bound | expected progress |
//! | `forecast_trial` | the same; after 10 min the new job is taken out if a speed is below 1 / SLO or both make no more than one | expected progress |
//! | `oracle` | the measured speeds sum to more than 1, and the worse is within the SLO | measured progress |
//!
//! **Gandiva** (Xiao et al., OSDI 2018) packs when there are more jobs than GPUs, watches, and rolls back. What it learned of one job it does not carry to another of the same
//! type. **Lucid** (Hu et al., ASPLOS 2023) packs indolently; its conditions on durations and on arrivals are left out, its bound on memory is the chance not to fit, as devices differ,
//! and scores are of forecast speeds. **Horus** (Yeung et al., TPDS 2022): with x = utilisation of both − 100, g is 1.6 x above 0 and |x| below, and memory is
//! in MB as the authors' simulator has it, so that memory decides alone; corrected, memory is the share of the largest known job's double and g is 0 below 0, as
//! a GPU that is less full is no worse. Horus needs the utilisation of every job type; where one is unknown it has no say.
//!
//! **AntMan** (Xiao et al., OSDI 2020): who finds an empty GPU has it guaranteed, and who would wait runs opportunistically beside one that has, and inherits the GPU. A record does
//! not say which jobs are which, where AntMan's users do, and there are no quotas of tenants; a job that does not fit waits, where AntMan moves its memory to the host, at a
//! speed that nobody measured. **Salus** (Yu and Chowdhury, MLSys 2020): iterations of two jobs alternate. Both must fit whole, where Salus takes more than two jobs and shares what is
//! needed within an iteration alone; its SRTF needs to know what is left of a job, so who has run less is first in its place. How fast jobs are then is a [`Pace`].
//!
//! O(kinds²). Worked number: speeds of 0.97 beside others on average give a score of 0, of 0.80 one of 2: together 2, and Lucid packs them.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_predictors::interference::share::{SharingLimits, merit};
use tracecast_predictors::interference::table::Quantity;

use super::engine::{ALONE, Pace, SharingRule, Trial};
use super::evidence::{Forecasts, PairEvidence};
use crate::error::{Error, Result};

/// Gandiva's look at a new pair.
const GANDIVA: Trial = Trial { after_ms: 300_000, least_total: ALONE as u64, least_speed: 0 };
/// What AntMan keeps for who has a GPU guaranteed.
const ANTMAN: Pace = Pace::Guaranteed { least: ALONE / 100 * 95 };
/// When a forecast is held against what happens.
const TRIAL_MS: i64 = 600_000;
/// Lucid's scores.
const LUCID: [f64; 2] = [0.95, 0.85];
/// Largest sum of scores that Lucid packs.
const LUCID_SUM: i32 = 2;

/// A way to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharingPolicy {
    /// Nobody shares.
    Exclusive,
    /// The first GPU that has room.
    FirstFit,
    /// The GPU that is read to be used least.
    LeastLoaded,
    /// Packing with roll-back.
    Gandiva,
    /// Indolent packing.
    Lucid,
    /// Horus' cost as published.
    HorusPublished,
    /// Horus' cost, corrected.
    Horus,
    /// Guaranteed and opportunistic jobs.
    Antman,
    /// Time slicing, fair.
    SalusFair,
    /// Time slicing, who has run less first.
    SalusAttained,
    /// Packing by the mean forecast.
    MeanForecast,
    /// The rule of the plan.
    Forecast,
    /// The rule of the plan, with jobs taken out where the forecast is not kept.
    ForecastTrial,
    /// What knows the table.
    Oracle,
}

impl SharingPolicy {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Exclusive,
        Self::FirstFit,
        Self::LeastLoaded,
        Self::Gandiva,
        Self::Lucid,
        Self::HorusPublished,
        Self::Horus,
        Self::Antman,
        Self::SalusFair,
        Self::SalusAttained,
        Self::MeanForecast,
        Self::Forecast,
        Self::ForecastTrial,
        Self::Oracle,
    ];

    /// Names of all, in that order.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Name of the policy, as it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::FirstFit => "first-fit",
            Self::LeastLoaded => "least-loaded",
            Self::Gandiva => "gandiva",
            Self::Lucid => "lucid",
            Self::HorusPublished => "horus-published",
            Self::Horus => "horus",
            Self::Antman => "antman",
            Self::SalusFair => "salus-fair",
            Self::SalusAttained => "salus-attained",
            Self::MeanForecast => "mean-forecast",
            Self::Forecast => "forecast",
            Self::ForecastTrial => "forecast-trial",
            Self::Oracle => "oracle",
        }
    }

    /// Policies of a list of names, each once, in the order of the list; `all` means all of them.
    ///
    /// # Errors
    /// If a name is none.
    pub fn of_names(names: &[String]) -> Result<Vec<Self>> {
        let mut result: Vec<Self> = Vec::new();
        for name in names {
            let own: Vec<Self> =
                Self::ALL.into_iter().filter(|policy| name == "all" || name == policy.name()).collect();
            if own.is_empty() {
                return Err(Error::unknown("way to share GPUs", name.clone(), &Self::NAMES));
            }
            result.extend(own.into_iter().filter(|policy| !result.contains(policy)).collect::<Vec<_>>());
        }
        Ok(result)
    }

    /// Policies of `found` that no name in the list asks for: only `all` brought them in.
    pub fn only_of_all(names: &[String], result: &[Self]) -> Vec<Self> {
        result.iter().copied().filter(|policy| names.iter().all(|name| name != policy.name())).collect()
    }

    /// Whether it decides by forecasts of couples.
    pub fn needs_forecasts(self) -> bool {
        self.is_thresholded() || matches!(self, Self::Lucid | Self::MeanForecast)
    }

    /// Whether it goes by what is told of the types of new jobs.
    pub(super) fn goes_by_types(self) -> bool {
        self.needs_forecasts() || matches!(self, Self::HorusPublished | Self::Horus | Self::Antman)
    }

    /// Whether it has a threshold that is chosen on earlier jobs.
    pub fn is_thresholded(self) -> bool {
        matches!(self, Self::Forecast | Self::ForecastTrial)
    }

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Exclusive => "nobody shares",
            Self::FirstFit => "first fit",
            Self::LeastLoaded => "least loaded",
            Self::Gandiva => "Gandiva: pack, and roll back",
            Self::Lucid => "Lucid: indolent packing",
            Self::HorusPublished => "Horus, as published",
            Self::Horus => "Horus, corrected",
            Self::Antman => "AntMan: one guaranteed, one opportunistic",
            Self::SalusFair => "Salus: fair turns",
            Self::SalusAttained => "Salus: who has run less first",
            Self::MeanForecast => "mean forecast above 1",
            Self::Forecast => "forecast within the SLO",
            Self::ForecastTrial => "the same, and taken out where it is not kept",
            Self::Oracle => "oracle: knows the table",
        }
    }

    /// The rule over kinds; `None` where what it needs is not known.
    pub fn rule(self, evidence: &PairEvidence, forecasts: &Forecasts, limits: &SharingLimits) -> Option<SharingRule> {
        let kinds = evidence.kinds.len();
        let mut rule = SharingRule::exclusive(kinds);
        let preference = |progress: f64| (progress * 1e6).clamp(-2e9, 2e9) as i32;
        let both = |rule: &mut SharingRule, a: usize, b: usize, preference: i32| {
            rule.allow(a, b, preference);
            rule.allow(b, a, preference);
        };
        let known = |quantity: Quantity| -> Option<Vec<f64>> {
            evidence.profiles.iter().map(|profile| profile.get(quantity)).collect()
        };
        match self {
            Self::Exclusive => {}
            Self::FirstFit => evidence.couples().for_each(|(a, b)| both(&mut rule, a, b, 0)),
            Self::LeastLoaded => {
                let used = known(Quantity::SmUtilPct)?;
                for (a, b) in evidence.couples() {
                    rule.allow(a, b, preference(-*used.get(b)?));
                    rule.allow(b, a, preference(-*used.get(a)?));
                }
            }
            Self::Gandiva => {
                evidence.couples().for_each(|(a, b)| both(&mut rule, a, b, 0));
                rule.trial = Some(GANDIVA);
                rule.remembers = false;
            }
            Self::Lucid => {
                let score: Vec<i32> = (0..kinds).map(|kind| score(forecasts, kind, kinds)).collect();
                for (a, b) in evidence.couples() {
                    let sum = score.get(a)? + score.get(b)?;
                    let fits = forecasts.get(a, b)?.out_of_memory <= limits.most_out_of_memory;
                    if sum <= LUCID_SUM && fits {
                        both(&mut rule, a, b, -sum);
                    }
                }
            }
            Self::HorusPublished | Self::Horus => {
                let used = known(Quantity::SmUtilPct)?;
                let memory = known(Quantity::MemoryMb).unwrap_or_else(|| vec![0.0; kinds]);
                let whole = (2.0 * memory.iter().copied().fold(0.0, f64::max)).max(1.0);
                for (a, b) in evidence.couples() {
                    let over = used.get(a)? + used.get(b)? - 100.0;
                    let mb = memory.get(a)? + memory.get(b)?;
                    let cost = if self == Self::HorusPublished {
                        1.3 * mb + if over > 0.0 { 1.6 * over } else { -over } / 100.0 + 1.0
                    } else {
                        1.3 * mb / whole + 1.6 * over.max(0.0) / 100.0 + 1.0
                    };
                    // Thousandths: the cost in MB must stay within 32 bits.
                    both(&mut rule, a, b, (-cost * 1000.0).clamp(-2e9, 0.0) as i32);
                }
            }
            Self::Antman => {
                let used = known(Quantity::SmUtilPct).unwrap_or_else(|| vec![0.0; kinds]);
                for (a, b) in evidence.couples() {
                    rule.allow(a, b, preference(-*used.get(b)?));
                    rule.allow(b, a, preference(-*used.get(a)?));
                }
                (rule.pace, rule.asks_memory) = (ANTMAN, true);
            }
            Self::SalusFair | Self::SalusAttained => {
                evidence.couples().for_each(|(a, b)| both(&mut rule, a, b, 0));
                rule.pace = if self == Self::SalusFair { Pace::FairTurns } else { Pace::LeastAttained };
                rule.asks_memory = true;
            }
            Self::MeanForecast => {
                for (a, b) in evidence.couples() {
                    let told = forecasts.get(a, b)?;
                    let sum = told.a.mean + told.b.mean;
                    if sum > 1.0 {
                        both(&mut rule, a, b, preference(sum));
                    }
                }
            }
            Self::Forecast | Self::ForecastTrial => {
                for (a, b) in evidence.couples() {
                    let told = forecasts.get(a, b)?;
                    let (progress, slowdown90) = merit(told);
                    if limits.refusal(progress, slowdown90, told.out_of_memory).is_none() {
                        both(&mut rule, a, b, preference(progress));
                    }
                }
                if self == Self::ForecastTrial {
                    let least_speed = (f64::from(ALONE) / limits.slo) as u32;
                    rule.trial = Some(Trial { after_ms: TRIAL_MS, least_total: u64::from(ALONE), least_speed });
                }
            }
            Self::Oracle => {
                for (a, b) in evidence.couples() {
                    let Some((x, y)) = evidence.speeds(a, b) else { continue };
                    if x + y > limits.least_progress && 1.0 / x.min(y) <= limits.slo {
                        both(&mut rule, a, b, preference(x + y));
                    }
                }
            }
        }
        Some(rule)
    }
}

/// Lucid's score of a kind, by its mean forecast speed beside all others.
fn score(forecasts: &Forecasts, kind: usize, kinds: usize) -> i32 {
    let speeds: Vec<f64> = (0..kinds).filter_map(|other| forecasts.get(kind, other)).map(|told| told.a.mean).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len().max(1) as f64;
    LUCID.iter().filter(|bound| mean < **bound).count() as i32
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_predictors::interference::table::JobProfile;

    use super::*;
    use crate::one_gpu::TypedJobs;
    use crate::sharing::engine::{SharingTimes, replay};

    /// A heavy and a light job type: 0.6 and 0.5 as fast beside each other, 0.4 each of two heavy ones, and two light ones do not fit.
    fn evidence() -> PairEvidence {
        let profile =
            |used: f64| JobProfile::default().with(Quantity::SmUtilPct, used).with(Quantity::MemoryMb, 100.0 * used);
        PairEvidence::of_types(&[("heavy", profile(90.0)), ("light", profile(20.0))], |a, b| match (a, b) {
            (0, 0) => Some((0.4, 0.4)),
            (0, _) => Some((0.6, 0.5)),
            _ => None,
        })
    }

    fn rule(policy: SharingPolicy, evidence: &PairEvidence) -> Option<SharingRule> {
        policy.rule(evidence, &Forecasts::unknown(evidence.kinds.len()), &SharingLimits::default())
    }

    /// Heavy (0) and light (1) jobs, as (submission, run, kind) in seconds.
    fn ends_s(policy: SharingPolicy, of: &[(i64, i64, u16)], gpus: u32) -> Vec<f64> {
        let evidence = evidence();
        let jobs = TypedJobs {
            submit_ms: of.iter().map(|job| job.0 * 1000).collect(),
            run_ms: of.iter().map(|job| job.1 * 1000).collect(),
            kind: of.iter().map(|job| job.2).collect(),
        };
        let times = replay(&jobs, gpus, &evidence.truth, &rule(policy, &evidence).unwrap()).unwrap();
        times.iter().map(|SharingTimes { end_ms, .. }| *end_ms as f64 / 1e3).collect()
    }

    #[test]
    fn antman_puts_a_job_beside_the_least_used_and_lets_it_have_what_is_left() {
        // The third is beside the light one on the second GPU: that would be slowed to 0.5, so the third runs in a tenth of the time at 0.6. In 10 / 0.95 s it does 0.632 s; the rest it
        // does alone.
        let ends = ends_s(SharingPolicy::Antman, &[(0, 100, 0), (0, 10, 1), (0, 20, 0)], 2);
        assert_eq!(ends, [100.0, 10.527, 29.896]);
        // Two light ones do not fit: the second waits, and nobody fails.
        assert_eq!(ends_s(SharingPolicy::Antman, &[(0, 10, 1), (0, 10, 1)], 1), [10.0, 20.0]);
    }

    #[test]
    fn salus_lets_jobs_run_in_turns_whatever_was_measured() {
        // Two heavy ones at once would make 0.8 together; in turns they make one.
        let jobs = [(0, 60, 0), (30, 10, 0), (35, 20, 1)];
        // From 30 s half as fast, until the second is done at 50 s; the third takes its place, and the first needs 20 s more, 40 in turns.
        assert_eq!(ends_s(SharingPolicy::SalusFair, &jobs, 1), [90.0, 50.0, 90.0]);
        // The second has run less, and is done at 40 s. The third then has the GPU until it is done, at 60 s, as the first has run for 30 s.
        assert_eq!(ends_s(SharingPolicy::SalusAttained, &jobs, 1), [90.0, 40.0, 60.0]);
        // Without sharing the short ones wait for the long one.
        assert_eq!(ends_s(SharingPolicy::Exclusive, &jobs, 1), [60.0, 70.0, 90.0]);
    }

    #[test]
    fn policies_have_names_that_are_typed() {
        let of =
            |names: &[&str]| SharingPolicy::of_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&SharingPolicy::NAMES).unwrap(), SharingPolicy::ALL);
        assert_eq!(of(&["lucid", "all"]).unwrap()[..2], [SharingPolicy::Lucid, SharingPolicy::Exclusive]);
        assert_eq!((of(&["all", "horus"]).unwrap().len(), of(&[]).unwrap().len()), (14, 0));
        let told = of(&["lucid", "gandvia"]).unwrap_err().to_string();
        assert!(told.contains("`gandvia` is no way to share GPUs") && told.contains("gandiva, lucid"), "{told}");
        // Those that need forecasts are those that have no say without.
        let evidence = evidence();
        for policy in SharingPolicy::ALL {
            assert_eq!(policy.needs_forecasts(), rule(policy, &evidence).is_none(), "{policy:?}");
        }
    }

    #[test]
    fn no_rule_but_the_oracle_allows_by_measured_speeds() {
        let known = evidence();
        let mut other = known.clone();
        other.truth.set(0, 1, (0.1, 0.2));
        other.truth.set(0, 0, (1.0, 1.0));
        other.truth.set(1, 1, (1.0, 1.0));
        let mut told = 0;
        for policy in SharingPolicy::ALL {
            let (a, b) = (rule(policy, &known), rule(policy, &other));
            told += usize::from(a.is_some());
            assert_eq!(a == b, policy != SharingPolicy::Oracle, "{policy:?}");
        }
        // Those that need forecasts have no say here.
        assert_eq!(told, 10);
    }
}
