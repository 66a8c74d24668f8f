//! Auditing a day of telemetry of a large fleet: `cargo bench -p tracecast-analytics --bench audit -- [OPTIONS]`.
//!
//! Options: `--gpus N` (150,000), `--minutes N` (1,440), `--order time|gpu` (time), `--folder PATH` (a temporary one; the
//! file is removed in the end, unless a folder is given), `--threads N` (one a core), `--rounds N` (3), `--seed N` (1).
//!
//! Makes a Parquet file of the table `gpu_samples` (eight GPUs a node; power follows utilisation, the energy counter follows
//! power; one GPU in a hundred has no counter, one reading in a thousand is missing, one counter in 500 is reset in the day),
//! then scans it plainly and audits it, by turns. The plain scan decodes the same columns with the same reader, batch size
//! and threads and adds up every one of them (of names the keys). Prints rows per second, the ratio of the medians, and the peak
//! of resident memory of each, measured in a process of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::DictionaryArray;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, TimeUnit, TimestampMillisecondType};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use tracecast_analytics::energy::meter::Options;
use tracecast_analytics::energy::stream::measure_stream;

const START_MS: i64 = 1_780_000_000_000 / 86_400_000 * 86_400_000;
const ROW_GROUP: usize = 1 << 18;

/// Settings from the command line.
struct Settings {
    gpus: usize,
    minutes: usize,
    by_gpu: bool,
    folder: Option<PathBuf>,
    threads: usize,
    rounds: usize,
    seed: u64,
    only: Option<String>,
}

fn main() {
    let mut settings = Settings {
        gpus: 150_000,
        minutes: 1_440,
        by_gpu: false,
        folder: None,
        threads: 0,
        rounds: 3,
        seed: 1,
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--bench" {
            continue;
        }
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match name.as_str() {
            "--gpus" => settings.gpus = value.parse().unwrap(),
            "--minutes" => settings.minutes = value.parse().unwrap(),
            "--order" => settings.by_gpu = value == "gpu",
            "--folder" => settings.folder = Some(value.into()),
            "--threads" => settings.threads = value.parse().unwrap(),
            "--rounds" => settings.rounds = value.parse().unwrap(),
            "--seed" => settings.seed = value.parse().unwrap(),
            "--only" => settings.only = Some(value),
            _ => panic!("unknown option {name}"),
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = settings.folder.as_deref().unwrap_or(scratch.path()).join("gpu_samples.parquet");
    if let Some(only) = &settings.only {
        return alone(only, &path, settings.threads);
    }
    let rows = settings.gpus * settings.minutes;
    if !path.exists() {
        let begun = Instant::now();
        generate(&path, &settings);
        println!(
            "made {rows} rows, {} MiB, in {:.1} s",
            path.metadata().unwrap().len() >> 20,
            begun.elapsed().as_secs_f64()
        );
    }
    let mut times: [Vec<f64>; 2] = Default::default();
    let mut peaks = [0_u64; 2];
    for _ in 0..settings.rounds {
        for (place, only) in ["scan", "audit"].into_iter().enumerate() {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--only", only, "--threads", &settings.threads.to_string(), "--folder"])
                .arg(path.parent().unwrap())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            let mut fields = text.lines().next().unwrap().split(' ');
            times[place].push(fields.next().unwrap().parse().unwrap());
            peaks[place] = peaks[place].max(fields.next().unwrap().parse().unwrap());
            text.lines().skip(1).for_each(|line| println!("  {only}: {line}"));
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let [scan, audit] = times.each_mut().map(median);
    for (name, s, kib) in [("plain scan", scan, peaks[0]), ("audit", audit, peaks[1])] {
        println!("{name}: {s:.2} s, {:.1} M rows/s, peak {} MiB", rows as f64 / s / 1e6, kib >> 10);
    }
    println!("audit / plain scan: {:.2}", audit / scan);
}

/// One measurement: seconds and peak KiB, then what was found.
fn alone(only: &str, path: &Path, threads: usize) {
    let begun = Instant::now();
    let result = if only == "scan" {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        format!("sum {:e}", pool.install(|| scan(path)))
    } else {
        let options = Options { threads, ..Options::default() };
        let (ledger, counts) = measure_stream(&[path.to_owned()], None, &options).unwrap();
        format!(
            "{:.3} MWh, coverage {:.5}, {} entries, {} resets, {} long gaps",
            ledger.total_j / 3.6e9,
            ledger.coverage_ratio.unwrap_or(0.0),
            ledger.entries.len(),
            counts.resets,
            counts.long_gaps
        )
    };
    let s = begun.elapsed().as_secs_f64();
    println!("{s} {}\n{result}", peak_kib());
}

/// Highest resident memory of this process so far, KiB; 0 where the system does not tell.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Sum over all columns, row groups side by side.
fn scan(path: &Path) -> f64 {
    let file = File::open(path).unwrap();
    let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).unwrap();
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let fields: Vec<Field> = plain
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let field = field.as_ref().clone();
            if *field.data_type() == DataType::Utf8 { field.with_data_type(text()) } else { field }
        })
        .collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    let metadata = ArrowReaderMetadata::try_new(plain.metadata().clone(), options).unwrap();
    let sums: Vec<f64> = (0..metadata.metadata().num_row_groups())
        .into_par_iter()
        .map(|group| {
            let reader =
                ParquetRecordBatchReaderBuilder::new_with_metadata(File::open(path).unwrap(), metadata.clone())
                    .with_row_groups(vec![group])
                    .with_batch_size(ROW_GROUP)
                    .build()
                    .unwrap();
            reader.flat_map(|batch| batch.unwrap().columns().iter().map(column_sum).collect::<Vec<_>>()).sum()
        })
        .collect();
    sums.iter().sum()
}

fn column_sum(column: &ArrayRef) -> f64 {
    if let Some(values) = column.as_primitive_opt::<Float64Type>() {
        return values.iter().flatten().sum();
    }
    if let Some(values) = column.as_primitive_opt::<TimestampMillisecondType>() {
        return values.iter().flatten().sum::<i64>() as f64;
    }
    let words = column.as_dictionary_opt::<Int32Type>().unwrap();
    words.keys().iter().flatten().map(i64::from).sum::<i64>() as f64
}

/// A simulated GPU, read minute by minute.
struct Gpu {
    state: u64,
    util: f64,
    counter: f64,
    watts: f64,
}

impl Gpu {
    fn new(number: usize, seed: u64) -> Self {
        let mut gpu = Self { state: seed, util: 0.0, counter: 0.0, watts: 60.0 };
        // A stream of its own: neighbours on one stream would be copies of each other, a minute apart.
        gpu.state = gpu.next() ^ (number as u64).wrapping_mul(0xd134_2543_de82_ef95);
        gpu.state = gpu.next();
        gpu.counter = (gpu.next() % 4_000_000_000) as f64;
        gpu
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next minute: utilisation, watts, joules; `None` if the reading is missing.
    fn minute(&mut self) -> Option<(f64, f64, f64)> {
        let chance = self.next();
        if chance.is_multiple_of(60) {
            // Another job, or none.
            self.util = if chance & 1 << 40 == 0 { 0.0 } else { ((chance >> 41) % 101) as f64 / 100.0 };
        }
        self.counter += self.watts * 60.0;
        let noise = ((chance >> 16) % 21) as f64 - 10.0;
        self.watts = if self.util == 0.0 { 60.0 + noise * 0.1 } else { 90.0 + 300.0 * self.util + noise };
        // 1 in 500 GPUs a day.
        if (chance >> 20).is_multiple_of(720_000) {
            self.counter = self.watts * 30.0;
        }
        let counter = (self.counter * 1_000.0).round() / 1_000.0;
        (!(chance >> 8).is_multiple_of(1_000)).then_some((self.util, self.watts, counter))
    }
}

/// Columns of rows on their way to the file.
#[derive(Default)]
struct Columns {
    ts: Vec<i64>,
    node: Vec<i32>,
    gpu: Vec<i32>,
    util: Vec<f64>,
    power: Vec<f64>,
    counter: Vec<Option<f64>>,
}

impl Columns {
    fn add(&mut self, number: usize, minute: usize, gpu: &mut Gpu) {
        let Some((util, power, counter)) = gpu.minute() else { return };
        // Devices are read one after another within the minute's first seconds.
        self.ts.push(START_MS + minute as i64 * 60_000 + (number % 5_000) as i64);
        self.node.push((number / 8) as i32);
        self.gpu.push((number % 8) as i32);
        self.util.push(util);
        self.power.push(power);
        self.counter.push((number % 100 != 7).then_some(counter));
    }
}

fn generate(path: &Path, settings: &Settings) {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
        Field::new("node", text(), true),
        Field::new("gpu", text(), true),
        Field::new("gpu_type", text(), true),
        Field::new("util_ratio", DataType::Float64, true),
        Field::new("power_w", DataType::Float64, true),
        Field::new("energy_j_cum", DataType::Float64, true),
    ]));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema.clone(), Some(properties)).unwrap();
    let nodes: StringArray = (0..settings.gpus.div_ceil(8)).map(|node| Some(format!("node{node:05}"))).collect();
    let gpus: StringArray = (0..8).map(|gpu| Some(gpu.to_string())).collect();
    let (nodes, gpus): (ArrayRef, ArrayRef) = (Arc::new(nodes), Arc::new(gpus));
    let kinds: ArrayRef = Arc::new(StringArray::from(vec!["NVIDIA A100-SXM4-80GB"]));
    let mut write = |columns: Columns| {
        let rows = columns.ts.len();
        let words = |keys: Vec<i32>, values: &ArrayRef| -> ArrayRef {
            Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values.clone()))
        };
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(columns.ts).with_timezone("UTC")),
            words(columns.node, &nodes),
            words(columns.gpu, &gpus),
            words(vec![0; rows], &kinds),
            Arc::new(Float64Array::from(columns.util)),
            Arc::new(Float64Array::from(columns.power)),
            Arc::new(Float64Array::from(columns.counter)),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), arrays).unwrap()).unwrap();
    };
    let mut fleet: Vec<Gpu> = (0..settings.gpus).map(|number| Gpu::new(number, settings.seed)).collect();
    if settings.by_gpu {
        for (chunk, gpus) in fleet.chunks_mut(100).enumerate() {
            let mut columns = Columns::default();
            for (place, gpu) in gpus.iter_mut().enumerate() {
                (0..settings.minutes).for_each(|minute| columns.add(chunk * 100 + place, minute, gpu));
            }
            write(columns);
        }
    } else {
        for minute in 0..settings.minutes {
            let mut columns = Columns::default();
            fleet.iter_mut().enumerate().for_each(|(number, gpu)| columns.add(number, minute, gpu));
            write(columns);
        }
    }
    writer.close().unwrap();
}
