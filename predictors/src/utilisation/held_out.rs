//! The back-test on profiles of job types: families that were left out, and job types of known families.
//!
//! A **family** is left out with all its job types, on all GPU types: only what is known of a model's graph (FLOPs, parameters, batch, precision) and the other families speak for
//! it. Then some **job types** are left out at a time, so that a family is known from its other batch sizes; learners then also know the value of the nearest batch size.
//!
//! Quantiles come from groups left out of what teaches, each group with the same weight. `choice` takes, for each group that is left out, the model of least RMSLE on the groups
//! that teach; so what is reported has no part in it. A forecast of a new job type ([`super::forecast`]) is one more such group: the whole table teaches, and its groups are left out to
//! choose the model and to draw the quantiles.
//! Groups are left out in at most 16 folds. O(folds² × learners × rows). Worked number: 33 rows of 9 families are 9 folds with 8 inner ones each.

use std::collections::BTreeMap;

use super::backtest::UsageSplit;
use super::history::Usage;
use super::learner::{Reach, UsageForecast, learn};
use super::model::{UsageLeftOut, UsageModel, UsageModelName};
use super::score::{Said, rmsle, score};
use crate::error::{Error, Result};
use crate::interference::table::{JobProfile, Quantity, SharingTable, distinct};
use crate::matrix::Matrix;

/// Fewest groups of which one can be left out, and another one of the others to choose by.
pub(super) const LEAST_FOLDS: usize = 3;
/// Most folds. Time grows with their square, as each has as many inner ones; each then leaves out a sixteenth at most, so that what teaches is nearly whole.
const FOLDS: usize = 16;
/// Features of a model's graph, as logs: quantities known before a job runs, which Horus takes from
/// the graph. All are sizes, so ratios count.
pub(super) const GRAPH: [Quantity; 4] =
    [Quantity::Flops, Quantity::Parameters, Quantity::Batch, Quantity::PrecisionBits];
/// Most GPU types that are told apart, a column each: of more, those after the eighth look alike to the learners. Rules know all.
const GPU_TYPES: usize = 8;
/// Columns of a row: the graph, the GPU type, the nearest batch size.
const COLUMNS: usize = GRAPH.len() + GPU_TYPES + 1;

/// A job type on a GPU type, of which a usage is known or asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Profiled {
    /// GPU type; none if the table that teaches does not have it.
    pub(super) gpu: Option<usize>,
    /// Family, the same.
    pub(super) family: Option<usize>,
    /// Job type, the same.
    pub(super) job: Option<usize>,
    /// Group that is left out together.
    fold: usize,
    /// ln(1 + value); 0 of what is asked about.
    pub(super) y: f64,
    graph: [Option<f64>; GRAPH.len()],
}

impl Profiled {
    /// A row that is asked about, of unknown usage.
    pub(super) fn asked(gpu: Option<usize>, family: Option<usize>, job: Option<usize>, profile: &JobProfile) -> Self {
        Self { gpu, family, job, fold: usize::MAX, y: 0.0, graph: graph(profile) }
    }

    fn log_batch(&self) -> Option<f64> {
        let [_, _, batch, _] = self.graph;
        batch
    }
}

fn graph(profile: &JobProfile) -> [Option<f64>; GRAPH.len()] {
    GRAPH.map(|quantity| profile.get(quantity).filter(|value| *value > 0.0).map(f64::ln))
}

/// The job types of a table of which a usage is known, dealt to folds.
pub(super) fn profiled(table: &SharingTable, usage: Usage, left_out: UsageLeftOut) -> Vec<Profiled> {
    let mut rows = Vec::new();
    // Groups that have a row, numbered in their order, are dealt to the folds in turn.
    let mut groups: BTreeMap<usize, usize> = BTreeMap::new();
    for job in 0..table.jobs().len() {
        let group = if left_out == UsageLeftOut::Family { table.family(job) } else { job };
        for gpu in 0..table.gpu_types().len() {
            let profile = table.profile(gpu, job);
            let Some(value) = profile.get(usage.quantity()) else { continue };
            let next = groups.len();
            let fold = *groups.entry(group).or_insert(next) % FOLDS;
            rows.push(Profiled {
                gpu: Some(gpu),
                family: Some(table.family(job)),
                job: Some(job),
                fold,
                y: value.ln_1p(),
                graph: graph(&profile),
            });
        }
    }
    rows
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The mean of what teaches, each family with the same weight: on the GPU type asked about, else on all.
fn mean_of(rows: &[Profiled], request: &Profiled) -> f64 {
    let of = |here: &dyn Fn(&Profiled) -> bool| {
        let mut families: BTreeMap<Option<usize>, (f64, u32)> = BTreeMap::new();
        for row in rows.iter().filter(|row| here(row)) {
            let (sum, count) = families.entry(row.family).or_default();
            *sum += row.y;
            *count += 1;
        }
        mean(families.into_values().map(|(sum, count)| sum / f64::from(count)))
    };
    of(&|row| row.gpu == request.gpu).or_else(|| of(&|_| true)).unwrap_or_default()
}

/// Rows to forecast the asked one from: of its family on its GPU type, of its family, or on its GPU
/// type; else all.
fn nearest_kin<'r>(rows: &'r [Profiled], request: &Profiled) -> (bool, Vec<&'r Profiled>) {
    let family = |row: &&Profiled| row.family == request.family;
    let gpu = |row: &&Profiled| row.gpu == request.gpu;
    let own: Vec<&Profiled> = rows.iter().filter(|row| family(row) && gpu(row)).collect();
    if !own.is_empty() {
        return (true, own);
    }
    let own: Vec<&Profiled> = rows.iter().filter(family).collect();
    if !own.is_empty() {
        return (true, own);
    }
    let here: Vec<&Profiled> = rows.iter().filter(gpu).collect();
    (false, if here.is_empty() { rows.iter().collect() } else { here })
}

/// The mean of the kin nearest in batch size.
fn nearest(rows: &[Profiled], request: &Profiled) -> f64 {
    let (_, kin) = nearest_kin(rows, request);
    let far = |row: &Profiled| row.log_batch().zip(request.log_batch()).map(|(one, other)| (one - other).abs());
    let least = kin.iter().copied().filter_map(far).fold(f64::INFINITY, f64::min);
    let near = kin.iter().copied().filter(|row| far(row).is_none_or(|far| far <= least + 1e-9)).map(|row| row.y);
    mean(near).unwrap_or_else(|| mean_of(rows, request))
}

/// GPU type and family.
type GpuFamily = (Option<usize>, Option<usize>);

/// The mean of the kin and one slope against log batch within families, for all of them.
fn group(rows: &[Profiled], request: &Profiled) -> f64 {
    let (of_family, kin) = nearest_kin(rows, request);
    let mut within: BTreeMap<GpuFamily, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        if let Some(batch) = row.log_batch() {
            within.entry((row.gpu, row.family)).or_default().push((batch, row.y));
        }
    }
    let (mut xy, mut xx) = (0.0, 0.0);
    for points in within.values() {
        let middle = |of: fn(&(f64, f64)) -> f64| mean(points.iter().map(of)).unwrap_or_default();
        let (x0, y0) = (middle(|point| point.0), middle(|point| point.1));
        xy += points.iter().map(|(x, y)| (x - x0) * (y - y0)).sum::<f64>();
        xx += points.iter().map(|(x, _)| (x - x0).powi(2)).sum::<f64>();
    }
    let slope = if xx > 1e-9 { xy / xx } else { 0.0 };
    let level = if of_family { mean(kin.iter().map(|row| row.y)).unwrap_or_default() } else { mean_of(rows, request) };
    let far = request.log_batch().zip(mean(kin.iter().filter_map(|row| row.log_batch())));
    level + far.map_or(0.0, |(own, usual)| slope * (own - usual))
}

/// A row for the learners; `near` is the value of the nearest batch size where others of the family teach.
fn fill(row: &Profiled, near: Option<f64>, into: &mut [f32]) {
    let types = (0..GPU_TYPES).map(|gpu| Some(f64::from(u8::from(row.gpu == Some(gpu)))));
    for (slot, value) in into.iter_mut().zip(row.graph.into_iter().chain(types).chain([near])) {
        *slot = value.map_or(f32::NAN, |value| value as f32);
    }
}

/// Forecasts of a model fitted to `rows`, for the rows `asked`.
pub(super) fn say(
    model: UsageModel,
    rows: &[Profiled],
    request: &[Profiled],
    left_out: UsageLeftOut,
    seed: u64,
) -> Result<Vec<UsageForecast>> {
    let rule: Option<fn(&[Profiled], &Profiled) -> f64> = match model {
        UsageModel::Mean => Some(mean_of),
        UsageModel::Last => Some(nearest),
        UsageModel::Group => Some(group),
        _ => None,
    };
    if let Some(rule) = rule {
        return Ok(request.iter().map(|one| UsageForecast::one(rule(rows, one))).collect());
    }
    let (mut learn_from, mut ask) = (Matrix::new(COLUMNS), Matrix::new(COLUMNS));
    let near = |rows: &[Profiled], row: &Profiled| (left_out == UsageLeftOut::JobType).then(|| nearest(rows, row));
    for row in rows {
        // Without its own group, as it will be for those asked about.
        let others: Vec<Profiled> = rows.iter().filter(|other| other.fold != row.fold).copied().collect();
        fill(row, near(&others, row), learn_from.push());
    }
    for row in request {
        fill(row, near(rows, row), ask.push());
    }
    let labels: Vec<f32> = rows.iter().map(|row| row.y as f32).collect();
    learn(model, &learn_from, &labels, &ask, seed)
}

/// Rows of a fold, and all others.
fn parted(rows: &[Profiled], fold: usize) -> (Vec<Profiled>, Vec<Profiled>) {
    rows.iter().copied().partition(|row| row.fold == fold)
}

/// The folds that rows are in.
pub(super) fn folds_of(rows: &[Profiled]) -> Vec<usize> {
    distinct(rows.iter().map(|row| row.fold))
}

/// Forecasts of a model for rows, each fold left out in turn.
struct HeldBack {
    rows: Vec<Profiled>,
    said: Said,
    /// Move of each quantile: all folds have the same weight.
    reach: Reach,
}

fn held_back(model: UsageModel, rows: &[Profiled], left_out: UsageLeftOut, seed: u64) -> Result<HeldBack> {
    let folds = folds_of(rows);
    let (mut request, mut said, mut weights) = (Vec::with_capacity(rows.len()), Vec::new(), Vec::new());
    for fold in &folds {
        let (ask, teach) = parted(rows, *fold);
        let told = say(model, &teach, &ask, left_out, seed)?;
        said.extend(told.into_iter().zip(ask.iter().map(|row| row.y)));
        weights.resize(said.len(), 1.0 / ask.len().max(1) as f64);
        request.extend(ask);
    }
    let reach = Reach::weighted(&said, &weights, folds.len());
    Ok(HeldBack { rows: request, said, reach })
}

/// The model that is chosen for what is not in a table.
pub(super) struct Chosen {
    pub(super) model: UsageModel,
    /// RMSLE on the groups left out, by which the model was chosen.
    pub(super) rmsle: f64,
    pub(super) reach: Reach,
    /// Forecast of each row of the table while it was left out.
    pub(super) held_back: Vec<(Profiled, UsageForecast)>,
}

/// The model of least RMSLE, each group of the rows left out in turn; `None` of fewer than three groups.
pub(super) fn choose(rows: &[Profiled], left_out: UsageLeftOut, seed: u64) -> Result<Option<Chosen>> {
    if folds_of(rows).len() < LEAST_FOLDS {
        return Ok(None);
    }
    let mut chosen: Option<Chosen> = None;
    for model in UsageModel::ALL {
        let result = held_back(model, rows, left_out, seed)?;
        // Of equal ones the first, which is the simpler.
        let better = |missed: &f64| chosen.as_ref().is_none_or(|least| *missed < least.rmsle);
        if let Some(rmsle) = rmsle(&result.said).filter(better) {
            let told = result.said.into_iter().map(|(told, _)| told);
            chosen = Some(Chosen {
                model,
                rmsle,
                reach: result.reach,
                held_back: result.rows.into_iter().zip(told).collect(),
            });
        }
    }
    Ok(chosen)
}

fn one(table: &SharingTable, usage: Usage, left_out: UsageLeftOut, seed: u64) -> Result<Option<UsageSplit>> {
    let rows = profiled(table, usage, left_out);
    let folds = folds_of(&rows);
    if folds.len() < LEAST_FOLDS {
        return Ok(None);
    }
    let mut models = Vec::new();
    // Of each fold: the least RMSLE on what teaches, and what the model that has it said.
    let mut choice: Vec<Option<(f64, Said)>> = vec![None; folds.len()];
    for model in UsageModel::ALL {
        let (mut said, mut all_held_back) = (Vec::new(), Vec::new());
        for (fold, choice) in folds.iter().zip(&mut choice) {
            let (request, others) = parted(&rows, *fold);
            let HeldBack { said: missed, reach, .. } = held_back(model, &others, left_out, seed)?;
            let told = say(model, &others, &request, left_out, seed)?;
            let here: Said = told
                .into_iter()
                .map(|told| told.reaching(&reach, usage))
                .zip(request.iter().map(|row| row.y))
                .collect();
            // Of equal ones the first, which is the simpler.
            if let Some(missed) = rmsle(&missed)
                && choice.as_ref().is_none_or(|(least, _)| missed < *least)
            {
                *choice = Some((missed, here.clone()));
            }
            said.extend(here);
            all_held_back.extend(missed);
        }
        models.extend(score(model.named(left_out), &said, rmsle(&all_held_back)));
    }
    let chosen: Said = choice.into_iter().flatten().flat_map(|(_, said)| said).collect();
    models.extend(score(UsageModelName::Choice, &chosen, None));
    Ok(Some(UsageSplit {
        usage,
        left_out,
        taught: rows.len(),
        folds: folds.len(),
        scored: rows.len(),
        mean: mean(rows.iter().map(|row| row.y.exp_m1())).unwrap_or_default(),
        models,
        chosen: UsageModelName::Choice,
        by_known: Vec::new(),
    }))
}

/// Tests what is said of the utilisation and the memory of the job types of a table of profiles.
///
/// # Errors
/// If neither is known of job types of three families, or a learner fails.
pub fn run(table: &SharingTable, seed: u64) -> Result<Vec<UsageSplit>> {
    let mut splits = Vec::new();
    for left_out in [UsageLeftOut::Family, UsageLeftOut::JobType] {
        for usage in Usage::ALL {
            splits.extend(one(table, usage, left_out, seed)?);
        }
    }
    if splits.iter().all(|split| split.left_out != UsageLeftOut::Family) {
        return Err(Error::TooFew(format!(
            "{} job types of {} families: utilisation (sm_util_pct) or memory (memory_mb) of job types of three families at least is needed to leave one out",
            table.jobs().len(),
            table.families().len()
        )));
    }
    Ok(splits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::interference::table::JobProfile;

    /// Six families at four batch sizes; utilisation rises with the batch from a level of each family.
    fn table() -> SharingTable {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("a100");
        for (family, level) in [5.0, 9.0, 14.0, 20.0, 27.0, 35.0].into_iter().enumerate() {
            for batch in [8.0, 16.0, 32.0, 64.0] {
                let job = table.job(&format!("m{family} (batch size {batch})"));
                let util: f64 = level * (batch / 8.0f64).sqrt();
                let profile =
                    JobProfile::default().with(Quantity::SmUtilPct, util.min(100.0)).with(Quantity::Batch, batch);
                table.set_profile(gpu, job, &profile);
            }
        }
        table.sorted()
    }

    use UsageModelName::{Choice, Group, Mean};

    #[test]
    fn a_known_family_tells_what_a_new_one_cannot() {
        let splits = run(&table(), 1).unwrap();
        let told: Vec<(UsageLeftOut, usize, usize)> =
            splits.iter().map(|split| (split.left_out, split.folds, split.scored)).collect();
        // Memory is unknown: nothing is said of it. 24 job types are dealt to 16 folds.
        assert_eq!(told, [(UsageLeftOut::Family, 6, 24), (UsageLeftOut::JobType, 16, 24)]);
        let of = |split: &UsageSplit, name| split.models.iter().find(|model| model.name == name).unwrap().rmsle;
        let (family, job_type) = (&splits[0], &splits[1]);
        // The slope is the same for all families, and their levels are not: with the family known, nearly nothing is missed.
        assert!(of(job_type, Group) < 0.15 && of(job_type, Group) < of(family, Group) / 3.0, "{splits:?}");
        assert!(of(family, Group) < of(family, Mean), "{splits:?}");
        assert_eq!((job_type.chosen, of(job_type, Choice)), (Choice, of(job_type, Group)));
        assert_eq!(run(&table(), 1).unwrap(), splits);
    }

    #[test]
    fn what_is_left_out_teaches_nothing() {
        let rows = profiled(&table(), Usage::GpuUtilPct, UsageLeftOut::Family);
        let (request, others) = parted(&rows, rows[0].fold);
        assert!(request.iter().all(|row| others.iter().all(|other| other.family != row.family)));
        let mut garbled = request.clone();
        garbled.iter_mut().for_each(|row| row.y = 0.0);
        for model in UsageModel::ALL {
            let say = |request: &[Profiled]| say(model, &others, request, UsageLeftOut::Family, 1).unwrap();
            assert_eq!(say(&request), say(&garbled), "{model:?}");
        }
    }

    #[test]
    fn rules_on_profiles_by_hand() {
        let row = |family: usize, batch: f64, y: f64| Profiled {
            gpu: Some(0),
            family: Some(family),
            job: None,
            fold: family,
            y,
            graph: [None, None, Some(batch.ln()), None],
        };
        let rows = [row(0, 8.0, 2.0), row(0, 16.0, 3.0), row(1, 8.0, 4.0), row(1, 32.0, 6.0)];
        // Slope within families: 1 in ln 2 of the first, 2 in 2 ln 2 of the second.
        let request = row(1, 16.0, 0.0);
        assert!((group(&rows, &request) - 5.0).abs() < 1e-9, "{}", group(&rows, &request));
        assert!((nearest(&rows, &request) - 5.0).abs() < 1e-9, "both are as near");
        let unknown = row(7, 8.0, 0.0);
        assert!((nearest(&rows, &unknown) - 3.0).abs() < 1e-9);
        assert!((mean_of(&rows, &unknown) - 3.75).abs() < 1e-9);
    }

    #[test]
    fn two_families_are_too_few() {
        let mut table = SharingTable::new();
        let (gpu, job) = (table.gpu_type("g"), table.job("a"));
        table.set_profile(gpu, job, &JobProfile::default().with(Quantity::SmUtilPct, 4.0));
        let told = run(&table, 1).unwrap_err().to_string();
        assert!(told.contains("three families"), "{told}");
    }
}
