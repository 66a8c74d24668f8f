//! Spot availability of one zone, tick by tick: from the canonical `availability` table of one source.
//!
//! A SkyPilot trace says how many instances of those asked for could be had at each sample. Here a sample is a **tick**: what it says holds until the next. A
//! job that needs `need` instances at once can run on spot in a tick that has at least as many. The length of a tick is the source's `gap_seconds`, or
//! what the user says instead (the traces of October 2022 carry a wrong one). A sample that could not be read has nothing, as nobody knows that it had
//! something.
//!
//! A [log](SpotSeries::all) of several zones and instance types, whose samples are as far apart as its script took, is a series for each of them. Their ticks begin together and are as long as rounds are mostly apart (samples within a minute are of one round); a tick has what the last sample before it said, if that is no older than three ticks.
//!
//! O(samples). Worked example: counts 16, 12, 0, 16 are up, down, down, up for a job that needs 16, and up, up, down, up for one that needs 4.

use std::collections::BTreeMap;
use std::path::Path;

use tracecast_analytics::Trace;
use tracecast_analytics::stats::rank;
use tracecast_analytics::trace::SourceRecord;
use tracecast_predictors::spot::record::SpotRecord;

use super::price::ZonePrice;
use crate::error::{Error, Result};

/// Most ticks of a trace: 16 years of minutes.
const MOST_TICKS: i64 = 1 << 23;

/// Samples of a log that are closer to each other are of one round, milliseconds.
const SAME_ROUND_MS: i64 = 60_000;

/// Spot availability of a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotSeries {
    /// Name: the file without what all files have in common.
    pub name: String,
    /// Zone, if known.
    pub zone: Option<String>,
    /// What is asked for, such as `V100:1`, if known.
    pub instance: Option<String>,
    /// Length of a tick, milliseconds.
    pub tick_ms: i64,
    /// Instances to be had in each tick.
    pub counts: Vec<f64>,
    /// Ticks without a sample, in order, which count as none to be had.
    pub unread: Vec<usize>,
    /// When the first tick begins, milliseconds since 1970, where the source says it.
    pub begins_ms: Option<i64>,
    /// Prices tick by tick, if known.
    pub price: Option<ZonePrice>,
    /// What the file says on-demand costs, dollars an hour.
    pub list_price: Option<f64>,
    /// The file.
    pub sources: Vec<SourceRecord>,
}

/// Spot of a job with lanes, tick by tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Supply {
    /// Lanes of the job.
    pub lanes: usize,
    /// How many of them can have spot in each tick.
    pub up: Vec<u32>,
}

impl Supply {
    /// Supply of one instance, which can be had or not.
    pub fn one(up: &[bool]) -> Self {
        Self { lanes: 1, up: up.iter().map(|up| u32::from(*up)).collect() }
    }

    /// Whether a lane can have spot, tick by tick; lanes count from 0.
    pub fn lane(&self, lane: usize) -> Vec<bool> {
        self.up.iter().map(|up| lane < *up as usize).collect()
    }

    /// Counts of some of the ticks.
    pub fn within(&self, ticks: std::ops::Range<usize>) -> &[u32] {
        self.up.get(ticks).unwrap_or_default()
    }
}

/// Zone and instance type, as far as they are known.
type Label<'t> = (Option<&'t str>, Option<&'t str>);

/// A row of the table of availability.
struct Sample {
    ts: Option<i64>,
    gap_s: Option<f64>,
    count: Option<f64>,
}

impl SpotSeries {
    /// For tests: so many instances in each tick, and nothing else known.
    #[cfg(test)]
    pub(crate) fn of_counts(name: &str, tick_ms: i64, counts: Vec<f64>) -> Self {
        Self {
            name: name.to_owned(),
            zone: None,
            instance: None,
            tick_ms,
            counts,
            unread: Vec::new(),
            begins_ms: None,
            price: None,
            list_price: None,
            sources: Vec::new(),
        }
    }

    /// From a source of one zone and instance type. `gap_ms` replaces the time between samples that
    /// the source gives.
    ///
    /// # Errors
    /// If there is no availability in it, or that of several zones, or samples are not a gap apart.
    pub fn new(trace: &Trace, name: String, gap_ms: Option<i64>) -> Result<Self> {
        match <[Self; 1]>::try_from(Self::sampled(trace, &name, gap_ms)?) {
            Ok([only]) => Ok(only),
            Err(_) => Err(Error::SpotTrace {
                file: name,
                found: "it holds several zones".to_owned(),
                remedy: "name one file for each zone",
            }),
        }
    }

    /// The series of one zone and instance type, without prices. Dated samples count from the
    /// first.
    fn from_samples(trace: &Trace, (label, samples): (Label<'_>, &[Sample]), name: String) -> Result<Self> {
        let wrong = |found: String, remedy: &'static str| Error::SpotTrace { file: name.clone(), found, remedy };
        let Some(gap_s) = samples.iter().find_map(|sample| sample.gap_s) else {
            return Err(wrong(
                "it holds no spot availability".to_owned(),
                "name SkyPilot traces, {\"metadata\": {\"gap_seconds\": 300}, \"data\": [1, 0, …]}",
            ));
        };
        let tick_ms = (gap_s * 1000.0).round() as i64;
        if samples.iter().any(|sample| sample.gap_s != Some(gap_s)) || tick_ms < 1 {
            return Err(wrong(
                "its samples are not all one gap apart".to_owned(),
                "name one file for each zone and time",
            ));
        }
        let times = || samples.iter().filter_map(|sample| sample.ts);
        let begins_ms = trace.basis.has_dates().then(|| times().min()).flatten();
        let origin_ms = begins_ms.unwrap_or(0);
        let last_ms = times().max().unwrap_or(origin_ms) - origin_ms;
        if last_ms / tick_ms >= MOST_TICKS {
            return Err(wrong(format!("it has more than {MOST_TICKS} samples"), "cut it into files of a year"));
        }
        let mut counts = vec![f64::NAN; usize::try_from(last_ms / tick_ms).unwrap_or(0) + 1];
        let mut twice = false;
        for sample in samples {
            let (Some(ts), Some(count)) = (sample.ts, sample.count) else { continue };
            // Samples of gaps that are no whole milliseconds are rounded, to less than half a gap.
            let tick = ((ts - origin_ms) as f64 / (gap_s * 1000.0)).round() as i64;
            if let Some(place) = counts.get_mut(usize::try_from(tick).unwrap_or(0)) {
                twice |= !place.is_nan();
                *place = count;
            }
        }
        if twice {
            return Err(wrong("it holds a sample twice".to_owned(), "name one file for each zone and time"));
        }
        let unread = (0..counts.len()).filter(|tick| counts[*tick].is_nan()).collect();
        counts.iter_mut().filter(|count| count.is_nan()).for_each(|count| *count = 0.0);
        Ok(Self {
            zone: label.0.map(str::to_owned),
            instance: label.1.map(str::to_owned),
            tick_ms,
            counts,
            unread,
            begins_ms,
            price: None,
            list_price: None,
            sources: trace.sources.clone(),
            name,
        })
    }

    /// The series of a table that says how far apart its samples are, one for each zone and
    /// instance type. A single one has the prices of the source, if these count from its first
    /// sample as well.
    fn sampled(trace: &Trace, name: &str, gap_ms: Option<i64>) -> Result<Vec<Self>> {
        let table = &trace.availability;
        let mut zones: BTreeMap<Label<'_>, Vec<Sample>> = BTreeMap::new();
        let columns = table.ts.iter().zip(table.gap_s.iter()).zip(table.count.iter());
        for (row, ((ts, gap_s), count)) in columns.enumerate() {
            zones.entry((table.zone.get(row), table.instance.get(row))).or_default().push(Sample { ts, gap_s, count });
        }
        let is_only = zones.len() <= 1;
        if zones.is_empty() {
            zones.insert((None, None), Vec::new());
        }
        let mut all = Vec::with_capacity(zones.len());
        for (label, samples) in zones {
            let name = match label {
                _ if is_only => name.to_owned(),
                (zone, None) => zone.unwrap_or("zone unknown").to_owned(),
                (zone, Some(instance)) => format!("{} {instance}", zone.unwrap_or("zone unknown")),
            };
            let mut series = Self::from_samples(trace, (label, &samples), name)?;
            if is_only {
                let gap_s = samples.iter().find_map(|sample| sample.gap_s).unwrap_or_default();
                let counted = series.begins_ms.is_none();
                series.price = counted.then(|| ZonePrice::within(trace, gap_s * 1000.0, series.counts.len())).flatten();
                series.list_price = ZonePrice::listed(trace);
            }
            series.tick_ms = gap_ms.unwrap_or(series.tick_ms);
            all.push(series);
        }
        Ok(all)
    }

    /// All series of a source read on its own: one called `name`, or one for each zone and instance type of a log, called after them. Failures of which the log names no zone, and instances that never were and are of unknown type, are in none.
    ///
    /// # Errors
    /// Errors of [`SpotSeries::new`], or if a log has hardly a round, or more of them than a trace may
    /// have.
    pub fn all(trace: &Trace, name: &str, gap_ms: Option<i64>) -> Result<Vec<Self>> {
        let table = &trace.availability;
        if table.ts.iter().next().is_none() || table.gap_s.iter().any(|gap| gap.is_some()) {
            return Self::sampled(trace, name, gap_ms);
        }
        let wrong = |found: String, remedy: &'static str| Error::SpotTrace { file: name.to_owned(), found, remedy };
        let mut logs: BTreeMap<(&str, &str), Vec<(i64, f64)>> = BTreeMap::new();
        for (row, (ts, count)) in table.ts.iter().zip(table.count.iter()).enumerate() {
            let (Some(zone), Some(instance)) = (table.zone.get(row), table.instance.get(row)) else { continue };
            if let (Some(ts), Some(count)) = (ts, count) {
                logs.entry((zone, instance)).or_default().push((ts, count));
            }
        }
        logs.values_mut().for_each(|samples| samples.sort_by_key(|(ts, _)| *ts));
        // Whoever is lost and got again in one round gives several samples, some seconds apart.
        let apart = |samples: &Vec<(i64, f64)>| -> Vec<i64> {
            samples.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap| *gap >= SAME_ROUND_MS).collect()
        };
        let mut gaps: Vec<i64> = logs.values().flat_map(apart).collect();
        let first = logs.values().filter_map(|samples| samples.first()).map(|(ts, _)| *ts).min();
        let (Some(mostly_ms), Some(begins_ms)) = (rank::upper(&mut gaps, 0.5), first) else {
            let why = "it holds hardly a round in which spot availability was asked for".to_owned();
            return Err(wrong(why, "name a log of several rounds"));
        };
        let tick_ms = gap_ms.unwrap_or(mostly_ms / 1000 * 1000).max(1);
        let last = logs.values().filter_map(|samples| samples.last()).map(|(ts, _)| *ts).max().unwrap_or(begins_ms);
        if (last - begins_ms) / tick_ms >= MOST_TICKS {
            return Err(wrong(format!("it has more than {MOST_TICKS} ticks"), "cut it into files of a year"));
        }
        let series = logs.into_iter().map(|((zone, instance), samples)| {
            let last_ms = samples.last().map_or(begins_ms, |(ts, _)| *ts);
            let ticks = usize::try_from((last_ms - begins_ms) / tick_ms).unwrap_or(0) + 1;
            let known = (0..ticks).map(|tick| {
                let at_ms = begins_ms + tick as i64 * tick_ms;
                let after = samples.partition_point(|(ts, _)| *ts <= at_ms);
                let sample = after.checked_sub(1).and_then(|at| samples.get(at));
                sample.filter(|(ts, _)| at_ms - ts <= 3 * tick_ms).map(|(_, count)| *count)
            });
            let known: Vec<Option<f64>> = known.collect();
            Self {
                name: format!("{zone} {instance}"),
                zone: Some(zone.to_owned()),
                instance: Some(instance.to_owned()),
                tick_ms,
                unread: (0..ticks).filter(|tick| known[*tick].is_none()).collect(),
                counts: known.into_iter().map(|count| count.unwrap_or(0.0)).collect(),
                begins_ms: Some(begins_ms),
                price: None,
                list_price: None,
                sources: trace.sources.clone(),
            }
        });
        Ok(series.collect())
    }

    /// Whether prices are told, beside which the price ratio counts for nothing but on-demand that they leave out. Of prices without any of spot, each tick counts as without spot.
    pub fn is_priced(&self) -> bool {
        self.price.is_some()
    }

    /// Whether at least `need` instances can be had, at a price that is known if prices are, tick by tick.
    pub fn up(&self, need: u32) -> Vec<bool> {
        let priced =
            |tick: usize| self.price.as_ref().is_none_or(|price| matches!(price.spot.get(tick), Some(Some(_))));
        self.counts.iter().enumerate().map(|(tick, count)| *count >= f64::from(need) && priced(tick)).collect()
    }

    /// Spot of a job of `need` instances: all or none of them in one lane, or elastic, each in a lane of its own.
    pub fn supply(&self, need: u32, elastic: bool) -> Supply {
        let up = self.up(1);
        let can = |(count, up): (&f64, bool)| {
            let had = count.floor().clamp(0.0, f64::from(need)) as u32;
            if up { had } else { 0 }
        };
        let counts = self.counts.iter().zip(up).map(can);
        if elastic {
            Supply { lanes: need as usize, up: counts.collect() }
        } else {
            Supply { lanes: 1, up: counts.map(|count| u32::from(count >= need)).collect() }
        }
    }

    /// Returns the series as the record that models of spot learn from, if its first sample was
    /// taken at `begins_ms` and the source does not say when. A tick that could not be read is
    /// unknown there.
    pub fn record(&self, begins_ms: Option<i64>) -> SpotRecord {
        let mut counts: Vec<Option<u32>> = self.counts.iter().map(|count| Some(count.max(0.0) as u32)).collect();
        for tick in &self.unread {
            counts[*tick] = None;
        }
        SpotRecord {
            name: self.name.clone(),
            tick_ms: self.tick_ms,
            begins_ms: self.begins_ms.or(begins_ms),
            counts,
            prices: self.price.as_ref().map_or_else(Vec::new, |price| price.spot.clone()),
        }
    }

    /// Length of the series, milliseconds.
    pub fn span_ms(&self) -> i64 {
        self.counts.len() as i64 * self.tick_ms
    }
}

/// Name of each file: as many of its last folders as tell it from the others, and its name without
/// `.json` and `.gz`.
///
/// Worked example: `a/feb/us-east-1c.json` and `a/apr/us-east-1c.json` are `feb/us-east-1c` and `apr/us-east-1c`.
pub fn names(paths: &[&Path]) -> Vec<String> {
    let parts = |path: &Path| -> Vec<String> {
        let text = path.to_string_lossy();
        let text = text.strip_suffix(".gz").unwrap_or(&text);
        let text = text.strip_suffix(".json").unwrap_or(text);
        text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = paths.iter().map(|path| parts(path)).collect();
    let deepest = all.iter().map(Vec::len).max().unwrap_or(0);
    let with = |depth: usize| -> Vec<String> {
        all.iter().map(|parts| parts.get(parts.len().saturating_sub(depth)..).unwrap_or(parts).join("/")).collect()
    };
    for depth in 1..=deepest {
        let named = with(depth);
        let mut sorted = named.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == named.len() {
            return named;
        }
    }
    with(deepest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::AvailabilityRow;
    use tracecast_analytics::time::TimeBasis;

    use super::*;

    fn trace(samples: &[(i64, f64)]) -> Trace {
        let mut trace = Trace { basis: TimeBasis::Relative, ..Trace::default() };
        for (ts, count) in samples {
            trace.availability.push(AvailabilityRow {
                zone: Some("us-east-1a".into()),
                instance: Some("V100:1".into()),
                ts: Some(*ts),
                gap_s: Some(0.5),
                count: Some(*count),
            });
        }
        trace
    }

    /// Two zones in one dated table, as a trace folder has them: each counts from its first sample.
    #[test]
    fn dated_zones_of_one_table_are_apart() {
        let mut trace = Trace { basis: TimeBasis::Utc, ..Trace::default() };
        for (zone, at, count) in [("b", 0, 1.0), ("a", 0, 2.0), ("b", 1, 3.0), ("a", 2, 4.0)] {
            trace.availability.push(AvailabilityRow {
                zone: Some(zone.into()),
                instance: Some("V100:1".into()),
                ts: Some(1_700_000_000_000 + at * 60_000),
                gap_s: Some(60.0),
                count: Some(count),
            });
        }
        let result = SpotSeries::all(&trace, "file", None).unwrap();
        let seen: Vec<_> =
            result.iter().map(|zone| (zone.name.as_str(), zone.counts.clone(), zone.unread.clone())).collect();
        assert_eq!(seen, [("a V100:1", vec![2.0, 0.0, 4.0], vec![1]), ("b V100:1", vec![1.0, 3.0], vec![])]);
        assert!(result.iter().all(|zone| zone.begins_ms == Some(1_700_000_000_000)));
        assert!(SpotSeries::new(&trace, "file".to_owned(), None).is_err());
    }

    #[test]
    fn the_worked_example() {
        let series = SpotSeries::new(&trace(&[(0, 16.0), (500, 12.0), (1500, 16.0)]), "a".to_owned(), None).unwrap();
        assert_eq!((series.tick_ms, series.unread.as_slice(), series.span_ms()), (500, [2].as_slice(), 2000));
        assert_eq!(series.up(16), [true, false, false, true]);
        assert_eq!(series.up(4), [true, true, false, true]);
        let record = series.record(Some(7));
        assert_eq!((record.counts, record.begins_ms), (vec![Some(16), Some(12), None, Some(16)], Some(7)));
        assert_eq!(series.supply(14, true), Supply { lanes: 14, up: vec![14, 12, 0, 14] });
        assert_eq!(series.supply(14, false), Supply { lanes: 1, up: vec![1, 0, 0, 1] });
        let other = SpotSeries::new(&trace(&[(0, 16.0), (500, 12.0)]), "a".to_owned(), Some(60_000)).unwrap();
        assert_eq!(other.span_ms(), 120_000);
    }

    /// Rounds of a minute; the second zone is first seen in the second round, and is not asked in the fourth to seventh.
    #[test]
    fn a_log_is_a_series_for_each_zone_and_type() {
        let mut log = Trace::default();
        let mut sample = |zone: &str, s: i64, count: f64| {
            log.availability.push(AvailabilityRow {
                zone: Some(zone.into()),
                instance: Some("V100:1".into()),
                ts: Some(1_600_000_000_000 + s * 1000),
                gap_s: None,
                count: Some(count),
            });
        };
        // In the third round the instance of the first zone is lost, asked for again, and not got.
        [125, 130].into_iter().for_each(|s| sample("a", s, 0.0));
        (0..9).for_each(|round| sample("a", round * 60, f64::from(u8::from(round != 2))));
        [(61, 1.0), (121, 0.0), (500, 1.0)].into_iter().for_each(|(s, count)| sample("b", s, count));
        let result = SpotSeries::all(&log, "log", None).unwrap();
        assert_eq!(result.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["a V100:1", "b V100:1"]);
        let (a, b) = (&result[0], &result[1]);
        assert_eq!((a.tick_ms, a.begins_ms), (60_000, Some(1_600_000_000_000)));
        assert_eq!(a.counts, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        // At 120 s the sample of 61 s holds; that of 121 s until 301 s.
        assert_eq!(
            (b.counts.as_slice(), b.unread.as_slice()),
            (&[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0][..], &[0, 1, 6, 7, 8][..])
        );
        assert_eq!(a.record(Some(7)).begins_ms, Some(1_600_000_000_000));
        assert_eq!(SpotSeries::all(&trace(&[(0, 16.0), (500, 12.0)]), "a", None).unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let said = |trace: &Trace| SpotSeries::new(trace, "a".to_owned(), None).unwrap_err().to_string();
        assert!(said(&Trace::default()).contains("gap_seconds"));
        assert!(said(&trace(&[(0, 1.0), (0, 1.0)])).contains("a sample twice"));
    }

    #[test]
    fn names_tell_files_apart() {
        let paths = ["a/feb/us-east-1c.json", "a/apr/us-east-1c.json.gz"].map(Path::new);
        assert_eq!(names(&paths), ["feb/us-east-1c", "apr/us-east-1c"]);
        assert_eq!(names(&[Path::new("x/y/one.json")]), ["one"]);
        assert_eq!(names(&[Path::new("one.json"); 2]), ["one", "one"]);
    }
}
