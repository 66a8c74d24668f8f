//! Forecasts of a model of spot, as JSON (`model-predict-spot/1`) and as a report.
//!
//! Worked example: a zone with enough spot for two hours, of which 0.9 says that it lasts another, shows 90 % in the column `1 h through`.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::backtest::{SpotModel, check_hours};
use super::lifetime::SpotLifetime;
use super::predictor::{SpotPair, SpotPredictor, SpotWeek};
use super::process::Outlook;
use super::record::{SpotLevel, SpotRecord};
use crate::error::Result;

/// Version of the JSON.
pub const SCHEMA: &str = "model-predict-spot/1";
/// Days of the week, from the first in [`SpotWeek::days`] on.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// Pairs of zones shown.
const PAIRS: usize = 12;

/// Forecast at a horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpotOutlook {
    /// Hours ahead.
    pub hours: f64,
    /// Chance of enough spot then.
    pub at: f64,
    /// Chance of enough spot from now until then without a break. It is 0 where there is not enough now.
    pub through: f64,
}

/// A zone now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotNow {
    /// Level of instances.
    pub level: SpotLevel,
    /// Age of the level, as far as was seen, seconds.
    pub age_s: f64,
    /// Forecast at each horizon.
    pub outlooks: Vec<SpotOutlook>,
}

/// Forecast for a zone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotZoneAnswer {
    /// Name of the zone.
    pub zone: String,
    /// Length of a tick, seconds.
    pub tick_s: f64,
    /// Ticks learned from.
    pub ticks: usize,
    /// Share of them with enough.
    pub up_share: f64,
    /// State of the zone and its forecasts; None where the last tick was not read.
    pub now: Option<SpotNow>,
    /// Durations of spells with enough.
    pub with_enough: Option<SpotLifetime>,
    /// Durations of spells without.
    pub without: Option<SpotLifetime>,
    /// Share of the time with enough, over the week.
    pub week: SpotWeek,
}

/// Forecasts of a model of spot.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotAnswer {
    /// Version of this form.
    pub schema: String,
    /// Title: the source that was read.
    pub title: String,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Instances needed at once.
    pub need: u32,
    /// The model in use.
    pub model: SpotModel,
    /// Zone by zone.
    pub zones: Vec<SpotZoneAnswer>,
    /// Correlations of zones observed at the same time.
    pub pairs: Vec<SpotPair>,
}

/// The JSON Schema of [`SpotAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SpotAnswer).to_value()
}

impl SpotAnswer {
    /// Forecasts of a model for some hours from the end of its records, or of newer ones.
    ///
    /// # Errors
    /// If the hours are none, or a newer record is of a zone that the model does not know.
    pub fn new(
        predictor: &SpotPredictor,
        newer: &[SpotRecord],
        hours: &[f64],
        title: String,
        mut notes: Vec<String>,
    ) -> Result<Self> {
        check_hours(hours)?;
        let told = if newer.is_empty() { predictor.at_the_end() } else { predictor.at_the_end_of(newer)? };
        let knows_week = predictor.trained.model.circumstances().is_some_and(|knows| knows.week);
        if knows_week && told.iter().any(|told| !told.week_known) {
            notes.push(
                "The hours of the week are left out, as the model or the newer record does not tell when its samples were taken (--begins)."
                    .to_owned(),
            );
        }
        let zones = told.iter().map(|told| {
            let tick_s = told.zone.tick_ms as f64 / 1000.0;
            let outlook = |(hours, outlook): (&f64, Outlook)| SpotOutlook {
                hours: *hours,
                at: outlook.at,
                through: outlook.through,
            };
            let now = told.now.zip(told.outlooks(hours)?).map(|(now, outlooks)| SpotNow {
                level: now.level,
                age_s: now.age as f64 * tick_s,
                outlooks: hours.iter().zip(outlooks).map(outlook).collect(),
            });
            Ok(SpotZoneAnswer {
                zone: told.zone.name.clone(),
                tick_s,
                ticks: told.zone.ticks,
                up_share: told.zone.up_share,
                now,
                with_enough: told.zone.with.clone(),
                without: told.zone.without.clone(),
                week: told.zone.week.clone(),
            })
        });
        Ok(Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            need: predictor.trained.need,
            model: predictor.trained.model,
            zones: zones.collect::<Result<_>>()?,
            pairs: predictor.pairs.clone(),
        })
    }

    /// Instances needed, in words.
    fn needed(&self) -> String {
        if self.need == 1 { "an instance".to_owned() } else { format!("at least {} instances", self.need) }
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), format!("Spot: {} at once", self.needed()));
        report.notes.clone_from(&self.notes);
        report.summary.extend(self.best());
        report.sections = vec![self.now(), self.lifetimes(), self.weeks()];
        report.sections.extend((!self.pairs.is_empty()).then(|| self.alike()));
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    /// The zone that is likeliest to last to the longest horizon, else the likeliest to have enough then.
    fn best(&self) -> Option<String> {
        let last = |zone: &SpotZoneAnswer| zone.now.as_ref()?.outlooks.last().copied();
        let of = |by: fn(&SpotOutlook) -> f64| {
            let known = self.zones.iter().filter_map(|zone| Some((zone, last(zone)?)));
            known.max_by(|a, b| by(&a.1).total_cmp(&by(&b.1)).then_with(|| b.0.zone.cmp(&a.0.zone)))
        };
        let (zone, outlook) = of(|outlook| outlook.through)?;
        let time = format::duration(outlook.hours * 3600.0);
        if outlook.through > 0.0 {
            return Some(format!(
                "**{}** is likeliest to have {} for the next {time} without a break: {}.",
                zone.zone,
                self.needed(),
                format::percent(outlook.through)
            ));
        }
        let (zone, outlook) = of(|outlook| outlook.at)?;
        Some(format!(
            "No zone has {} now. **{}** is likeliest to have so in {time}: {}.",
            self.needed(),
            zone.zone,
            format::percent(outlook.at)
        ))
    }

    fn now(&self) -> Section {
        let mut columns = vec![Column::text("Zone"), Column::text("Now"), Column::number("For")];
        let hours: Vec<f64> = self
            .zones
            .iter()
            .find_map(|zone| Some(zone.now.as_ref()?.outlooks.iter().map(|outlook| outlook.hours).collect()))
            .unwrap_or_default();
        for what in ["through", "at"] {
            columns.extend(
                hours.iter().map(|hours| Column::number(format!("{} {what}", format::duration(hours * 3600.0)))),
            );
        }
        let mut table = ReportTable::new("Chances of enough spot from now on", columns);
        for zone in &self.zones {
            let mut row: Vec<Cell> = vec![zone.zone.as_str().into()];
            if let Some(now) = &zone.now {
                row.push(level(now.level).into());
                row.push(Cell::Duration(now.age_s));
                row.extend(now.outlooks.iter().map(|outlook| Cell::share(outlook.through)));
                row.extend(now.outlooks.iter().map(|outlook| Cell::share(outlook.at)));
            } else {
                row.extend(std::iter::repeat_n(Cell::Missing, 2 + 2 * hours.len()));
            }
            table.rows.push(row);
        }
        Section::new("now", "What comes after the end of the record")
            .with_finding(self.best().unwrap_or_else(|| "The last tick of no zone was read.".to_owned()))
            .with_table(table)
            .with_definition("Through: the chance of enough spot at every tick until then, now included. At: the chance of enough spot at that moment, whatever is between.")
            .with_definition(format!("In use: {}.", self.model.in_use()))
    }

    fn lifetimes(&self) -> Section {
        let table = |title: &str, enough: bool| {
            let columns = vec![
                Column::text("Zone"),
                Column::number("Of the time"),
                Column::number("Spells"),
                Column::number("Quarter"),
                Column::number("Median"),
                Column::text("95 % interval"),
                Column::number("Three quarters"),
                Column::number("Mean"),
            ];
            let mut table = ReportTable::new(title, columns);
            for zone in &self.zones {
                let share = if enough { zone.up_share } else { 1.0 - zone.up_share };
                let mut row: Vec<Cell> = vec![zone.zone.as_str().into(), Cell::share(share)];
                match if enough { &zone.with_enough } else { &zone.without } {
                    Some(of) => {
                        let time = |time: Option<f64>| Cell::opt(time, Cell::Duration);
                        let end = |time: Option<f64>| time.map_or_else(|| "?".to_owned(), format::duration);
                        row.push(Cell::Int(of.spells as i64));
                        row.push(time(of.p25_s));
                        row.push(time(of.median_s));
                        row.push(format!("{} to {}", end(of.median_low_s), end(of.median_high_s)).as_str().into());
                        row.push(time(of.p75_s));
                        row.push(time(of.mean_s));
                    }
                    None => row.extend(std::iter::repeat_n(Cell::Missing, 6)),
                }
                table.rows.push(row);
            }
            table
        };
        let shortest = |enough: bool| {
            let of = |zone: &&SpotZoneAnswer| if enough { zone.with_enough.clone() } else { zone.without.clone() };
            let medians: Vec<f64> = self.zones.iter().filter_map(|zone| of(&zone)?.median_s).collect();
            let least = medians.iter().copied().reduce(f64::min).map(format::duration);
            least.zip(medians.iter().copied().reduce(f64::max).map(format::duration))
        };
        let finding = match (shortest(true), shortest(false)) {
            (Some((least, most)), Some((short, long))) => format!(
                "Half of the spells with enough spot end within **{least} to {most}**, by zone, and half of those without within {short} to {long}."
            ),
            _ => "There are too few spells to tell how long they last.".to_owned(),
        };
        Section::new("lifetimes", "How long spells last")
            .with_finding(finding)
            .with_table(table("Spells with enough spot", true))
            .with_table(table("Spells without", false))
            .with_definition("Kaplan-Meier: spells that were not seen to end are censored, and those whose beginning was not seen are left out. The mean is of what spells last, up to the longest seen.")
    }

    fn weeks(&self) -> Section {
        let mut table = ReportTable::new(
            "Share of the time with enough spot, where it is least and most",
            vec![
                Column::text("Zone"),
                Column::text("Worst hour"),
                Column::number("Share"),
                Column::text("Best hour"),
                Column::number("Share"),
                Column::text("Worst day"),
                Column::number("Share"),
                Column::text("Best day"),
                Column::number("Share"),
            ],
        );
        let ends = |shares: &[Option<f64>]| {
            let known = || shares.iter().enumerate().filter_map(|(at, share)| Some((at, (*share)?)));
            let least = known().min_by(|a, b| a.1.total_cmp(&b.1));
            least.zip(known().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))))
        };
        for zone in &self.zones {
            let mut row: Vec<Cell> = vec![zone.zone.as_str().into()];
            let hour = |hour: usize| format!("{hour:02}–{:02} h", hour + 1);
            let day = |day: usize| {
                let named = DAYS.get(day).filter(|_| zone.week.dated);
                named.map_or_else(|| format!("day {}", day + 1), |day| (*day).to_owned())
            };
            for (shares, name) in [
                (&zone.week.hours, &hour as &dyn Fn(usize) -> String),
                (&zone.week.days, &day as &dyn Fn(usize) -> String),
            ] {
                match ends(shares) {
                    Some((least, most)) => {
                        for (at, share) in [least, most] {
                            row.push(name(at).as_str().into());
                            row.push(Cell::share(share));
                        }
                    }
                    None => row.extend(std::iter::repeat_n(Cell::Missing, 4)),
                }
            }
            table.rows.push(row);
        }
        let when = if self.zones.iter().all(|zone| zone.week.dated) {
            "Hours are UTC."
        } else {
            "Hours and days count from the first sample where the record does not tell when that was; --begins says it."
        };
        Section::new("week", "When in the week it is worst")
            .with_finding(format!(
                "{when} These are shares of what was seen, and the model uses them only where they help it."
            ))
            .with_table(table)
    }

    fn alike(&self) -> Section {
        let mut pairs: Vec<(&SpotPair, f64)> =
            self.pairs.iter().filter_map(|pair| Some((pair, pair.correlation?))).collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| (&a.0.one, &a.0.other).cmp(&(&b.0.one, &b.0.other))));
        let mut table = ReportTable::new(
            "Zones that move together most",
            vec![Column::text("Zone"), Column::text("Other zone"), Column::number("Correlation")],
        );
        for (pair, correlation) in pairs.iter().take(PAIRS) {
            table.rows.push(vec![pair.one.as_str().into(), pair.other.as_str().into(), Cell::float(*correlation, 2)]);
        }
        let finding = match (pairs.first(), pairs.last()) {
            (Some(most), Some(least)) => format!(
                "Correlations of two zones lie between {} and **{}** ({} and {}).",
                format::float(least.1, 2),
                format::float(most.1, 2),
                most.0.one,
                most.0.other
            ),
            _ => "No two zones can be compared.".to_owned(),
        };
        Section::new("zones", "How zones move together")
            .with_finding(finding)
            .with_table(table)
            .with_definition("Correlation of having enough spot, tick by tick: 1 is always together, 0 is as if they knew nothing of each other.")
    }
}

fn level(level: SpotLevel) -> &'static str {
    match level {
        SpotLevel::Nothing => "none",
        SpotLevel::Few => "too few",
        SpotLevel::Enough => "enough",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn an_answer_says_what_comes_and_how_long_it_lasts() {
        let counts: Vec<u32> = (0..600).map(|tick| u32::from(tick / 6 % 2 == 1)).collect();
        let (predictor, notes) = SpotPredictor::train(vec![record(&counts, 1_800_000)], 1, false).unwrap();
        let answer = SpotAnswer::new(&predictor, &[], &[1.0, 6.0], "a".to_owned(), notes).unwrap();
        let zone = &answer.zones[0];
        let now = zone.now.as_ref().unwrap();
        assert_eq!((now.level, now.age_s, now.outlooks.len()), (SpotLevel::Enough, 10_800.0, 2));
        assert_eq!(zone.with_enough.as_ref().unwrap().median_s, Some(10_800.0));
        let report = answer.report();
        assert_eq!(
            report.sections.iter().map(|section| section.id.as_str()).collect::<Vec<_>>(),
            ["now", "lifetimes", "week"]
        );
        assert!(report.summary[0].contains("**us-east-1a**"), "{:?}", report.summary);
        // A newer record that ended without spot.
        let newer = record(&[1, 1, 0], 1_800_000);
        let later = SpotAnswer::new(&predictor, &[newer], &[1.0], "a".to_owned(), Vec::new()).unwrap();
        assert!(later.report().summary[0].contains("No zone has an instance now"), "{:?}", later.report().summary);
    }
}
