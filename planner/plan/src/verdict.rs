//! The verdict on a plan: one judgement of every trial.
//!
//! A plan is advised only if, on the later windows, it kept its limits, came to less than the simplest rule, saved at least 5 % of the baseline, and the interval
//! of that excludes none. Of candidates whose results do not differ by more than chance the simplest is to be recommended: [`is_simpler_next`] says where a plan has to
//! be made again with that one.
//!
//! O(1). Worked example: a plan that came to 900, where the simplest rule came to 880: the simpler rule is as good.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use crate::trial::Trial;
use crate::{Assurance, Confidence, WORTH, worth};

/// Whether a plan is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Advised.
    Advised,
    /// No: on the later windows it saved less than a change is worth, or chance alone may have saved it.
    NoSaving,
    /// No: there is only one later day.
    TooShort,
    /// No: what it was tested on is not what runs here.
    Untested,
    /// No: nothing that was tried keeps the limits where rules are chosen.
    NothingKeeps,
    /// No: on the later windows it did not keep its limits.
    LimitMissed,
    /// No: on the later windows a simpler rule that kept the limits came to no more.
    SimplerAsGood,
    /// No: the baseline came to nothing, or below, so there is no share to save.
    NothingToSave,
    /// No: nothing that was tried is better than the baseline.
    NothingBetter,
    /// Not by amounts: the plan does work that the baseline leaves undone.
    NotComparable,
    /// No: how many nodes there are today is not recorded.
    SizesUnknown,
}

/// Facts about a plan beyond its trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Whether the plan to come differs from the baseline.
    pub changes: bool,
    /// Whether the plan is the simplest rule.
    pub is_simplest: bool,
    /// Whether plan and baseline do the same work.
    pub is_comparable: bool,
    /// Fewest blocks that are evidence.
    pub fewest_blocks: usize,
}

/// Judges a plan by its trial.
pub fn judge<I, R, W>(trial: &Trial<I, R, W>, judged: &Judged) -> Verdict {
    let of = &trial.of;
    if !judged.changes {
        Verdict::NothingBetter
    } else if judged.is_comparable && of.baseline.amount <= 0.0 {
        Verdict::NothingToSave
    } else if trial.blocks < judged.fewest_blocks {
        Verdict::TooShort
    } else if !of.plan.kept {
        Verdict::LimitMissed
    } else if !judged.is_comparable {
        Verdict::NotComparable
    } else if !judged.is_simplest && of.simplest.kept && of.plan.amount >= of.simplest.amount {
        Verdict::SimplerAsGood
    } else if worth(trial.saving.value, trial.saving.low, 1.0) {
        Verdict::Advised
    } else {
        Verdict::NoSaving
    }
}

/// Whether the plan is to be made again with the simplest rule, and recommended so if that is advised: what it adds to that rule may be chance, or it missed its limits.
pub fn is_simpler_next<I, R, W>(trial: &Trial<I, R, W>, judged: &Judged, verdict: Verdict) -> bool {
    let may_be_chance = !judged.is_simplest && trial.of.simplest.kept && trial.beyond_simplest.low <= 0.0;
    match verdict {
        Verdict::LimitMissed => true,
        Verdict::Advised | Verdict::SimplerAsGood | Verdict::NoSaving => may_be_chance,
        Verdict::TooShort
        | Verdict::Untested
        | Verdict::NothingKeeps
        | Verdict::NothingToSave
        | Verdict::NothingBetter
        | Verdict::NotComparable
        | Verdict::SizesUnknown => false,
    }
}

/// Confidence in an advised plan: high if the later windows are long, each later window was worth
/// it and the plan has nothing against it (`is_sure`), low if the plan `is_untested`.
pub fn confidence<I, R, W>(trial: &Trial<I, R, W>, is_sure: bool, is_untested: bool) -> Confidence {
    match (is_sure && trial.is_long && trial.worst_saving >= WORTH, is_untested) {
        (true, _) => Confidence::High,
        (false, true) => Confidence::Low,
        (false, false) => Confidence::Medium,
    }
}

/// Returns the saving of the plan, or its extra cost, and why that is no reason to change, in
/// words; `against` is the baseline in words.
pub fn unsaved_in_words<I, R, W>(trial: &Trial<I, R, W>, plan: &str, against: &str) -> String {
    let saving = trial.saving;
    if saving.value < 0.0 {
        return format!(
            "on the later windows the {plan} came to {} more than {against}",
            format::percent(-saving.value)
        );
    }
    let why = match saving.low <= 0.0 {
        true => "which may be chance".to_owned(),
        false => format!("less than the {} that a change is worth", format::percent(WORTH)),
    };
    format!(
        "on the later windows the {plan} saved {} of {against} ({}), {why}",
        format::percent(saving.value),
        saving_interval(trial)
    )
}

/// The interval of the saving, in words.
pub fn saving_interval<I, R, W>(trial: &Trial<I, R, W>) -> String {
    format!("{} to {}", format::percent(trial.saving.low), format::percent(trial.saving.high))
}

/// Why a test is no evidence where it has one block: a day, as a single week counts as its days.
pub const TOO_SHORT: &str = "the plan was tested on one day after the split, which is no evidence of others; choose an earlier --eval-from, or bring a longer record";

/// Returns the confidence, by a trial, that nothing should change; `None` where something is
/// advised or has to be decided first.
pub fn unchanged<I, R, W>(trial: &Trial<I, R, W>, verdict: Verdict) -> Option<Assurance> {
    let drawn = if trial.is_long { Confidence::High } else { Confidence::Medium };
    Some(match verdict {
        Verdict::SimplerAsGood if trial.beyond_simplest.high > 0.0 => stays(
            Confidence::Low,
            "the interval of what the plan adds to the simplest rule reaches a gain, so a longer record may say otherwise",
        ),
        Verdict::SimplerAsGood => stays(drawn, "the interval of what the plan adds to the simplest rule holds no gain"),
        Verdict::NoSaving => unsaved(trial.saving.high, drawn),
        other => return uncounted(other),
    })
}

/// Returns the confidence that nothing should change where a saving is too small: `drawn` if even
/// the upper end of its interval, a share, would not be worth it.
pub fn unsaved(high: f64, drawn: Confidence) -> Assurance {
    if high >= WORTH {
        let why = "the interval of the saving reaches one that would be worth it, so a longer record may say otherwise";
        return stays(Confidence::Low, why);
    }
    stays(drawn, "the interval of the saving holds none that would be worth it")
}

/// Returns the confidence, by the verdict alone, that nothing should change; `None` where something
/// is advised or has to be decided first.
pub fn uncounted(verdict: Verdict) -> Option<Assurance> {
    let (confidence, why) = match verdict {
        Verdict::Advised | Verdict::NotComparable => return None,
        Verdict::NothingBetter => {
            (Confidence::Medium, "nothing that was tried is better, and load and prices may change")
        }
        Verdict::NothingKeeps => (Confidence::Medium, "of what was tried, nothing keeps the limits"),
        Verdict::NoSaving | Verdict::SimplerAsGood => (Confidence::Medium, "what was saved has no interval"),
        Verdict::LimitMissed | Verdict::NothingToSave => {
            (Confidence::Medium, "it rests on the windows after the split alone")
        }
        Verdict::SizesUnknown => (Confidence::Low, "how many nodes there are today is not recorded"),
        Verdict::TooShort => (Confidence::Low, "one day is no evidence of others"),
        Verdict::Untested => (Confidence::Low, "what it was tested on is not what runs here"),
    };
    Some(stays(confidence, why))
}

/// Builds the assurance that nothing should change, and what lowers it.
fn stays(confidence: Confidence, why: &str) -> Assurance {
    let risk = format!("Nothing should change, as far as was tested: {why}.");
    Assurance { confidence, lowered_by: Vec::new(), risk }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::trial;

    const JUDGED: Judged = Judged { changes: true, is_simplest: false, is_comparable: true, fewest_blocks: 2 };

    #[test]
    fn each_reason_has_its_verdict() {
        let good = trial([[100.0, 100.0], [90.0, 90.0], [60.0, 80.0], [50.0, 80.0]]);
        assert_eq!(judge(&good, &JUDGED), Verdict::Advised);
        assert!(!is_simpler_next(&good, &JUDGED, Verdict::Advised) && unchanged(&good, Verdict::Advised).is_none());
        assert_eq!(confidence(&good, true, false), Confidence::Medium);
        assert_eq!(judge(&good, &Judged { changes: false, ..JUDGED }), Verdict::NothingBetter);
        assert_eq!(judge(&good, &Judged { fewest_blocks: 3, ..JUDGED }), Verdict::TooShort);
        assert_eq!(judge(&good, &Judged { is_comparable: false, ..JUDGED }), Verdict::NotComparable);
        let mut missed = good.clone();
        missed.of.plan.kept = false;
        assert_eq!(judge(&missed, &JUDGED), Verdict::LimitMissed);
        assert!(is_simpler_next(&missed, &JUDGED, Verdict::LimitMissed));
        let lost = trial([[100.0, 100.0], [60.0, 60.0], [60.0, 80.0], [50.0, 50.0]]);
        assert_eq!(judge(&lost, &JUDGED), Verdict::SimplerAsGood);
        assert_eq!(judge(&lost, &Judged { is_simplest: true, ..JUDGED }), Verdict::Advised);
        // What it adds may be chance: it is advised, but the simplest rule comes first.
        let chance = trial([[100.0, 100.0], [70.0, 75.0], [60.0, 80.0], [50.0, 50.0]]);
        assert_eq!(judge(&chance, &JUDGED), Verdict::Advised);
        assert!(is_simpler_next(&chance, &JUDGED, Verdict::Advised));
        let little = trial([[100.0, 100.0], [99.0, 99.0], [98.0, 98.0], [50.0, 50.0]]);
        assert_eq!(judge(&little, &JUDGED), Verdict::NoSaving);
        assert!(
            unsaved_in_words(&little, "plan", "the baseline").ends_with("less than the 5.0 % that a change is worth")
        );
        assert_eq!(unchanged(&little, Verdict::NoSaving).map(|sure| sure.confidence), Some(Confidence::Medium));
        let none = trial([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]);
        assert_eq!(judge(&none, &JUDGED), Verdict::NothingToSave);
        // Where the baseline does nothing it costs nothing, and leaves all work undone.
        assert_eq!(judge(&none, &Judged { is_comparable: false, ..JUDGED }), Verdict::NotComparable);
    }
}
