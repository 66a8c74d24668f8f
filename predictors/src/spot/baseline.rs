//! Baselines for models of spot: forecasts that need no model.
//!
//! * **Persistence**: what is, stays. It says 1 or 0, so it has no log loss.
//! * **Shares**: persistence with a chance: the share of the moments of the past, with enough spot or without, that were followed by enough spot that much later.
//! * **Climatology**: the share of the time that had enough spot. Through all ticks until then: the share of all such stretches of the past.
//! * **Markov**: enough spot is lost, and got, with a constant chance a tick.
//!
//! Shares count one case of each kind beside those seen, so that none is 0 or 1. O(ticks × horizons) a fit. Worked example: of 8 moments with enough spot, 5 had enough an hour later: the
//! share is 6/10.

use super::model::SpotModel;
use super::process::Outlook;

/// Baselines of a zone, fitted on what was seen until a moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Baselines {
    /// Share of the time with enough spot.
    up: f64,
    /// Chances a tick to get enough spot and to lose it.
    comes: f64,
    goes: f64,
    /// Shares for each horizon: of having enough at its end, after without and after enough; and of
    /// having had enough through it, after enough, and of all.
    horizons: Vec<Shares>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Shares {
    ticks: usize,
    at: [f64; 2],
    through: f64,
    through_of_all: f64,
}

/// The share of `part` of `whole`, with one more of each kind.
fn share(part: usize, whole: usize) -> f64 {
    (part as f64 + 1.0) / (whole as f64 + 2.0)
}

impl Baselines {
    /// Fits the baselines to whether there was enough, tick by tick, for horizons in ticks.
    pub(super) fn fit(seen: &[Option<bool>], horizons: &[usize]) -> Self {
        let known = seen.iter().flatten().count();
        let up = seen.iter().flatten().filter(|up| **up).count();
        let (mut from, mut moves) = ([0; 2], [0; 2]);
        for pair in seen.windows(2) {
            let &[Some(was), Some(is)] = pair else { continue };
            from[usize::from(was)] += 1;
            moves[usize::from(was)] += usize::from(was != is);
        }
        // How many ticks from each on have enough, this one included; and how many until one that was not read.
        let mut lasts = vec![0usize; seen.len()];
        let mut reads = vec![0usize; seen.len() + 1];
        for (tick, up) in seen.iter().enumerate().rev() {
            reads[tick] = if up.is_some() { reads[tick + 1] + 1 } else { 0 };
            if *up == Some(true) {
                lasts[tick] = lasts.get(tick + 1).copied().unwrap_or(0) + 1;
            }
        }
        let of = |ticks: usize| {
            let (mut cases, mut enough) = ([0; 2], [0; 2]);
            let (mut stretches, mut all, mut through) = (0, 0, 0);
            for (tick, was) in seen.iter().enumerate() {
                let Some(was) = *was else { continue };
                if let Some(Some(is)) = seen.get(tick + ticks) {
                    cases[usize::from(was)] += 1;
                    enough[usize::from(was)] += usize::from(*is);
                }
                // Known through: until its end, or until it is lost.
                let lost = reads[tick] > lasts[tick] && lasts[tick] <= ticks;
                if reads[tick] > ticks || lost {
                    stretches += usize::from(was);
                    all += 1;
                    through += usize::from(lasts[tick] > ticks);
                }
            }
            Shares {
                ticks,
                at: [share(enough[0], cases[0]), share(enough[1], cases[1])],
                through: share(through, stretches),
                through_of_all: share(through, all),
            }
        };
        Self {
            up: share(up, known),
            comes: share(moves[0], from[0]),
            goes: share(moves[1], from[1]),
            horizons: horizons.iter().map(|ticks| of(*ticks)).collect(),
        }
    }

    /// Forecast of a baseline at each horizon, where there is enough spot now or not; a model that
    /// is no baseline gets persistence's.
    pub(super) fn forecast(&self, model: SpotModel, up: bool) -> Vec<Outlook> {
        match model {
            SpotModel::Shares => self.shares(up),
            SpotModel::Climatology => self.climatology(),
            SpotModel::Markov => self.markov(up),
            _ => self.persistence(up),
        }
    }

    /// Persistence, horizon by horizon.
    fn persistence(&self, up: bool) -> Vec<Outlook> {
        let chance = f64::from(u8::from(up));
        self.horizons.iter().map(|_| Outlook { at: chance, through: chance }).collect()
    }

    /// Persistence with the shares of the past.
    fn shares(&self, up: bool) -> Vec<Outlook> {
        let of = |shares: &Shares| Outlook {
            at: shares.at[usize::from(up)],
            through: if up { shares.through } else { 0.0 },
        };
        self.horizons.iter().map(of).collect()
    }

    /// The shares of all time.
    fn climatology(&self) -> Vec<Outlook> {
        self.horizons.iter().map(|shares| Outlook { at: self.up, through: shares.through_of_all }).collect()
    }

    /// The chain of two states.
    fn markov(&self, up: bool) -> Vec<Outlook> {
        let long_run = self.comes / (self.comes + self.goes);
        let of = |shares: &Shares| {
            let ticks = shares.ticks as f64;
            let left = (f64::from(u8::from(up)) - long_run) * (1.0 - self.comes - self.goes).abs().powf(ticks);
            Outlook { at: long_run + left, through: if up { (1.0 - self.goes).powf(ticks) } else { 0.0 } }
        };
        self.horizons.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Up for four ticks, down for two, up for two.
        let seen: Vec<Option<bool>> = [1, 1, 1, 1, 0, 0, 1, 1].iter().map(|up| Some(*up == 1)).collect();
        let result = Baselines::fit(&seen, &[2]);
        assert!((result.up - 7.0 / 10.0).abs() < 1e-12);
        // Of five moves from up one goes down; of two from down one comes up.
        assert!((result.goes - 2.0 / 7.0).abs() < 1e-12 && (result.comes - 2.0 / 4.0).abs() < 1e-12);
        // Two ticks after up: up, up, down, down: 3/6. After down: up and up: 3/4.
        let (up, down) = (result.shares(true)[0], result.shares(false)[0]);
        assert!((up.at - 3.0 / 6.0).abs() < 1e-12 && (down.at - 3.0 / 4.0).abs() < 1e-12);
        // Through two ticks: of the four first, two; the last two are not known. Of all six that are known, two.
        assert!((up.through - 3.0 / 6.0).abs() < 1e-12 && down.through == 0.0);
        assert!((result.climatology()[0].through - 3.0 / 8.0).abs() < 1e-12);
        let markov = result.markov(true)[0];
        let (long_run, stays) = (0.5 / (0.5 + 2.0 / 7.0), 1.0 - 0.5 - 2.0 / 7.0);
        assert!((markov.at - (long_run + (1.0 - long_run) * stays * stays)).abs() < 1e-12);
        assert!((markov.through - (5.0f64 / 7.0).powi(2)).abs() < 1e-12);
        assert_eq!(result.persistence(true), [Outlook { at: 1.0, through: 1.0 }]);
    }

    #[test]
    fn what_was_not_read_is_no_case() {
        let seen = [Some(true), None, Some(true), Some(false)];
        let result = Baselines::fit(&seen, &[1]);
        // One move, from up to down; one stretch known, which is lost.
        assert!((result.goes - 2.0 / 3.0).abs() < 1e-12 && (result.shares(true)[0].through - 1.0 / 3.0).abs() < 1e-12);
    }
}
