//! Utilisation on real measurements: families of models that were left out, and pods in order of time.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use tracecast_analytics::ingest::{self, ReadOptions, SourceMapping};
use tracecast_analytics::storage;
use tracecast_predictors::interference::read::read_profiles;
use tracecast_predictors::interference::table::SharingTable;
use tracecast_predictors::utilisation::backtest::{self, UsageLeftOut, UsageSplit};
use tracecast_predictors::utilisation::held_out;
use tracecast_predictors::utilisation::history::{Usage, UsageHistory};
use tracecast_predictors::utilisation::score::UsageScore;
use tracecast_tests::real_trace;

fn named<'a>(split: &'a UsageSplit, name: &str) -> &'a UsageScore {
    split.models.iter().find(|model| model.name == name).unwrap()
}

fn tell(splits: &[UsageSplit]) {
    for split in splits {
        println!(
            "{:?}, {:?}: {} scored, {} folds, chosen {}",
            split.usage, split.left_out, split.scored, split.folds, split.chosen
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
    let share = |split: &UsageSplit| named(split, "choice").rmsle / named(split, "mean").rmsle;
    let shares: Vec<f64> = splits.iter().map(share).collect();
    assert!((0.9..1.1).contains(&shares[0]) && (0.9..1.2).contains(&shares[1]), "{shares:?}");
    assert!(shares[2] < 0.6 && shares[3] < 0.85, "{shares:?}");
    for split in &splits {
        let held = named(split, "choice").coverage90;
        assert!((0.8..=0.98).contains(&held), "{:?}, {:?}: {held}", split.usage, split.left_out);
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
    let history = UsageHistory::of(&trace).unwrap();
    println!("{} pods, {:?}", history.jobs.len(), history.notes);
    let splits = backtest::run(&history, 1).unwrap();
    tell(&splits);
    assert_eq!(history.jobs.len(), 144);
    assert!(splits.iter().all(|split| split.scored < 10), "too few pods began within the day to say more");
}

#[test]
fn the_sample_has_no_more_to_learn_than_the_mean() {
    let trace = storage::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample")).unwrap();
    let splits = backtest::run(&UsageHistory::of(&trace).unwrap(), 1).unwrap();
    tell(&splits);
    for split in &splits {
        // Utilisation was drawn job by job: no past tells it, and no model may seem to know it.
        let mean = named(split, "mean");
        assert!(split.models.iter().all(|model| model.rmsle > 0.9 * mean.rmsle), "{:?}", split.usage);
    }
    let told: Vec<(Usage, UsageLeftOut)> = splits.iter().map(|split| (split.usage, split.left_out)).collect();
    assert_eq!(told, [(Usage::GpuUtilPct, UsageLeftOut::Later), (Usage::MemoryMb, UsageLeftOut::Later)]);
}
