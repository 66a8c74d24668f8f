//! What a plan of queues is to make small, as terms with weights.
//!
//! ```text
//! mean         the mean wait                                                                       of today's, a minute added to both
//! median       the median wait                                                                     of today's, a minute added to both
//! tail         the 95 % wait                                                                       of today's, a minute added to both
//! fair         the mean wait of the VC that fares worst beside that on nodes of its own            of today's
//! predictable  how far the start is, on average, from what a job could be told when it came        of today's, a minute added to both
//! held         GPU time that jobs hold, with what is lost when they are stopped                    of today's
//! ```
//!
//! Each term is 1 today. A setup costs their mean by weight. With `classes` that is found for jobs of one GPU, of up to 8, and of more, and each class with at least 20 jobs
//! counts alike. A minute is added so that where today hardly waits seconds do not count as multiples. The fifth is the predictability of PCS (OSDI 2024), with a rehearsal (`told`)
//! as what is told; the fourth is the worst ρ of Themis (NSDI 2020), of waits in place of whole times. Nodes are the same under every setup, so that GPU time held is what their use and
//! their cost hang on.
//!
//! O(1) a cost. Worked number: a mean wait of 60 min that falls to 9.15 and a 95 % wait of 119 min that falls to 29 cost, as `mean,tail`, (10.15/61 + 30/120) / 2 = 0.21.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::replay::compare::{Difference, Merit};

/// Added to waits that are divided, seconds.
pub(super) const MINUTE_S: f64 = 60.0;
/// The greatest weight.
const MOST_WEIGHT: f64 = 1e6;

/// Waits of the jobs of a VC, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobWaits {
    /// Jobs.
    pub jobs: usize,
    /// Waits of the jobs.
    pub merit: Merit,
    /// Median of the wait, seconds.
    pub median_wait_s: f64,
}

impl JobWaits {
    /// Waits of no job.
    pub(super) const NONE: Self =
        Self { jobs: 0, merit: Merit { mean_wait_s: 0.0, p95_wait_s: 0.0 }, median_wait_s: 0.0 };
}

/// Measures of a replay of some jobs that an objective looks at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Waits of the jobs.
    pub waits: JobWaits,
    /// Largest (mean wait + 1 min) / (mean wait on private nodes + 1 min) over VCs with at least 20
    /// jobs; `None` if not asked for.
    pub worst_vc: Option<f64>,
    /// How far starts are from what jobs could be told, on average, seconds. `None` if not asked for, or if none of them was asked.
    pub told_error_s: Option<f64>,
    /// GPU time held, GPU-seconds.
    pub held_gpu_s: f64,
}

impl Measured {
    /// Measures of no job.
    pub(super) const NONE: Self = Self { waits: JobWaits::NONE, worst_vc: None, told_error_s: None, held_gpu_s: 0.0 };
}

/// Term of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Mean,
    Median,
    Tail,
    Fair,
    Predictable,
    Held,
}

impl Term {
    const ALL: [Self; 6] = [Self::Mean, Self::Median, Self::Tail, Self::Fair, Self::Predictable, Self::Held];

    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Tail => "tail",
            Self::Fair => "fair",
            Self::Predictable => "predictable",
            Self::Held => "held",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Mean => "the mean wait",
            Self::Median => "the median wait",
            Self::Tail => "the 95 % wait",
            Self::Fair => "the wait of the VC that fares worst",
            Self::Predictable => "how far starts are from what could be told",
            Self::Held => "the GPU time that is held",
        }
    }

    fn is_wait(self) -> bool {
        matches!(self, Self::Mean | Self::Median | Self::Tail)
    }

    /// Returns the measure as a share of today's.
    fn share(self, of: &Measured, today: &Measured) -> Option<f64> {
        let longer = |of: f64, base: f64| (of + MINUTE_S) / (base + MINUTE_S);
        Some(match self {
            Self::Mean => longer(of.waits.merit.mean_wait_s, today.waits.merit.mean_wait_s),
            Self::Median => longer(of.waits.median_wait_s, today.waits.median_wait_s),
            Self::Tail => longer(of.waits.merit.p95_wait_s, today.waits.merit.p95_wait_s),
            Self::Fair => of.worst_vc? / today.worst_vc?,
            Self::Predictable => longer(of.told_error_s?, today.told_error_s?),
            Self::Held => of.held_gpu_s / today.held_gpu_s,
        })
    }
}

/// Objective to minimise: terms with weights.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(into = "String")]
#[schemars(with = "String")]
pub struct Objective {
    terms: Vec<(Term, f64)>,
    by_class: bool,
}

impl Default for Objective {
    /// Mean and 95 % wait, alike.
    fn default() -> Self {
        Self { terms: vec![(Term::Mean, 1.0), (Term::Tail, 1.0)], by_class: false }
    }
}

impl Objective {
    /// Whether waits are found for each class of size.
    pub(super) fn is_by_class(&self) -> bool {
        self.by_class
    }

    fn has(&self, wanted: Term) -> bool {
        self.terms.iter().any(|(term, _)| *term == wanted)
    }

    /// Whether it takes to know what jobs could be told.
    pub(super) fn foretells(&self) -> bool {
        self.has(Term::Predictable)
    }

    /// Whether the wait of each VC is held against that on nodes of its own.
    pub(super) fn is_fair(&self) -> bool {
        self.has(Term::Fair)
    }

    /// Whether GPU time held counts.
    pub(super) fn is_of_time_held(&self) -> bool {
        self.has(Term::Held)
    }

    /// Whether the 95 % wait is all of a wait that counts.
    pub(super) fn is_of_the_tail(&self) -> bool {
        self.has(Term::Tail) && !self.has(Term::Mean) && !self.has(Term::Median)
    }

    /// Whether a wait that counts, the mean or the 95 % wait, is less by more than chance.
    pub(super) fn is_clearly_less(&self, change: &Difference) -> bool {
        let mean = self.is_of_waits() && !self.is_of_the_tail() && change.mean_wait_s.high < 0.0;
        mean || (self.has(Term::Tail) && change.p95_wait_s.high < 0.0)
    }

    /// Whether a wait of any kind counts.
    pub(super) fn is_of_waits(&self) -> bool {
        self.terms.iter().any(|(term, _)| term.is_wait())
    }

    /// Whether the median wait is all that counts.
    pub(super) fn is_of_the_median(&self) -> bool {
        self.terms.iter().all(|(term, _)| *term == Term::Median)
    }

    /// Description in words.
    pub fn in_words(&self) -> String {
        let alike = self.terms.iter().all(|(_, weight)| Some(weight) == self.terms.first().map(|(_, first)| first));
        let term = |(term, weight): &(Term, f64)| match alike {
            true => term.in_words().to_owned(),
            false => format!("{} (weight {weight})", term.in_words()),
        };
        let mut words: Vec<String> = self.terms.iter().map(term).collect();
        let last = words.pop().unwrap_or_default();
        let all = if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) };
        if self.by_class { format!("{all}, of each class of size alike") } else { all }
    }

    /// Cost of jobs as measured, where today's is 1. A term that cannot be told counts as today's.
    pub(super) fn cost(&self, of: &Measured, today: &Measured) -> f64 {
        let weight: f64 = self.terms.iter().map(|(_, weight)| weight).sum();
        let all = self
            .terms
            .iter()
            .map(|(term, weight)| weight * term.share(of, today).filter(|share| share.is_finite()).unwrap_or(1.0));
        all.sum::<f64>() / weight
    }
}

impl FromStr for Objective {
    type Err = Error;

    /// Reads `wait` (`mean,tail`), `classes` (the same by class of size), or terms separated by commas, each with a weight if one is not 1: `median=2,tail,fair`.
    fn from_str(text: &str) -> Result<Self> {
        let malformed =
            |result: &str, remedy: &str| Error::malformed("objective", result.to_owned(), remedy.to_owned());
        const NAMES: &str =
            "name terms separated by commas: wait, classes, mean, median, tail, fair, predictable, held";
        let (mut terms, mut by_class): (Vec<(Term, f64)>, bool) = (Vec::new(), false);
        for part in text.split(',').map(str::trim) {
            let (name, weight) = match part.split_once('=') {
                None => (part, 1.0),
                Some((name, weight)) => {
                    let number = weight.trim().parse().ok().filter(|of: &f64| *of > 0.0 && *of <= MOST_WEIGHT);
                    (name.trim(), number.ok_or_else(|| malformed(part, "a weight is a number above 0, as in tail=2"))?)
                }
            };
            let named: &[Term] = match name {
                "wait" => &[Term::Mean, Term::Tail],
                "classes" => {
                    by_class = true;
                    &[]
                }
                _ => {
                    let term = Term::ALL.iter().find(|term| term.name() == name);
                    std::slice::from_ref(term.ok_or_else(|| malformed(part, NAMES))?)
                }
            };
            if name == "classes" && weight != 1.0 {
                return Err(malformed(
                    part,
                    "classes has no weight: waits are found by class, and each class counts alike",
                ));
            }
            for term in named {
                if terms.iter().any(|(known, _)| known == term) {
                    return Err(malformed(text, "name each term once"));
                }
                terms.push((*term, weight));
            }
        }
        if by_class && !terms.iter().any(|(term, _)| term.is_wait()) {
            terms.extend([(Term::Mean, 1.0), (Term::Tail, 1.0)]);
        }
        Ok(Self { terms, by_class })
    }
}

impl Display for Objective {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.terms == Self::default().terms {
            return f.write_str(if self.by_class { "classes" } else { "wait" });
        }
        let term = |(term, weight): &(Term, f64)| match weight {
            1.0 => term.name().to_owned(),
            _ => format!("{}={weight}", term.name()),
        };
        let mut words: Vec<String> = self.by_class.then(|| "classes".to_owned()).into_iter().collect();
        words.extend(self.terms.iter().map(term));
        f.write_str(&words.join(","))
    }
}

impl From<Objective> for String {
    fn from(of: Objective) -> Self {
        of.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn measured(mean_min: f64, p95_min: f64, median_min: f64) -> Measured {
        Measured {
            waits: JobWaits {
                jobs: 1,
                merit: Merit { mean_wait_s: mean_min * 60.0, p95_wait_s: p95_min * 60.0 },
                median_wait_s: median_min * 60.0,
            },
            worst_vc: Some(p95_min),
            told_error_s: None,
            held_gpu_s: 100.0 + mean_min,
        }
    }

    #[test]
    fn the_worked_number() {
        let (of, today) = (measured(9.15, 29.0, 0.0), measured(60.0, 119.0, 9.0));
        let is = |objective: &str, cost: f64| {
            let objective: Objective = objective.parse().unwrap();
            assert!((objective.cost(&of, &today) - cost).abs() < 1e-3, "{objective}");
            assert!((objective.cost(&today, &today) - 1.0).abs() < 1e-12, "{objective}");
        };
        is("wait", 0.208);
        is("tail", 0.25);
        is("median", 0.1);
        // 29 of 119 beside 0.25, three times as heavy.
        is("fair=3,tail", (3.0 * 29.0 / 119.0 + 0.25) / 4.0);
        is("held", 109.15 / 160.0);
        // What cannot be told is as today.
        is("predictable,tail", 0.625);
    }

    #[test]
    fn what_is_written_is_read() {
        for (text, written) in [
            ("wait", "wait"),
            ("mean , tail", "wait"),
            ("classes", "classes"),
            ("median=2,tail,fair=0.5", "median=2,tail,fair=0.5"),
            ("classes,median", "classes,median"),
            ("predictable", "predictable"),
        ] {
            let read: Objective = text.parse().unwrap();
            assert_eq!(read.to_string(), written);
            assert_eq!(written.parse::<Objective>().unwrap(), read);
        }
        for text in
            ["", "waits", "tail=0", "tail=-1", "tail=x", "tail,tail", "wait,mean", "classes=2", "tail,", "held=nan"]
        {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
        assert_eq!(
            "tail=2,fair".parse::<Objective>().unwrap().in_words(),
            "the 95 % wait (weight 2) and the wait of the VC that fares worst (weight 1)"
        );
    }
}
