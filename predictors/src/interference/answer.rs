//! The answer of a back-test of sharing, as JSON (`model-backtest-interference/1`) and as a report.
//!
//! Worked example: a mean error of 0.043 is shown as 0.043 of the speed alone: a forecast of 0.55 was 0.51 or 0.59, on average.

use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::backtest::{HoldOut, InterferenceScore, InterferenceSplit, MeasuredAgain};
use super::committee::LEVELS;
use super::groups::{CouplesKnown, GroupScore, GroupTest};
use super::slice::SliceBacktest;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-interference/1";

/// A back-test of sharing, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct InterferenceAnswer {
    /// Version of this form.
    pub schema: String,
    /// Files.
    pub title: String,
    /// Notes on the data, for readers.
    pub notes: Vec<String>,
    /// Seed of all draws.
    pub seed: u64,
    /// Levels of the quantiles that are forecast.
    pub levels: Vec<f64>,
    /// Results for each way of leaving out and GPU type.
    pub splits: Vec<InterferenceSplit>,
    /// Groups of three jobs and more, where a file of them was given: two tests for each GPU type.
    pub groups: Vec<GroupTest>,
    /// Comparison with a second measurement of the same pairs, where a file of them was given: one
    /// for each GPU type that is in both.
    pub again: Vec<MeasuredAgain>,
    /// Speeds on MIG slices, where the file is of these.
    pub slices: Option<SliceBacktest>,
}

/// The JSON Schema of [`InterferenceAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(InterferenceAnswer).to_value()
}

fn find<'a>(split: &'a InterferenceSplit, name: &str) -> Option<&'a InterferenceScore> {
    split.models.iter().find(|model| model.name == name)
}

impl InterferenceAnswer {
    /// An answer about pairs or slices.
    pub fn new(
        title: String,
        notes: Vec<String>,
        seed: u64,
        splits: Vec<InterferenceSplit>,
        slices: Option<SliceBacktest>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            seed,
            levels: LEVELS.to_vec(),
            splits,
            groups: Vec::new(),
            again: Vec::new(),
            slices,
        }
    }

    /// Adds tests of groups.
    #[must_use]
    pub fn with_groups(mut self, groups: Vec<GroupTest>) -> Self {
        self.groups = groups;
        self
    }

    /// Adds a second measurement of the pairs.
    #[must_use]
    pub fn with_again(mut self, again: Vec<MeasuredAgain>) -> Self {
        self.again = again;
        self
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "Sharing a GPU: a back-test of forecast speeds");
        report.notes.clone_from(&self.notes);
        for split in &self.splits {
            report.summary.push(sentence(split));
            report.sections.push(section(split));
        }
        if !self.again.is_empty() {
            let (finding, section) = measured_again(&self.again);
            report.summary.push(finding);
            report.sections.push(section);
        }
        for test in &self.groups {
            report.summary.push(of_groups(test));
            report.sections.push(on_groups(test));
        }
        if let Some(slices) = &self.slices {
            let (finding, section) = on_slices(slices);
            report.summary.push(finding);
            report.sections.push(section);
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("Seed".to_owned(), self.seed.to_string()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }
}

/// Suffix to the name of a model that was taken because nothing could be left out of what teaches.
const NOT_CHOSEN: &str = " (not chosen by data)";

fn what(split: &InterferenceSplit) -> String {
    let left = match split.hold_out {
        HoldOut::Family => "families that were left out",
        HoldOut::GpuType => "the whole GPU type left out",
        HoldOut::Random => "pairs left out at random, which flatters",
    };
    format!("{}, {left}", split.gpu_type)
}

fn sentence(split: &InterferenceSplit) -> String {
    let mean = find(split, "mean").map_or(f64::NAN, |model| model.mae);
    let Some(chosen) = find(split, &split.chosen) else { return what(split) };
    let by = if split.chosen_by_data { "" } else { NOT_CHOSEN };
    let held = chosen.coverage90.map_or_else(String::new, |held| {
        format!(", and its 90 % interval holds {} of the speeds", format::percent(held))
    });
    format!(
        "{}: **{}**{by} has a mean error of {} of the speed alone (the mean of all pairs: {}){held}.",
        what(split),
        chosen.name,
        format::float(chosen.mae, 3),
        format::float(mean, 3),
    )
}

/// A GPU type as part of a section's name.
fn plain(gpu_type: &str) -> String {
    gpu_type.to_ascii_lowercase().replace([' ', '_', '.'], "-")
}

fn section(split: &InterferenceSplit) -> Section {
    let columns = vec![
        Column::text("Model"),
        Column::number("MAE"),
        Column::number("RMSE"),
        Column::number("Pinball 10 %"),
        Column::number("50 %"),
        Column::number("90 %"),
        Column::number("In 90 %"),
        Column::number("90 % width"),
        Column::number("MAE of partners"),
        Column::number("AUC slow"),
        Column::number("Brier, fits"),
    ];
    let mut table = ReportTable::new("Speeds of what was left out", columns);
    for model in &split.models {
        let by = if split.chosen_by_data { " (chosen)" } else { NOT_CHOSEN };
        let name = if model.name == split.chosen { format!("{}{by}", model.name) } else { model.name.clone() };
        table.rows.push(vec![
            name.into(),
            Cell::float(model.mae, 4),
            Cell::float(model.rmse, 4),
            Cell::opt(model.pinball, |loss| Cell::float(loss.p10, 4)),
            Cell::opt(model.pinball, |loss| Cell::float(loss.p50, 4)),
            Cell::opt(model.pinball, |loss| Cell::float(loss.p90, 4)),
            Cell::opt(model.coverage90, Cell::share),
            Cell::opt(model.width90, |width| Cell::float(width, 3)),
            Cell::opt(model.mae_of_partners, |value| Cell::float(value, 4)),
            Cell::opt(model.auc_slower_15, |value| Cell::float(value, 3)),
            Cell::opt(model.oom_brier, |value| Cell::float(value, 4)),
        ]);
    }
    table.note = Some("Errors, losses and widths are shares of the speed alone.".to_owned());
    let id = format!("{}-{}", split.hold_out.name(), plain(&split.gpu_type));
    let mut section = Section::new(id, what(split))
        .with_finding(sentence(split))
        .with_table(table)
        .with_coverage(format!(
            "{} pairs, of which {} did not fit (forecast: {} of them); in {} of those that fit, the worse job runs below 85 %. Left out in {}.",
            format::count(split.pairs as u64),
            format::count(split.did_not_fit as u64),
            format::percent(split.oom_forecast),
            format::percent(split.slow_share),
            format::counted(split.folds as u64, "step", "steps"),
        ))
        .with_definition("A speed is that beside the other job over that alone. MAE of partners is of the known jobs beside those left out.")
        .with_definition("AUC slow: how well pairs are told in which the worse job runs below 85 %. Brier: squared error of the chance that a pair does not fit.")
        .with_definition("A pair of two families is forecast with either left out: AUC and Brier score count both forecasts, shares of pairs count it once.")
        .with_definition(if split.chosen_by_data {
            "The chosen model has the least error on groups that were left out of what teaches; what is reported has no part in that."
        } else {
            "No model is chosen by data: what teaches is one group, of which nothing could be left out. The predictor is shown in its place."
        });
    if split.hold_out != HoldOut::Random && split.did_not_fit > 0 {
        section = section.with_table(reliability(split)).with_definition("**Reliable** are chances of which about as many come true: each line counts the forecasts of one size of chance, of the predictor. A pair of two families that were left out is forecast twice.");
    }
    if split.models.iter().any(|model| model.coverage90.is_none()) {
        section = section.with_definition("A dash in place of quantiles: they are found on groups left out of what teaches. That is one group here, so there was nothing to find them by; the intervals of the predictor are a guess from its own spread.");
    }
    if !split.after_measured.is_empty() {
        let columns = vec![
            Column::number("Measured pairs"),
            Column::number("MAE"),
            Column::number("before"),
            Column::number("with drawn partners"),
            Column::number("In 90 %"),
            Column::number("AUC slow"),
        ];
        let mut later = ReportTable::new("After pairs of each new job type were measured", columns);
        for after in &split.after_measured {
            later.rows.push(vec![
                Cell::Int(after.pairs as i64),
                Cell::float(after.mae, 4),
                Cell::opt(after.before_mae, |mae| Cell::float(mae, 4)),
                Cell::opt(after.drawn_mae, |mae| Cell::float(mae, 4)),
                Cell::share(after.coverage90),
                Cell::opt(after.auc_slower_15, |value| Cell::float(value, 3)),
            ]);
        }
        section = section.with_table(later).with_definition("**Measured pairs** are with the partners that leave the least unknown, as `model predict interference --to-measure` names them; one that does not fit teaches no speed. **With drawn partners**: with any that fit. **Before**: nothing measured. The figures of a row are of the same speeds, those of pairs that were neither chosen nor drawn; the row of 0 is of all.");
    }
    section
}

/// Table of chances that pairs do not fit, and of how often they did not.
fn reliability(split: &InterferenceSplit) -> ReportTable {
    let columns = vec![
        Column::text("Forecast chance"),
        Column::number("Forecasts"),
        Column::number("Mean chance"),
        Column::number("Did not fit"),
        Column::text("Its 90 % interval"),
    ];
    let mut table = ReportTable::new("Chances that a pair does not fit, and what came", columns);
    for bin in &split.oom_reliability {
        table.rows.push(vec![
            format!("{} to {}", format::percent(bin.from), format::percent(bin.to)).into(),
            Cell::Int(bin.forecasts as i64),
            Cell::share(bin.mean_forecast),
            Cell::share(bin.did_not_fit),
            format!("{} to {}", format::percent(bin.low), format::percent(bin.high)).into(),
        ]);
    }
    table
}

fn measured_again(all: &[MeasuredAgain]) -> (String, Section) {
    let columns = vec![
        Column::text("GPU type"),
        Column::text("Job"),
        Column::number("Pairs"),
        Column::number("Apart"),
        Column::number("Apart, 90 %"),
        Column::number("Fitted once"),
    ];
    let mut table = ReportTable::new("Two measurements of the same speeds", columns);
    for one in all {
        table.rows.push(vec![
            one.gpu_type.as_str().into(),
            "all".into(),
            Cell::Int(one.pairs as i64),
            Cell::opt(one.apart, |apart| Cell::float(apart, 4)),
            Cell::opt(one.apart_p90, |apart| Cell::float(apart, 4)),
            Cell::Int(one.fitted_once as i64),
        ]);
        for (job, apart) in &one.apart_by_job {
            let none = Cell::Missing;
            let row = vec![
                one.gpu_type.as_str().into(),
                job.as_str().into(),
                none.clone(),
                Cell::float(*apart, 4),
                none.clone(),
                none,
            ];
            table.rows.push(row);
        }
    }
    let told = all.iter().filter_map(|one| Some(format!("on {} {}", one.gpu_type, format::float(one.apart?, 3))));
    let finding = format!(
        "Distance of two measurements of one speed, on average: {}. A perfect forecast would still miss one of them by about 0.7 of that, if both vary alike.",
        told.collect::<Vec<_>>().join(", ")
    );
    let section = Section::new("again", "The same pairs measured again")
        .with_finding(finding.clone())
        .with_table(table)
        .with_definition("**Apart**: distance of two measurements of one speed, a share of the speed alone; of a job, as the mean over its partners. **Fitted once**: pairs that fitted in one measurement and not in the other.");
    (finding, section)
}

fn what_groups(test: &GroupTest) -> String {
    let how = match test.couples {
        CouplesKnown::Measured => "from measured couples",
        CouplesKnown::FamilyLeftOut => "from forecast couples, the job's family left out",
    };
    format!("{}, groups, {how}", test.gpu_type)
}

/// Error of the predictor on groups, beside the best of the other ways, in words.
fn of_groups(test: &GroupTest) -> String {
    let what = what_groups(test);
    let Some((own, others)) = test.ways.split_first() else {
        return format!("{what}: no group that fitted has all of its couples measured.");
    };
    let told = |way: &GroupScore| format!("`{}` {}", way.name, format::float(way.mae, 3));
    let best = others.iter().min_by(|a, b| a.mae.total_cmp(&b.mae)).map_or_else(String::new, |best| {
        let better = if best.mae < own.mae { "; **better here** is" } else { "; the best of the others is" };
        format!("{better} {}", told(best))
    });
    let of = own.mae_by_jobs.iter().map(|(jobs, mae)| format!("{} of {jobs} jobs", format::float(*mae, 3)));
    format!(
        "{what}: speeds are missed by **{}** of the speed alone ({}){best}.",
        format::float(own.mae, 3),
        of.collect::<Vec<_>>().join(", ")
    )
}

fn on_groups(test: &GroupTest) -> Section {
    let mut sizes: Vec<usize> = test.ways.iter().flat_map(|way| way.mae_by_jobs.keys().copied()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut columns = vec![Column::text("Way"), Column::number("MAE")];
    columns.extend(sizes.iter().map(|jobs| Column::number(format!("of {jobs} jobs"))));
    columns.extend([
        Column::number("RMSE"),
        Column::number("Bias"),
        Column::number("In 90 %"),
        Column::number("90 % width"),
    ]);
    let mut table = ReportTable::new("Speeds of jobs in groups", columns);
    for way in &test.ways {
        let mut row = vec![way.name.as_str().into(), Cell::float(way.mae, 4)];
        row.extend(sizes.iter().map(|jobs| Cell::opt(way.mae_by_jobs.get(jobs).copied(), |mae| Cell::float(mae, 4))));
        row.extend([
            Cell::float(way.rmse, 4),
            Cell::float(way.bias, 4),
            Cell::opt(way.coverage90, Cell::share),
            Cell::opt(way.width90, |width| Cell::float(width, 3)),
        ]);
        table.rows.push(row);
    }
    let not_scored = if test.not_scored > 0 {
        format!(
            " {} more: some couple of theirs was not measured, or their families cannot be left out.",
            format::count(test.not_scored as u64)
        )
    } else {
        String::new()
    };
    let reach = test.all_reach_low.map_or_else(String::new, |share| {
        format!(
            " In {} of the forecasts of those that fit, every job reached the speed that all reach with a chance of 90 %.",
            format::percent(share)
        )
    });
    let known = match test.couples {
        CouplesKnown::Measured => "measured",
        CouplesKnown::FamilyLeftOut => "left-out",
    };
    let id = format!("groups-{known}-{}", plain(&test.gpu_type));
    Section::new(id, what_groups(test))
        .with_finding(of_groups(test))
        .with_table(table)
        .with_coverage(format!(
            "{}, of which {} did not fit (forecast: {} of them).{reach}{not_scored}",
            format::counted(test.groups as u64, "group", "groups"),
            format::count(test.did_not_fit as u64),
            test.oom_forecast.map_or_else(|| "none".to_owned(), format::percent),
        ))
        .with_definition("`couples_add` is the predictor: every other job lengthens a step by as much as it does alone. `couples_multiply`: speeds beside each other are multiplied. `worst_couple`: the least of them. `equal_turns`: one over the number of jobs. `utilisation`: min(1, 100 / Σ utilisation). `none`: sharing costs nothing.")
        .with_definition("**Bias** is the mean of forecast less speed: above 0 where jobs are forecast too fast. No group teaches.")
}

fn on_slices(slices: &SliceBacktest) -> (String, Section) {
    let columns = vec![
        Column::text("Model"),
        Column::number("MAE"),
        Column::number("Slices in order"),
        Column::number("In 90 %"),
    ];
    let mut table = ReportTable::new("Speed on a slice, relative to the whole GPU", columns);
    for model in &slices.models {
        table.rows.push(vec![
            model.name.as_str().into(),
            Cell::float(model.mae, 4),
            Cell::opt(model.ranked_right, Cell::share),
            Cell::opt(model.coverage90, Cell::share),
        ]);
    }
    let mae = |at: usize| slices.models.get(at).map_or(f64::NAN, |model| model.mae);
    let ranked = |at: usize| slices.models.get(at).and_then(|model| model.ranked_right);
    let order = ranked(1).zip(ranked(0)).map_or_else(String::new, |(model, naive)| {
        format!(
            " It puts {} of couples of slices in the right order, the share of SMs {}.",
            format::percent(model),
            format::percent(naive)
        )
    });
    let finding = format!(
        "{}, slices: left-out families run on a slice at the speed forecast with a mean error of **{}** of the whole GPU's; the share of SMs alone misses by {}.{order}",
        slices.gpu_type,
        format::float(mae(1), 3),
        format::float(mae(0), 3)
    );
    let section = Section::new("slices", format!("{}, MIG slices, families that were left out", slices.gpu_type))
        .with_finding(finding.clone())
        .with_table(table)
        .with_coverage(format!(
            "{} of {}.",
            format::counted(slices.speeds as u64, "speed", "speeds"),
            format::counted(slices.families as u64, "family", "families")
        ));
    (finding, section)
}
