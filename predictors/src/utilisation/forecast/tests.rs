//! Tests of forecasts: by hand, against the back-test, and with drawn tables in which much is unknown.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::past::tests::job;
use super::super::score::score;
use super::*;
use crate::interference::table::{JobProfile, Quantity};

/// Job types of four families at three batch sizes, with utilisation and memory that rise with the batch from a level of each family.
fn types() -> Vec<ProfileRow> {
    let mut rows = Vec::new();
    for (family, level) in [5.0, 9.0, 14.0, 20.0].into_iter().enumerate() {
        for batch in [8.0, 16.0, 32.0] {
            let util: f64 = level * (batch / 8.0f64).sqrt() + if batch > 20.0 { family as f64 } else { 0.0 };
            rows.push(ProfileRow {
                gpu_type: "a100".to_owned(),
                job: format!("m{family} (batch size {batch})"),
                profile: JobProfile::default()
                    .with(Quantity::SmUtilPct, util)
                    .with(Quantity::MemoryMb, 900.0 + 40.0 * level * batch)
                    .with(Quantity::Batch, batch),
                ..ProfileRow::default()
            });
        }
    }
    rows
}

fn table<'r>(rows: impl IntoIterator<Item = &'r ProfileRow>) -> SharingTable {
    let mut table = SharingTable::new();
    for row in rows {
        let (gpu, job) = (table.gpu_type(&row.gpu_type), table.job(&row.job));
        table.set_profile(gpu, job, &row.profile);
    }
    table.sorted()
}

fn asked(gpu_type: &str, job: &str, batch: Option<f64>) -> ProfileRow {
    let mut row = ProfileRow { gpu_type: gpu_type.to_owned(), job: job.to_owned(), ..ProfileRow::default() };
    row.profile.set(Quantity::Batch, batch);
    row
}

#[test]
fn what_is_said_rests_on_what_is_known() {
    let table = table(&types());
    let rows = [
        asked("a100", "m1 (batch size 16)", None),
        asked("a100", "m1 (batch size 64)", Some(64.0)),
        asked("a100", "new", None),
        asked("h100", "m1 (batch size 16)", None),
    ];
    let result = of_types(&table, &rows, 1).unwrap();
    let util: Vec<UsageValue> = result.values.iter().map(|values| values[0].unwrap()).collect();
    let told: Vec<UsageBasis> = util.iter().map(|value| value.rests_on).collect();
    assert_eq!(told, [UsageBasis::JobType, UsageBasis::Family, UsageBasis::OtherFamilies, UsageBasis::FamilyElsewhere]);
    // Measured: 9 √2, the median of its interval as well.
    let measured = 9.0 * 2.0f64.sqrt();
    let around = util[0].quantiles.unwrap();
    assert!((util[0].expected - measured).abs() < 1e-9 && (around.p50 - measured).abs() < 1e-9, "{:?}", util[0]);
    assert!(around.p10 < measured && measured < around.p90);
    // Of its family at a larger batch: 9 √8 = 25.5, by a slope that the others have.
    assert!((util[1].expected - 25.5).abs() < 5.0, "{:?}", util[1]);
    assert_eq!((util[1].model, util[3].model), (util[0].model, util[0].model));
    let left_out: Vec<UsageLeftOut> = result.choices.iter().map(|choice| choice.left_out).collect();
    assert_eq!(left_out, [UsageLeftOut::JobType, UsageLeftOut::Family].repeat(2));
    assert!(result.notes[0].contains("measured on h100, but on a100"), "{:?}", result.notes);
    // What is asked beside it changes nothing, nor what the row itself says of its usage.
    let mut alone = rows[1].clone();
    alone.profile.set(Quantity::SmUtilPct, Some(99.0));
    assert_eq!(of_types(&table, &[alone], 1).unwrap().values[0], result.values[1]);
    assert_eq!(of_types(&table, &rows, 1).unwrap(), result);
}

/// Each family or job type asked about with a table that does not have it: together these are what the back-test reports.
#[test]
fn forecasts_are_those_that_the_back_test_scores() {
    let rows = types();
    let splits = held_out::run(&table(&rows), 1).unwrap();
    for (split, at) in splits.iter().zip([0, 1, 0, 1]) {
        let group = |row: &ProfileRow| match split.left_out {
            UsageLeftOut::Family => family_of_name(&row.job).to_owned(),
            _ => row.job.clone(),
        };
        let mut said = Vec::new();
        // In order of names, as tables are.
        let mut sorted = rows.clone();
        sorted.sort_by(|a, b| a.job.cmp(&b.job));
        for out in sorted.chunk_by(|a, b| group(a) == group(b)) {
            let others = rows.iter().filter(|row| group(row) != group(&out[0]));
            let result = of_types(&table(others), out, 1).unwrap();
            for (row, values) in out.iter().zip(&result.values) {
                let (value, truth) = (values[at].unwrap(), row.profile.get(split.usage.quantity()).unwrap());
                let UsageQuantiles { p05, p10, p50, p90, p95 } = value.quantiles.unwrap();
                let quantiles = [p05, p10, p50, p90, p95].map(f64::ln_1p);
                said.push((UsageForecast { point: value.expected.ln_1p(), quantiles }, truth.ln_1p()));
            }
        }
        let (one, other) = (split.models.last().unwrap(), score(UsageModelName::Choice, &said, None).unwrap());
        assert!(
            (one.rmsle - other.rmsle).abs() < 1e-9 && (one.width90 - other.width90).abs() < 1e-6,
            "{one:?} {other:?}"
        );
        assert_eq!((one.coverage80, one.coverage90), (other.coverage80, other.coverage90));
    }
}

#[test]
fn too_little_is_told_and_never_guessed() {
    let few: Vec<ProfileRow> = types().into_iter().take(2).collect();
    let rows = [asked("a100", "m0 (batch size 8)", None), asked("a100", "new", None)];
    let result = of_types(&table(&few), &rows, 1).unwrap();
    let measured = result.values[0][0].unwrap();
    assert_eq!((measured.expected, measured.quantiles, measured.model), (5.0, None, None));
    assert_eq!(result.values[1], [None, None]);
    assert!(result.notes[0].contains("2 job types, and 3 are needed"), "{:?}", result.notes);
    let told = of_types(&table(&few), &rows[1..], 1).unwrap_err().to_string();
    assert!(told.contains("nothing can be said of any row") && told.contains("sm_util_pct"), "{told}");
}

#[test]
fn waiting_jobs_are_told_by_their_group() {
    // Drawn, as in an order that repeats the job before would tell as much as the group.
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut one = |at: i64| {
        let (user, name, util) = [("ann", "a", 20.0), ("ben", "b", 40.0), ("ben", "e", 66.0)][rng.random_range(0..3)];
        let reads: Vec<f64> = (0..4).map(|_| util + rng.random_range(-4.0..4.0)).collect();
        job(user, &format!("work-{name}-{at}"), at * 10, &reads)
    };
    let history =
        UsageHistory { jobs: (0..200).map(&mut one).collect(), first_ms: Some(-1), ..UsageHistory::default() };
    let of = |user: &str, name: &str| {
        let mut known = history.jobs[0].known.clone();
        (known.user, known.name) = (Some(user.to_owned()), Some(name.to_owned()));
        AskedJob { id: None, known }
    };
    let asked = [of("ben", "work-e-999"), of("ben", "other"), of("zoe", "work-e-999")];
    let result = of_jobs(&history, &asked, 1).unwrap();
    let util: Vec<UsageValue> = result.values.iter().map(|values| values[0].unwrap()).collect();
    let told: Vec<UsageBasis> = util.iter().map(|value| value.rests_on).collect();
    assert_eq!(told, [UsageBasis::RecurringGroup, UsageBasis::User, UsageBasis::Size]);
    // 66 % were read of work-e, give and take 4; of all jobs 20 to 66 %.
    assert!((60.0..72.0).contains(&util[0].expected), "{:?}", util[0]);
    let width = |value: &UsageValue| value.quantiles.unwrap().p90 - value.quantiles.unwrap().p10;
    assert!(width(&util[0]) < 30.0, "{:?}", util[0]);
    assert_eq!(of_jobs(&history, &asked[..1], 1).unwrap().values[0], result.values[0]);
    let few = UsageHistory { jobs: history.jobs[..10].to_vec(), ..history };
    let told = of_jobs(&few, &asked, 1).unwrap_err().to_string();
    assert!(told.contains("20 such jobs are needed"), "{told}");
}

/// Whatever is unknown, every number is one, and quantiles are in order.
#[test]
fn nothing_unknown_becomes_no_number() {
    let quantities = [
        Quantity::SmUtilPct,
        Quantity::MemoryMb,
        Quantity::Batch,
        Quantity::Flops,
        Quantity::Parameters,
        Quantity::PrecisionBits,
        Quantity::PowerW,
        Quantity::PcieMbS,
    ];
    let mut told = 0;
    for seed in 0..150 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = rng.random_range(3..9);
        let mut row = |at: usize| {
            let mut profile = JobProfile::default();
            for quantity in quantities {
                profile.set(quantity, rng.random_bool(0.6).then(|| rng.random_range(0.0..100.0)));
            }
            ProfileRow {
                gpu_type: format!("g{}", rng.random_range(0..3)),
                job: format!("m{} (batch size {at})", rng.random_range(0..4)),
                profile,
                ..ProfileRow::default()
            }
        };
        let rows: Vec<ProfileRow> = (0..count).map(&mut row).collect();
        let mut asked = rows.clone();
        asked.extend((0..3).map(&mut row));
        asked.push(ProfileRow { gpu_type: "other".to_owned(), job: "new".to_owned(), ..ProfileRow::default() });
        let Ok(result) = of_types(&table(&rows), &asked, 1) else { continue };
        for (usage, value) in result.values.iter().flat_map(|values| Usage::ALL.into_iter().zip(values)) {
            let Some(value) = value else { continue };
            told += 1;
            let of = |quantiles: UsageQuantiles| {
                let UsageQuantiles { p05, p10, p50, p90, p95 } = quantiles;
                [p05, p10, p50, p90, p95]
            };
            let numbers: Vec<f64> = value.quantiles.map(of).into_iter().flatten().collect();
            assert!(numbers.is_sorted(), "{value:?}");
            let whole = |number: &f64| (0.0..=usage.most() * (1.0 + 1e-9)).contains(number);
            assert!(numbers.iter().chain([&value.expected]).all(whole), "{value:?}");
        }
    }
    assert!(told > 1_000, "{told}");
}
