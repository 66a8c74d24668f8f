//! Settings that are as good as the reactive rule, also when more requests come, and which of them is taken.
//!
//! O(settings) replays with more requests. Worked example: the reactive rule costs 10 and is late with 8, the cheapest that is as good costs 8 and is late with 8, another costs 9 and
//! is late with 3. Up to 9 may be paid, so the other is taken.

use rayon::prelude::*;

use super::{ChoosingIn, ChosenSetting, ScalingSetting, ServedStandard, ServingCase, ServingScore, TriedSettings};

/// Settings of a rule that are tried with more requests.
const FINALISTS: usize = 240;

/// A setting replayed on the requests as they were, on a fifth more and on half as many again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finalist {
    /// The setting.
    pub setting: ScalingSetting,
    /// Score on the requests as they were.
    pub score: ServingScore,
    /// Late of all three.
    pub late: u64,
    /// Cost of all three.
    pub cost: f64,
}

impl ServingCase<'_> {
    /// A setting also replayed on more requests; none where it does not keep the target on a fifth more with its reserve.
    pub(super) fn with_more(
        &self,
        setting: ScalingSetting,
        score: &ServingScore,
        within: &ChoosingIn<'_>,
    ) -> Option<Finalist> {
        let of = |case: &ServingCase<'_>| case.scored(setting.0, setting.1, within.load, within.initial, within.window);
        let more = of(within.grown);
        if !self.keeps(&more, self.target.with_reserve()) {
            return None;
        }
        let far_more = of(within.far_grown);
        Some(Finalist {
            setting,
            score: *score,
            late: score.late() + more.late() + far_more.late(),
            cost: score.cost + more.cost + far_more.cost,
        })
    }

    /// Settings that keep the target with its reserve and are late with no more requests than the reactive rule, of the requests as they were and also when more come.
    /// Of those that cost no more than that rule does on average, so many are tried, evenly by their rank in cost.
    pub fn finalists(&self, tried: &TriedSettings, within: &ChoosingIn<'_>, bar: &Finalist) -> Vec<Finalist> {
        let strict = self.target.with_reserve();
        let good = |score: &ServingScore| {
            score.cost <= bar.cost / 3.0 && score.late() <= bar.score.late() && self.keeps(score, strict)
        };
        let pairs = tried.settings.iter().zip(&tried.scores);
        let mut keeping: Vec<(&ScalingSetting, &ServingScore)> = pairs.filter(|(_, score)| good(score)).collect();
        keeping.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost).then(a.late().cmp(&b.late())));
        let count = keeping.len().min(FINALISTS);
        let spread: Vec<_> = (0..count).filter_map(|at| keeping.get(at * keeping.len() / count)).collect();
        let more: Vec<Option<Finalist>> =
            spread.par_iter().map(|(setting, score)| self.with_more(**setting, score, within)).collect();
        more.into_iter().flatten().filter(|one| one.late <= bar.late && one.cost < bar.cost).collect()
    }
}

impl ChoosingIn<'_> {
    /// What others must serve as well, where a reactive setting kept the target with its reserve.
    pub fn bar(&self, case: &ServingCase<'_>, reactive: &ChosenSetting) -> Option<Finalist> {
        let request = reactive.kept && case.standard == ServedStandard::Reactive;
        if request { case.with_more((reactive.rule, reactive.hedge), &reactive.score, self) } else { None }
    }
}

impl Finalist {
    /// Returns this finalist as the chosen setting, of so many that were tried.
    pub fn chosen(&self, tried: usize) -> ChosenSetting {
        let (rule, hedge) = self.setting;
        ChosenSetting { rule, hedge, score: self.score, kept: true, as_good: true, late: Some(self.late), tried }
    }
}

/// Most that may be paid where half of what the cheapest saves of the bar is spent on safety; none where there is none.
///
/// Worked example: the reactive rule costs 10 and the cheapest that is as good 8: up to 9.
pub fn most_for_safety<'f>(finalists: impl Iterator<Item = &'f Finalist>, bar: &Finalist) -> Option<f64> {
    let least = finalists.map(|one| one.cost).min_by(f64::total_cmp)?;
    Some(f64::midpoint(least, bar.cost))
}

/// The one with the fewest late of those that cost no more than `most`, of equals the cheaper.
pub fn safest(finalists: &[Finalist], most: f64) -> Option<&Finalist> {
    let within = finalists.iter().filter(|one| one.cost <= most);
    within.min_by(|a, b| a.late.cmp(&b.late).then(a.cost.total_cmp(&b.cost)))
}
