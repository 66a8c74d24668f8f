//! The answer of `plan moves` in words and tables.
//!
//! O(rows). Worked example: a rule that looks every 24 h and moves for a tenth is told as "look every 1 d, move for 10 %".

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::run::{FirstPlace, MoveRule, Moving};
use super::{MovesAnswer, Place, PlacedJob};
use crate::plan::money::money;

/// Jobs that are told one by one in a sentence.
const NAMED: usize = 3;
/// Jobs of which places are shown.
const SHOWN: usize = 10;
/// Places that are shown of a job.
const PLACES: usize = 5;

fn moving_in_words(moving: &Moving) -> String {
    let every = format::duration(moving.check_s);
    if moving.margin > 0.0 {
        format!("look every {every}, move for {} or more", format::percent(moving.margin))
    } else {
        format!("look every {every}, move for any gain")
    }
}

fn rule_in_words(rule: Option<&MoveRule>) -> String {
    match rule {
        None => "no schedule of hourly moves costs less (a bound that knows all prices)".to_owned(),
        Some(MoveRule { first: FirstPlace::OnAverage, .. }) => {
            "cheapest at the mean prices so far, and stay".to_owned()
        }
        Some(MoveRule { moving: None, .. }) => "cheapest now, and stay".to_owned(),
        Some(MoveRule { moving: Some(moving), .. }) => moving_in_words(moving),
    }
}

impl MovesAnswer {
    /// What to do, in a sentence.
    pub(super) fn act(&self) -> String {
        let told = |job: &PlacedJob| match &job.place {
            Some(place) => format!(
                "{} on {} in {} ({} at the last price)",
                job.job,
                place.instance,
                place.zone,
                money(place.usd, &self.currency)
            ),
            None => format!("{} nowhere, as no price is recent enough", job.job),
        };
        let mut places: Vec<String> = self.jobs.iter().take(NAMED).map(told).collect();
        if self.jobs.len() > NAMED {
            places.push(format!("and so on for {} more", self.jobs.len() - NAMED));
        }
        let begin = format!("**Begin {}.**", places.join("; "));
        let Some((trial, chosen)) =
            self.trial.as_ref().and_then(|trial| Some((trial, trial.score(Some(trial.chosen))?)))
        else {
            return format!(
                "{begin} Whether to move later could not be tested: the history is too short for these jobs."
            );
        };
        let untested = match trial.too_long.as_slice() {
            [] => String::new(),
            [one] => format!(" {one} is longer than the later prices, so nothing of this is tested for it."),
            several => format!(
                " {} are longer than the later prices, so nothing of this is tested for them.",
                several.join(", ")
            ),
        };
        let saved = 1.0 - chosen.share.value;
        let came = if saved >= 0.0 {
            format!("{} less", format::percent(saved))
        } else {
            format!("{} more", format::percent(-saved))
        };
        let said = match (trial.worth(), chosen.rule.and_then(|rule| rule.moving)) {
            (Some(_), Some(moving)) => {
                format!("Then **{}**: on later prices that cost {came} than staying.", moving_in_words(&moving))
            }
            (Some(_), None) => format!(
                "These are the cheapest **at the mean prices so far**. **Stay there**: on later prices that cost {came} than beginning where it was cheapest at the moment."
            ),
            (None, _) if trial.chosen == MoveRule::STAY => {
                "Then **stay there**: on earlier prices no other rule cost less.".to_owned()
            }
            (None, _) => format!(
                "Then **stay there**: the rule that was best on earlier prices ({}) cost {came} than that on later ones, which is not worth it.",
                rule_in_words(chosen.rule.as_ref())
            ),
        };
        format!("{begin} {said}{untested}")
    }

    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("Where does a long run go as spot prices change? {}", self.title),
            format!(
                "{} and {}, prices from {} to {}",
                format::counted(self.jobs.len() as u64, "job", "jobs"),
                format::counted(self.offers as u64, "instance type in a zone", "instance types by zone"),
                self.from,
                self.to
            ),
        );
        report.summary = vec![self.action.clone()];
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.places_section()];
        report.sections.extend(self.trial_section());
        report.sections.push(self.cheapest_section());
        report
    }

    fn places_section(&self) -> Section {
        let mut table = ReportTable::new(
            format!("Places by cost at the last prices ({})", self.currency),
            vec![
                Column::text("Job"),
                Column::text("Instance"),
                Column::text("Zone"),
                Column::text("GPUs used"),
                Column::number("An hour"),
                Column::number("Time"),
                Column::number("Cost"),
                Column::number("Move below"),
            ],
        );
        let row = |job: &str, place: &Place| {
            vec![
                job.into(),
                place.instance.as_str().into(),
                place.zone.as_str().into(),
                format!("{} × {}", place.gpus, place.gpu).into(),
                Cell::float(place.usd_per_h, 4),
                Cell::Duration(place.time_s),
                Cell::float(place.usd, 2),
                Cell::opt(place.move_below_usd_per_h, |value| Cell::Float { value, digits: 4 }),
            ]
        };
        for job in self.jobs.iter().take(SHOWN) {
            table.rows.extend(job.place.iter().chain(&job.others).map(|place| row(&job.job, place)));
        }
        let more = self.jobs.len().saturating_sub(SHOWN);
        let section = Section::new("places", "Where to begin")
            .with_table(table)
            .with_definition("The first line of a job is where it begins. Cost: of the whole job at the last price, with its start.")
            .with_definition("An hour: the price of the instance. Move below: the price an hour at which a job that has just begun at the first line would move under the rule. As a job nears its end the start weighs more, and the price must be lower still.");
        if more > 0 { section.with_text(format!("{more} more jobs are in the JSON.")) } else { section }
    }

    fn trial_section(&self) -> Option<Section> {
        let trial = self.trial.as_ref()?;
        let mut table = ReportTable::new(
            format!(
                "Later prices, from {} on: cost as a share of beginning at the cheapest place and staying",
                self.split
            ),
            vec![
                Column::text("Rule"),
                Column::number("Cost"),
                Column::text("95 % interval"),
                Column::number("Worst start"),
                Column::number("Moves"),
                Column::number("Time"),
            ],
        );
        for score in &trial.scores {
            let mark = if score.rule == Some(trial.chosen) { " (chosen)" } else { "" };
            table.rows.push(vec![
                format!("{}{mark}", rule_in_words(score.rule.as_ref())).into(),
                Cell::Percent(score.share.value),
                format!("{} to {}", format::percent(score.share.low), format::percent(score.share.high)).into(),
                Cell::Percent(score.worst_share),
                Cell::opt(score.moves, |value| Cell::Float { value, digits: 1 }),
                Cell::opt(score.time_share, Cell::Percent),
            ]);
        }
        let counted = |number: usize| format::counted(number as u64, "start", "starts");
        Some(
            Section::new("trial", "Is moving worth it?")
                .with_table(table)
                .with_text(format!(
                    "Chosen on {} before {} (there {} of staying), reported on {} after it; {} did not count, as the job would not have ended within its part under every rule.{}",
                    counted(trial.earlier),
                    self.split,
                    format::percent(trial.earlier_share),
                    counted(trial.later),
                    counted(trial.unfinished),
                    if trial.too_long.is_empty() {
                        String::new()
                    } else {
                        format!(" **Not tested**, as they are longer than the later part: {}.", trial.too_long.join(", "))
                    }
                ))
                .with_definition("The bound may leave out the start and a part of the last hour, so it can be below what the best schedule costs also where prices stand still.")
                .with_definition("For each time between checks the margin is shown that was best on the earlier part. Time: from start to end over that of staying. Starts overlap in time, so the interval is narrower than that of other months would be."),
        )
    }

    fn cheapest_section(&self) -> Section {
        let mut table = ReportTable::new(
            "Share of the hours in which a place was the cheapest",
            vec![
                Column::text("Job"),
                Column::text("Instance"),
                Column::text("Zone"),
                Column::text("GPU"),
                Column::number("Hours"),
            ],
        );
        for job in self.jobs.iter().take(SHOWN) {
            let of_job = self.cheapest.iter().filter(|place| place.job == job.job).take(PLACES);
            table.rows.extend(of_job.map(|place| {
                vec![
                    place.job.as_str().into(),
                    place.instance.as_str().into(),
                    place.zone.as_str().into(),
                    place.gpu.as_str().into(),
                    Cell::Percent(place.share),
                ]
            }));
        }
        Section::new("cheapest", "Where it was cheapest").with_table(table).with_definition(
            "Over the whole history, hour by hour, at the price of each hour; at most five places of a job.",
        )
    }
}
