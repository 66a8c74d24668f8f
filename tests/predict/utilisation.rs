//! Utilisation on real measurements: families of models that were left out, and pods in order of time.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tracecast_analytics::ingest::{self, ReadOptions, SourceMapping};
use tracecast_analytics::storage;
use tracecast_predictors::interference::read::{ProfileRow, profile_rows, read_profiles};
use tracecast_predictors::interference::table::{SharingTable, family_of_name};
use tracecast_predictors::utilisation::backtest::{self, UsageSplit};
use tracecast_predictors::utilisation::forecast::{self, UsageBasis};
use tracecast_predictors::utilisation::held_out;
use tracecast_predictors::utilisation::history::{Usage, UsageHistory};
use tracecast_predictors::utilisation::model::{UsageLeftOut, UsageModelName};
use tracecast_predictors::utilisation::score::UsageScore;
use tracecast_tests::real_trace;

fn named(split: &UsageSplit, name: UsageModelName) -> &UsageScore {
    split.models.iter().find(|model| model.name == name).unwrap()
}

fn tell(splits: &[UsageSplit]) {
    for split in splits {
        println!(
            "{:?}, {:?}: {} scored, {} folds, chosen {}",
            split.usage,
            split.left_out,
            split.scored,
            split.folds,
            split.chosen.name()
        );
        split.models.iter().for_each(|model| println!("  {model:?}"));
        split.by_known.iter().for_each(|by| println!("  {by:?}"));
    }
}

#[test]
fn misos_models() {
    let Some(path) = real_trace("miso_a100/profiles.csv") else { return };
    let mut table = SharingTable::new();
    read_profiles(&path, &mut table).unwrap();
    let splits = held_out::run(&table.sorted(), 1).unwrap();
    tell(&splits);
    let told: Vec<(Usage, UsageLeftOut, usize, usize)> =
        splits.iter().map(|split| (split.usage, split.left_out, split.scored, split.folds)).collect();
    let known = |left_out, folds| Usage::ALL.map(|usage| (usage, left_out, 33, folds));
    assert_eq!(told, [known(UsageLeftOut::Family, 9), known(UsageLeftOut::JobType, 16)].concat());
    // With the batch size alone, a new model is no better known than by the mean; with its family known, it is.
    let share =
        |split: &UsageSplit| named(split, UsageModelName::Choice).rmsle / named(split, UsageModelName::Mean).rmsle;
    let shares: Vec<f64> = splits.iter().map(share).collect();
    assert!((0.9..1.1).contains(&shares[0]) && (0.9..1.2).contains(&shares[1]), "{shares:?}");
    assert!(shares[2] < 0.6 && shares[3] < 0.85, "{shares:?}");
    for split in &splits {
        let held = named(split, UsageModelName::Choice).coverage90;
        assert!((0.8..=0.98).contains(&held), "{:?}, {:?}: {held}", split.usage, split.left_out);
    }
}

/// Each model asked about with a table that does not have it: together these forecasts are what the back-test reports.
#[test]
fn forecasts_of_misos_models_are_those_that_were_tested() {
    let Some(path) = real_trace("miso_a100/profiles.csv") else { return };
    let mut rows = Vec::new();
    profile_rows(&path, |row| rows.push(row)).unwrap();
    let table = |rows: &mut dyn Iterator<Item = &ProfileRow>| {
        let mut table = SharingTable::new();
        for row in rows {
            let (gpu, job) = (table.gpu_type(&row.gpu_type), table.job(&row.job));
            table.set_profile(gpu, job, &row.profile);
        }
        table.sorted()
    };
    let splits = held_out::run(&table(&mut rows.iter()), 1).unwrap();
    let families: BTreeSet<&str> = rows.iter().map(|row| family_of_name(&row.job)).collect();
    let (mut missed, mut held) = ([0.0; 2], [0usize; 2]);
    for family in families {
        let of = |row: &&ProfileRow| family_of_name(&row.job) == family;
        let asked: Vec<ProfileRow> = rows.iter().filter(of).cloned().collect();
        let found = forecast::of_types(&table(&mut rows.iter().filter(|row| !of(row))), &asked, 1).unwrap();
        for (row, values) in asked.iter().zip(&found.values) {
            for (at, (usage, value)) in Usage::ALL.into_iter().zip(values).enumerate() {
                let (value, came) = (value.unwrap(), row.profile.get(usage.quantity()).unwrap());
                let quantiles = value.quantiles.unwrap();
                assert_eq!(value.rests_on, UsageBasis::OtherFamilies);
                missed[at] += (value.expected.ln_1p() - came.ln_1p()).powi(2);
                held[at] += usize::from((quantiles.p05 - 1e-6..=quantiles.p95 + 1e-6).contains(&came));
            }
        }
    }
    for (split, (missed, held)) in splits.iter().zip(missed.into_iter().zip(held)) {
        let choice = named(split, UsageModelName::Choice);
        let count = rows.len() as f64;
        println!("{:?}: RMSLE {}, in 90 % {}", split.usage, (missed / count).sqrt(), held as f64 / count);
        assert!((choice.rmsle - (missed / count).sqrt()).abs() < 1e-9 && choice.coverage90 == held as f64 / count);
    }
}

/// The one file of an archive (tar, gzip), written into a folder.
fn unpacked(archive: &Path, folder: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(archive).unwrap()).read_to_end(&mut bytes).unwrap();
    let text = |range: std::ops::Range<usize>| std::str::from_utf8(&bytes[range]).unwrap().trim_matches(['\0', ' ']);
    let length = usize::from_str_radix(text(124..136), 8).unwrap();
    let file = folder.join(text(0..100));
    std::fs::write(&file, &bytes[512..512 + length]).unwrap();
    file
}

#[test]
fn pods_of_generative_ai() {
    let names = ["duty_cycle", "memory"];
    let archives = ["pod_gpu_duty_cycle_anon.tar.gz", "pod_gpu_memory_used_bytes_anon.tar.gz"];
    let [Some(duty), Some(memory)] = archives.map(|file| real_trace(&format!("genai_telemetry_2026/{file}"))) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let files = [duty, memory].map(|archive| unpacked(&archive, folder.path()));
    let mapping =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../datasets/mappings/genai/{name}.toml"));
    let of = |(source, name): (&PathBuf, &str)| SourceMapping { source: source.clone(), mapping: mapping(name) };
    let options = ReadOptions { mappings: files.iter().zip(names).map(of).collect(), ..ReadOptions::default() };
    let trace = ingest::read(&ingest::expand(&files).unwrap(), &options).unwrap();
    let history = UsageHistory::new(&trace).unwrap();
    println!("{} pods, {:?}", history.jobs.len(), history.notes);
    let splits = backtest::run(&history, 1).unwrap();
    tell(&splits);
    assert_eq!(history.jobs.len(), 144);
    assert!(splits.iter().all(|split| split.scored < 10), "too few pods began within the day to say more");
}

#[test]
fn the_sample_has_no_more_to_learn_than_the_mean() {
    let trace = storage::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample")).unwrap();
    let splits = backtest::run(&UsageHistory::new(&trace).unwrap(), 1).unwrap();
    tell(&splits);
    for split in &splits {
        // Utilisation was drawn job by job: no past tells it, and no model may seem to know it.
        let mean = named(split, UsageModelName::Mean);
        assert!(split.models.iter().all(|model| model.rmsle > 0.9 * mean.rmsle), "{:?}", split.usage);
    }
    let told: Vec<(Usage, UsageLeftOut)> = splits.iter().map(|split| (split.usage, split.left_out)).collect();
    assert_eq!(told, [(Usage::GpuUtilPct, UsageLeftOut::Later), (Usage::MemoryMb, UsageLeftOut::Later)]);
}
