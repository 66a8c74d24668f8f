//! A model of spot in one file: the process of each zone, where it stood at the end of its record, and what the record says of it.
//!
//! Which [model](super::backtest::SpotModel) is used is [chosen](super::backtest::choose) on forecasts within the records; then each zone is fitted on all of its own. Where a simple
//! rule is chosen, the file holds what was seen at each tick, from which the rule says the chances of any horizon. A record that is too short to choose on gets the simplest model, by age.
//!
//! It is asked from where the records ended, or from the end of newer ones. A newer record is known by the name of its zone. The hours of the week count only if both records tell when
//! they begin, as nobody knows else which hour it is.
//!
//! **Zones that move together** are told by the correlation of having enough, tick by tick: with a, b the shares of the time of two zones and c of both, it is
//! (c − ab)/√(a(1−a)b(1−b)).
//!
//! **File**: one line of JSON (format, version, what it was trained on, sections), then the zones as JSON. Version 1 had no simple rules and is read; an earlier program refuses a later file.
//!
//! Worked number: two zones up half of the time each and 40 % of the time both: a correlation of (0.4 − 0.25)/0.25 = 0.6.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::time::format_rfc3339;

use super::backtest::{SpotModel, SpotTestOptions, choose};
use super::baseline::Baselines;
use super::factor::HOURS;
use super::lifetime::SpotLifetime;
use super::process::{Circumstances, Outlook, SpotProcess};
use super::record::{SpotLevel, SpotRecord, usable};
use super::track::{Standing, hour_and_day, track};
use crate::error::{Error, Result};
use crate::model_file::Format;

/// The file.
const FORMAT: Format = Format {
    name: "tracecast-spot-model",
    version: 2,
    oldest: 1,
    longest: 1 << 28,
    of: "spot",
    command: "tracecast model train spot",
};
/// Horizons on which a model is chosen, hours.
pub const HOURS_AHEAD: [f64; 5] = [1.0, 3.0, 6.0, 12.0, 24.0];
/// Most ticks ahead that are followed.
const MOST_AHEAD: usize = 200_000;
/// Days between two fits where a model is chosen or tested.
pub const REFIT_DAYS: i64 = 1;

/// Record that a model of spot was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotTrained {
    /// Instances needed at once.
    pub need: u32,
    /// Whether the zones are of one time, so that each knows of the others.
    pub together: bool,
    /// The model in use.
    pub model: SpotModel,
}

/// Shares of the time with enough spot; none of an hour or a day that was never seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotWeek {
    /// Whether the record tells when it begins. Else hours and days count from its first tick.
    pub dated: bool,
    /// Hour of the day by hour of the day, UTC.
    pub hours: Vec<Option<f64>>,
    /// Day of the week by day of the week: from Monday on, or from the first day of the record.
    pub days: Vec<Option<f64>>,
}

/// Fitted state of a zone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SpotZone {
    pub(super) name: String,
    pub(super) tick_ms: i64,
    pub(super) ticks: usize,
    pub(super) up_share: f64,
    pub(super) with: Option<SpotLifetime>,
    pub(super) without: Option<SpotLifetime>,
    pub(super) week: SpotWeek,
    pub(super) process: SpotProcess,
    /// The simple rule in use, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    simple: Option<SimpleRule>,
    pub(super) now: Option<Standing>,
}

/// A simple rule, with what it looks at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SimpleRule {
    model: SpotModel,
    /// Tick by tick `1` with enough spot, `0` without, `-` where it was not read.
    seen: String,
}

impl SimpleRule {
    fn new(model: SpotModel, track: &[Option<Standing>]) -> Self {
        let tick =
            |now: &Option<Standing>| now.map_or('-', |now| if now.level == SpotLevel::Enough { '1' } else { '0' });
        Self { model, seen: track.iter().map(tick).collect() }
    }

    fn is_sound(&self) -> bool {
        self.model.circumstances().is_none() && self.seen.bytes().all(|tick| b"10-".contains(&tick))
    }

    /// The chances of so many ticks ahead, where there is enough spot now or not.
    fn forecast(&self, up: bool, ahead: &[usize]) -> Vec<Outlook> {
        let seen: Vec<Option<bool>> = self.seen.bytes().map(|tick| (tick != b'-').then_some(tick == b'1')).collect();
        Baselines::fit(&seen, ahead).forecast(self.model, up)
    }
}

/// Two zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotPair {
    /// One zone.
    pub one: String,
    /// The other.
    pub other: String,
    /// Correlation of having enough spot; none where one of them never changed.
    pub correlation: Option<f64>,
}

/// A trained model of spot.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotPredictor {
    /// Record that the model was trained on.
    pub trained: SpotTrained,
    pub(super) zones: Vec<SpotZone>,
    pub(super) pairs: Vec<SpotPair>,
}

/// A zone at a moment, and what comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told<'a> {
    pub(super) zone: &'a SpotZone,
    pub(super) now: Option<Standing>,
    /// Whether the hour of the week is known.
    pub(super) week_known: bool,
}

/// Sections of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    zones: Vec<SpotZone>,
    pairs: Vec<SpotPair>,
}

fn week(record: &SpotRecord, need: u32) -> SpotWeek {
    let (mut hours, mut days) = ([(0u64, 0u64); HOURS], [(0u64, 0u64); 7]);
    for (tick, count) in record.counts.iter().enumerate() {
        let Some(count) = count else { continue };
        let (hour, day) = hour_and_day(record.begins_ms.unwrap_or(0).saturating_add(tick as i64 * record.tick_ms));
        // The first of January 1970 was a Thursday.
        let day = if record.begins_ms.is_some() { (day + 3) % 7 } else { day };
        for cell in [&mut hours[hour], &mut days[day]] {
            cell.0 += u64::from(*count >= need);
            cell.1 += 1;
        }
    }
    let share = |(up, all): &(u64, u64)| (*all > 0).then(|| *up as f64 / *all as f64);
    SpotWeek {
        dated: record.begins_ms.is_some(),
        hours: hours.iter().map(share).collect(),
        days: days.iter().map(share).collect(),
    }
}

/// The correlation of having enough.
fn correlation(one: &SpotRecord, other: &SpotRecord, need: u32) -> Option<f64> {
    let (mut all, mut a, mut b, mut both) = (0.0, 0.0, 0.0, 0.0);
    for pair in one.counts.iter().zip(&other.counts) {
        let (Some(x), Some(y)) = pair else { continue };
        let (x, y) = (f64::from(u8::from(*x >= need)), f64::from(u8::from(*y >= need)));
        all += 1.0;
        a += x;
        b += y;
        both += x * y;
    }
    let (a, b, both) = (a / all, b / all, both / all);
    let spread = (a * (1.0 - a) * b * (1.0 - b)).sqrt();
    (spread > 0.0).then(|| (both - a * b) / spread)
}

/// Checks that records of one time begin together, if that is known, and have ticks of one length.
///
/// # Errors
/// If they do not.
pub fn check_together(records: &[SpotRecord]) -> Result<()> {
    let mut ticks: Vec<i64> = records.iter().map(|record| record.tick_ms).collect();
    ticks.sort_unstable();
    ticks.dedup();
    if ticks.len() > 1 {
        return Err(Error::Setting(format!(
            "zones of one time have ticks of one length, and these have {} (ms); leave out --regions together, or tell the time between samples with --gap",
            ticks.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
        )));
    }
    let mut begun = records.iter().filter_map(|record| record.begins_ms.map(|begins_ms| (begins_ms, &record.name)));
    if let Some((first_ms, first)) = begun.next()
        && let Some((other_ms, other)) = begun.find(|(begins_ms, _)| *begins_ms != first_ms)
    {
        return Err(Error::Setting(format!(
            "zones of one time begin together, and {first} begins at {}, {other} at {}; leave out --regions together, or name logs of one time",
            format_rfc3339(first_ms),
            format_rfc3339(other_ms)
        )));
    }
    Ok(())
}

impl SpotPredictor {
    /// Trains on records, and says what was left out of them.
    ///
    /// # Errors
    /// If nothing can be learned from any, or zones of one time have ticks of different lengths.
    pub fn train(records: Vec<SpotRecord>, need: u32, together: bool) -> Result<(Self, Vec<String>)> {
        let (records, mut notes) = usable(records, need)?;
        if together {
            check_together(&records)?;
        }
        let together = together && records.len() > 1;
        let options = SpotTestOptions { need, together, hours: HOURS_AHEAD.to_vec(), refit_days: REFIT_DAYS, seed: 1 };
        let model = match choose(&records, &options) {
            Ok(model) => model,
            Err(Error::TooFew(_)) => {
                notes.push(
                    "A record is too short to choose a model on, so the simplest is used, by the age of a spell."
                        .to_owned(),
                );
                SpotModel::Age
            }
            Err(error) => return Err(error),
        };
        let knows = model.circumstances().unwrap_or(Circumstances::AGE);
        let zones = (0..records.len())
            .map(|at| {
                let record = &records[at];
                let track = track(&records, at, need, together);
                SpotZone {
                    name: record.name.clone(),
                    tick_ms: record.tick_ms,
                    ticks: record.counts.len(),
                    up_share: record.up_share(need),
                    with: SpotLifetime::new(record, need, true),
                    without: SpotLifetime::new(record, need, false),
                    week: week(record, need),
                    process: SpotProcess::fit(&track, record.tick_ms, need > 1, knows),
                    simple: model.circumstances().is_none().then(|| SimpleRule::new(model, &track)),
                    now: track.last().copied().flatten(),
                }
            })
            .collect();
        let mut pairs = Vec::new();
        for (at, one) in records.iter().enumerate().filter(|_| together) {
            for other in records.iter().skip(at + 1) {
                let correlation = correlation(one, other, need);
                pairs.push(SpotPair { one: one.name.clone(), other: other.name.clone(), correlation });
            }
        }
        Ok((Self { trained: SpotTrained { need, together, model }, zones, pairs }, notes))
    }

    /// Names of the zones.
    pub fn zones(&self) -> impl Iterator<Item = &str> {
        self.zones.iter().map(|zone| zone.name.as_str())
    }

    /// Each zone where its record ended.
    pub(super) fn at_the_end(&self) -> Vec<Told<'_>> {
        self.zones.iter().map(|zone| Told { zone, now: zone.now, week_known: true }).collect()
    }

    /// Each zone of newer records where these end.
    pub(super) fn at_the_end_of(&self, newer: &[SpotRecord]) -> Result<Vec<Told<'_>>> {
        if self.trained.together {
            check_together(newer)?;
        }
        let told = newer.iter().enumerate().map(|(at, record)| {
            let zone = self.zones.iter().find(|zone| zone.name == record.name).ok_or_else(|| Error::Unknown {
                what: "zone",
                found: record.name.clone(),
                known: self.zones().map(str::to_owned).collect(),
            })?;
            if zone.tick_ms != record.tick_ms {
                return Err(Error::NotTheSequel(format!(
                    "{}: its samples are {} ms apart, and those the model learned from {} ms; train another model, or tell the time with --gap",
                    record.name, record.tick_ms, zone.tick_ms
                )));
            }
            let track = track(newer, at, self.trained.need, self.trained.together);
            let week_known = zone.week.dated && record.begins_ms.is_some();
            Ok(Told { zone, now: track.last().copied().flatten(), week_known })
        });
        told.collect()
    }

    /// The bytes of its file.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let stored = Stored { zones: self.zones.clone(), pairs: self.pairs.clone() };
        let zones = serde_json::to_vec(&stored).map_err(|error| Error::Defect(error.to_string()))?;
        FORMAT.write(&self.trained, [("zones".to_owned(), zones)]).map_err(Error::Defect)
    }

    /// Reads a predictor from the bytes of a file, which messages call `file`.
    ///
    /// # Errors
    /// If it is no such file, is damaged, or of a later version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self> {
        let mut opened = FORMAT.open::<SpotTrained>(file, bytes)?;
        let stored: Stored = opened.take_json("zones")?;
        let names: BTreeSet<&str> = stored.zones.iter().map(|zone| zone.name.as_str()).collect();
        let sound =
            |zone: &SpotZone| zone.process.is_sound() && zone.tick_ms > 0 && zone.now.is_none_or(|now| now.is_sound());
        let simple = |zone: &SpotZone| match &zone.simple {
            Some(rule) => rule.is_sound() && rule.model == opened.fields.model,
            None => opened.fields.model.circumstances().is_some(),
        };
        if names.len() != stored.zones.len()
            || stored.zones.is_empty()
            || !stored.zones.iter().all(|zone| sound(zone) && simple(zone))
        {
            return Err(opened.refusal.damaged("a zone is missing, comes twice, or has chances that are none"));
        }
        Ok(Self { trained: opened.fields, zones: stored.zones, pairs: stored.pairs })
    }
}

impl Told<'_> {
    /// Forecasts so many hours ahead, in order.
    ///
    /// # Errors
    /// If that is more ticks than can be followed.
    pub(super) fn outlooks(&self, hours: &[f64]) -> Result<Option<Vec<Outlook>>> {
        let Some(now) = self.now else { return Ok(None) };
        let tick_h = self.zone.tick_ms as f64 / 3.6e6;
        let ahead: Vec<usize> = hours.iter().map(|hours| ((hours / tick_h).round() as usize).max(1)).collect();
        if let Some(ticks) = ahead.last().filter(|ticks| **ticks > MOST_AHEAD) {
            return Err(Error::Setting(format!(
                "{}: {ticks} samples ahead are more than {MOST_AHEAD}; ask for shorter horizons (--hours)",
                self.zone.name
            )));
        }
        if let Some(rule) = &self.zone.simple {
            return Ok(Some(rule.forecast(now.level == SpotLevel::Enough, &ahead)));
        }
        let process = if self.week_known { self.zone.process.clone() } else { self.zone.process.without_week() };
        Ok(Some(process.forecast(&now, &ahead)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn zones() -> Vec<SpotRecord> {
        ["us-east-1a", "us-east-1b"]
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let counts: Vec<u32> =
                    (0..600u32).map(|tick| u32::from((tick + 3 * at as u32) * tick / 61 % 5 > 1) * 4).collect();
                SpotRecord { name: (*name).to_owned(), ..record(&counts, HOUR) }
            })
            .collect()
    }

    #[test]
    fn the_worked_correlation() {
        let of = |counts: [u32; 10]| record(&counts, HOUR);
        let (one, other) = (of([1, 1, 1, 1, 1, 0, 0, 0, 0, 0]), of([1, 1, 1, 1, 0, 0, 0, 0, 0, 1]));
        assert!((correlation(&one, &other, 1).unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(correlation(&one, &of([1; 10]), 1), None);
    }

    #[test]
    fn the_week_is_that_of_the_record() {
        let mut one = record(&[1; 48], HOUR);
        one.counts[24..].fill(Some(0));
        assert_eq!(week(&one, 1).days[..3], [Some(1.0), Some(0.0), None]);
        // The first of January 1970, a Thursday.
        one.begins_ms = Some(0);
        assert_eq!(week(&one, 1).days[2..6], [None, Some(1.0), Some(0.0), None]);
        assert_eq!(week(&one, 1).hours, vec![Some(0.5); 24]);
    }

    #[test]
    fn a_saved_model_says_the_same() {
        let (trained, notes) = SpotPredictor::train(zones(), 4, true).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let read = SpotPredictor::from_bytes("m", &trained.to_bytes().unwrap()).unwrap();
        assert_eq!(read.trained, trained.trained);
        for (one, other) in trained.at_the_end().iter().zip(read.at_the_end()) {
            let of = |told: &Told<'_>| told.outlooks(&[1.0, 6.0, 24.0]).unwrap().unwrap();
            assert!(one.outlooks(&[1e7]).unwrap_err().to_string().contains("samples ahead"));
            for (a, b) in of(one).iter().zip(of(&other)) {
                assert!((a.at - b.at).abs() < 1e-12 && (a.through - b.through).abs() < 1e-12);
            }
        }
        // The end of the same records, told as newer ones, without the hour of the week.
        let told = trained.at_the_end_of(&zones()).unwrap();
        assert_eq!(told.iter().map(|told| told.now).collect::<Vec<_>>(), [trained.zones[0].now, trained.zones[1].now]);
        let mut other = zones();
        other[0].name = "us-west-1a".to_owned();
        assert!(trained.at_the_end_of(&other).unwrap_err().to_string().contains("no zone us-west-1a"));
        assert!(SpotPredictor::from_bytes("m", b"{}\n").unwrap_err().to_string().contains("no model file of spot"));
    }

    #[test]
    fn a_simple_rule_that_wins_is_saved_and_says_its_shares() {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let counts: Vec<u32> = (0..480).map(|_| u32::from(draw() % 10 < 6)).collect();
        let (trained, _) = SpotPredictor::train(vec![record(&counts, HOUR)], 1, false).unwrap();
        assert_eq!(trained.trained.model.circumstances(), None, "{:?}", trained.trained.model);
        let bytes = trained.to_bytes().unwrap();
        let read = SpotPredictor::from_bytes("m", &bytes).unwrap();
        assert_eq!(read.trained, trained.trained);
        let seen: Vec<Option<bool>> = counts.iter().map(|count| Some(*count > 0)).collect();
        let expected = Baselines::fit(&seen, &[1, 7]).forecast(trained.trained.model, counts[479] > 0);
        // Of horizons that nothing was chosen on, too.
        let told = |predictor: &SpotPredictor| predictor.at_the_end()[0].outlooks(&[1.0, 7.0]).unwrap().unwrap();
        assert_eq!((told(&trained), told(&read)), (expected.clone(), expected));
        // What names a rule and lacks what it looks at is damaged.
        let mut without = trained.clone();
        without.zones[0].simple = None;
        let refused = SpotPredictor::from_bytes("m", &without.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("a zone is missing"), "{refused}");
    }

    #[test]
    fn a_short_record_gets_the_simplest_model() {
        let (trained, notes) = SpotPredictor::train(vec![record(&[1, 1, 0, 1], HOUR)], 1, false).unwrap();
        assert_eq!(trained.trained.model, SpotModel::Age);
        assert!(notes[0].contains("too short to choose"), "{notes:?}");
        let mut ticks = zones();
        ticks[0].tick_ms = 1;
        assert!(SpotPredictor::train(ticks, 1, true).unwrap_err().to_string().contains("--gap"));
    }
}
