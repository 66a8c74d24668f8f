//! Measuring a table of GPU telemetry that does not fit in memory: the same ledger as [`measure`](super::meter::measure).
//!
//! The table is one or more Parquet files with the columns of `gpu_samples`: `ts`, `node`, `gpu`, and any of `gpu_type`,
//! `util_ratio`, `power_w`, `energy_j_cum`, `job_key`. Jobs, placements, inventory and node meters come from a trace beside it.
//! Rows may be in order of time or of GPU; within a GPU a reading may come up to four readings late.
//!
//! # Method
//! 1. The files' own statistics tell which columns hold anything and the time they span.
//! 2. Models are fitted to the first rows of every row group, some [`FIT_ROWS`] in all (all rows of a table that has no more).
//! 3. Row groups are decoded side by side while those before are measured. Devices are dealt to `SHARDS` shards by a hash of
//!    their name, each shard sees its rows in the order of the files, and shards are added up in their order: the ledger is the
//!    same whatever the number of threads.
//!
//! A device is known by a 64-bit hash of its names: among 150,000 devices two are taken for one with probability 6e-10.
//!
//! O(rows) time. Memory: some 600 bytes a device, 640 more until its first 16 readings are there, twice eight row groups in work
//! (those of more than two million rows are read in pieces, one after another), and the cells of the ledger.
//!
//! Worked number: 150,000 devices take 90 MB, and 96 MB more at the beginning of a table in order of time.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::{Path, PathBuf};

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::statistics::Statistics;
use rayon::prelude::*;

use super::ledger::EnergyLedger;
use super::meter::{
    Claim, Claims, Fleet, Options, Readings, Reorder, Row, Series, Setting, Sink, add_types, conclude, measure_counted,
    reading,
};
use super::model::{PowerModel, PowerModels, Tally};
use crate::Trace;
use crate::error::{Error, Result};
use crate::facts::telemetry::node_types;
use crate::rollup::columnar::{Column, Words, as_dictionaries, reals, times, words};
use crate::schema::device::{board, is_instance};
use crate::schema::{GpuSampleTable, Table as _};
use crate::storage::{self, unreadable};
use crate::time::{FARTHEST_MS, within_reach};

/// Rows that models are fitted to, about.
pub const FIT_ROWS: u64 = 8_000_000;
/// A telemetry table of more rows is streamed by [`measure_folders`]; in memory it would take some 2 GB.
pub const IN_MEMORY_ROWS: usize = 20_000_000;
/// Parts that devices are dealt to.
const SHARDS: usize = 32;
/// Row groups of more rows are read in pieces.
const LARGE_GROUP: i64 = 1 << 21;
/// Rows in a piece.
const PIECE: usize = 1 << 18;
/// Pieces that are measured at a time. More rows of a device at a time mean fewer trips to memory for its state. Not the number
/// of threads, on which nothing may depend.
const WAVE: usize = 8;
const TABLE: &str = "gpu_samples";
/// Columns of text.
const TEXTS: [&str; 4] = ["node", "gpu", "gpu_type", "job_key"];
/// All columns that are read where they hold anything.
const COLUMNS: [&str; 8] = ["ts", "node", "gpu", "gpu_type", "util_ratio", "power_w", "energy_j_cum", "job_key"];

/// Measures trace folders and what was read beside them as one trace: in memory, or in a stream where the telemetry is large. Returns that trace without
/// the telemetry that was streamed.
///
/// # Errors
/// If a folder cannot be read, what they hold does not go together ([`Trace::merge`]), or as [`measure`](super::meter::measure).
pub fn measure_folders(
    folders: &[PathBuf],
    beside: Option<Trace>,
    options: &Options,
) -> Result<(Trace, EnergyLedger, Readings)> {
    let mut rows = beside.as_ref().map_or(0, |trace| trace.gpu_samples.len());
    let mut large = Vec::new();
    for folder in folders {
        let tables = storage::manifest(folder)?.tables;
        if let Some(table) = tables.iter().find(|table| table.name == GpuSampleTable::NAME) {
            rows += table.rows;
            large.push(folder.join(format!("{}.parquet", GpuSampleTable::NAME)));
        }
    }
    // Telemetry that was read beside the folders is in memory already, and no file to stream.
    let in_memory = rows <= IN_MEMORY_ROWS || beside.as_ref().is_some_and(|trace| !trace.gpu_samples.is_empty());
    let mut all = beside;
    for folder in folders {
        let loaded =
            if in_memory { storage::load(folder)? } else { storage::load_but(folder, Some(GpuSampleTable::NAME))? };
        match &mut all {
            None => all = Some(loaded),
            Some(all) => {
                let name = folder.display().to_string();
                if !options.one_cluster {
                    all.check_meets(&loaded, &name)?;
                }
                all.merge(loaded, &name)?;
            }
        }
    }
    let trace = all.unwrap_or_default();
    let (ledger, counts) =
        if in_memory { measure_counted(&trace, options)? } else { measure_stream(&large, Some(&trace), options)? };
    Ok((trace, ledger, counts))
}

/// Measures Parquet files of GPU telemetry, with jobs, placements, inventory and node meters of `beside` (whose own GPU
/// telemetry is not read).
///
/// # Errors
/// If a file cannot be read or lacks columns, an option makes no sense, or there are no readings.
pub fn measure_stream(
    paths: &[PathBuf],
    beside: Option<&Trace>,
    options: &Options,
) -> Result<(EnergyLedger, Readings)> {
    options.check()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().map_err(|e| Error::Setting {
        setting: "threads".to_owned(),
        found: e.to_string(),
        remedy: "ask for fewer threads".to_owned(),
    })?;
    pool.install(|| stream(paths, beside, options))
}

fn stream(paths: &[PathBuf], beside: Option<&Trace>, options: &Options) -> Result<(EnergyLedger, Readings)> {
    let mut files: Vec<TableFile> = paths.iter().map(|path| TableFile::open(path)).collect::<Result<_>>()?;
    // Files cut by time follow each other.
    files.sort_by_key(|file| file.span.map(|span| span.0));
    let held: Vec<&str> = COLUMNS.into_iter().filter(|name| files.iter().any(|file| file.holds(name))).collect();
    let empty = Trace::default();
    let trace = beside.unwrap_or(&empty);
    let (options, cut) = options.within(beside, files.iter().filter_map(|file| file.span));
    let options = &options;
    let mut counts = Readings::default();
    let mut fleet = Fleet::new(beside, options, &mut counts);
    let mut models = fit(&files, &held, trace, options)?;
    let all = files.iter().filter_map(|file| file.span).reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)));
    let span = fleet.window(trace, all);
    let mut claims = Claims::new(trace, span, held.contains(&"job_key"));
    let types = node_types(trace);
    let wraps = options.wraps();
    let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(fleet.by_node())).collect();
    let mut names = Names::default();
    let mut feed = Feed { files: &files, columns: &held, file: 0, group: 0, open: None };
    let mut wave = feed.next()?;
    while !wave.is_empty() {
        for piece in &mut wave {
            counts.merge(&piece.counts);
            piece.resolve(&mut names, &mut fleet, &mut claims, &mut models, options);
        }
        let base = fleet.gpu_setting(&wraps);
        let known = Known { claims: &claims, models: &models, types: &types, base };
        let (next, ()) = rayon::join(
            || feed.next(),
            || {
                shards.par_iter_mut().enumerate().for_each(|(number, shard)| shard.take(number, &wave, &known));
            },
        );
        wave = next?;
    }
    for shard in &shards {
        for device in &shard.devices {
            if let Some(span) = device.span {
                fleet.seen(device.series.node, span);
            }
            fleet.device(device.series.node, device.model);
        }
    }
    let base = fleet.gpu_setting(&wraps);
    let known = Known { claims: &claims, models: &models, types: &types, base };
    shards.par_iter_mut().for_each(|shard| shard.finish(&fleet, &known));
    let mut sink = Sink::new(fleet.by_node());
    for shard in shards {
        counts.merge(&shard.counts);
        sink.merge(shard.sink);
    }
    fleet.notes.extend(cut);
    fleet.share_meters(beside, &models, &mut claims);
    fleet.unread(trace, &models, &claims, &base, &mut sink, &mut counts);
    conclude(beside, &claims, &models, sink, fleet, options, counts)
}

/// Fits the models to the first rows of every row group.
fn fit(files: &[TableFile], held: &[&str], trace: &Trace, options: &Options) -> Result<PowerModels> {
    let rows: i64 = files.iter().map(TableFile::rows).sum();
    let share = (FIT_ROWS as f64 / rows.max(1) as f64).min(1.0);
    let columns: Vec<&str> =
        held.iter().copied().filter(|name| !["ts", "energy_j_cum", "job_key"].contains(name)).collect();
    let types = node_types(trace);
    let units: Vec<(&TableFile, usize)> =
        files.iter().flat_map(|file| (0..file.groups()).map(move |group| (file, group))).collect();
    let parts: Vec<BTreeMap<Option<String>, Tally>> = units
        .par_iter()
        .map(|(file, group)| {
            let limit = (file.group_rows(*group) as f64 * share).ceil() as usize;
            let mut tallies = BTreeMap::new();
            for piece in file.read(*group, &columns, Some(limit))? {
                file.sound(|| tally(&piece?, &types, &mut tallies))?;
            }
            Ok(tallies)
        })
        .collect::<Result<_>>()?;
    let mut tallies: BTreeMap<Option<String>, Tally> = BTreeMap::new();
    for (name, tally) in parts.into_iter().flatten() {
        tallies.entry(name).or_default().merge(&tally);
    }
    add_types(trace, &mut tallies);
    Ok(PowerModels::fit(&tallies, &options.power, options.assumed_util_ratio))
}

fn tally(
    batch: &RecordBatch,
    types: &HashMap<&str, &str>,
    tallies: &mut BTreeMap<Option<String>, Tally>,
) -> Result<()> {
    let text = |name| words(TABLE, batch.column_by_name(name));
    let real = |name| reals(TABLE, batch.column_by_name(name));
    let (kinds, nodes, gpus) = (text("gpu_type")?, text("node")?, text("gpu")?);
    let (power, util) = (real("power_w")?, real("util_ratio")?);
    let (power, util) = (Column::reals(&power), Column::reals(&util));
    let none = StringArray::from(Vec::<&str>::new());
    let values = |words: &Option<Words>| words.as_ref().map_or(none.clone(), |words| words.values.clone());
    let (kind_names, node_names, gpu_names) = (values(&kinds), values(&nodes), values(&gpus));
    let (kinds, nodes, gpus) = (Column::keys(&kinds), Column::keys(&nodes), Column::keys(&gpus));
    // By key of the type, or of the node where the type is unknown; `None` for neither.
    let mut result: BTreeMap<(Option<i32>, Option<i32>), Tally> = BTreeMap::new();
    let cut: Vec<bool> = gpu_names.iter().map(|name| name.is_some_and(is_instance)).collect();
    for row in 0..batch.num_rows() {
        let Some(watts) = power.get(row) else { continue };
        let kind = kinds.get(row);
        let node = if kind.is_none() && !types.is_empty() { nodes.get(row) } else { None };
        let instance = gpus.get(row).and_then(|key| cut.get(key as usize)).is_some_and(|cut| *cut);
        result.entry((kind, node)).or_default().add(watts, util.get(row).filter(|_| !instance));
    }
    for ((kind, node), tally) in result {
        let stated = kind.and_then(|key| value(&kind_names, key));
        let name = stated.or_else(|| types.get(value(&node_names, node?)?).copied());
        tallies.entry(name.map(str::to_owned)).or_default().merge(&tally);
    }
    Ok(())
}

fn value(values: &StringArray, key: i32) -> Option<&str> {
    let key = usize::try_from(key).ok().filter(|key| *key < values.len())?;
    values.is_valid(key).then(|| values.value(key))
}

/// A Parquet file of telemetry.
struct TableFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    /// First and last moment, by the file's statistics.
    span: Option<(i64, i64)>,
}

impl TableFile {
    fn open(path: &Path) -> Result<Self> {
        let failed = |source| unreadable(path, Some(source));
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let plain = storage::parquet_metadata(&file, path)?;
        let schema = as_dictionaries(plain.schema(), &TEXTS);
        let metadata =
            ArrowReaderMetadata::try_new(plain.metadata().clone(), ArrowReaderOptions::new().with_schema(schema))
                .map_err(failed)?;
        for columns in [&["ts"][..], &["gpu", "node"], &["power_w", "energy_j_cum", "util_ratio"]] {
            if columns.iter().all(|name| metadata.schema().column_with_name(name).is_none()) {
                return Err(Error::Format {
                    file: path.display().to_string(),
                    line: None,
                    column: Some(columns.join(" or ")),
                    found: "no such column".to_owned(),
                    remedy: "name a gpu_samples table, or make one with `tracecast ingest`".to_owned(),
                });
            }
        }
        let mut file = Self { path: path.to_owned(), metadata, span: None };
        file.span = match file.span_of_statistics() {
            Some(span) => Some(span),
            None => file.span_of_rows()?,
        };
        Ok(file)
    }

    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn group_rows(&self, group: usize) -> i64 {
        self.metadata.metadata().row_groups().get(group).map_or(0, parquet::file::metadata::RowGroupMetaData::num_rows)
    }

    fn rows(&self) -> i64 {
        (0..self.groups()).map(|group| self.group_rows(group)).sum()
    }

    /// Statistics of a column in each row group.
    fn statistics<'f>(&'f self, name: &'f str) -> impl Iterator<Item = Option<&'f Statistics>> + 'f {
        self.metadata.metadata().row_groups().iter().map(move |group| {
            let column = group.columns().iter().find(|column| column.column_path().string() == name)?;
            column.statistics()
        })
    }

    /// Whether a column has a known value somewhere.
    fn holds(&self, name: &str) -> bool {
        self.metadata.schema().column_with_name(name).is_some()
            && (self.metadata.metadata().row_groups().iter().zip(self.statistics(name))).any(|(group, statistics)| {
                statistics.and_then(Statistics::null_count_opt).is_none_or(|nulls| (nulls as i64) < group.num_rows())
            })
    }

    fn span_of_statistics(&self) -> Option<(i64, i64)> {
        let (_, field) = self.metadata.schema().column_with_name("ts")?;
        let to_ms: fn(i64) -> i64 = match field.data_type() {
            DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => |ms| ms,
            DataType::Timestamp(TimeUnit::Microsecond, _) => |us| us.div_euclid(1_000),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => |ns| ns.div_euclid(1_000_000),
            _ => return None,
        };
        let mut span = (i64::MAX, i64::MIN);
        for statistics in self.statistics("ts") {
            let Some(Statistics::Int64(values)) = statistics else { return None };
            span = (span.0.min(to_ms(*values.min_opt()?)), span.1.max(to_ms(*values.max_opt()?)));
        }
        (span.0 <= span.1 && span.0 > -FARTHEST_MS && span.1 < FARTHEST_MS).then_some(span)
    }

    fn span_of_rows(&self) -> Result<Option<(i64, i64)>> {
        let mut span = (i64::MAX, i64::MIN);
        for group in 0..self.groups() {
            for batch in self.read(group, &["ts"], None)? {
                let ts = times(TABLE, batch?.column_by_name("ts"))?;
                let column = Column::times(&ts);
                let rows = ts.as_ref().map_or(0, arrow::array::Array::len);
                for ms in (0..rows).filter_map(|row| column.get(row).and_then(within_reach)) {
                    span = (span.0.min(ms), span.1.max(ms));
                }
            }
        }
        Ok((span.0 <= span.1).then_some(span))
    }

    /// Reads columns of a row group, all rows or the first `limit`.
    fn read(&self, group: usize, columns: &[&str], limit: Option<usize>) -> Result<Pieces> {
        let failed = |source| unreadable(&self.path, Some(source));
        let file = File::open(&self.path).map_err(|e| Error::io("open", &self.path, e))?;
        let fields = self.metadata.schema().fields().iter().enumerate();
        let wanted = fields.filter(|(_, field)| columns.contains(&field.name().as_str())).map(|(ix, _)| ix);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), wanted);
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(PIECE);
        if let Some(limit) = limit {
            builder = builder.with_limit(limit);
        }
        let reader = self.sound(|| builder.build().map_err(failed))?;
        Ok(Pieces { reader, path: self.path.clone() })
    }

    /// Runs a read of the Parquet library, which panics on some damaged files.
    fn sound<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        storage::guarded(read).unwrap_or_else(|| Err(unreadable(&self.path, None)))
    }
}

/// Batches of a row group.
struct Pieces {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
}

impl Iterator for Pieces {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match storage::guarded(|| self.reader.next()) {
            Some(next) => Some(next?.map_err(|_| unreadable(&self.path, None))),
            None => Some(Err(unreadable(&self.path, None))),
        }
    }
}

/// Brings row groups in order, several at a time.
struct Feed<'f> {
    files: &'f [TableFile],
    columns: &'f [&'f str],
    file: usize,
    group: usize,
    /// A large row group being read.
    open: Option<Pieces>,
}

impl Feed<'_> {
    /// The next pieces; empty at the end.
    fn next(&mut self) -> Result<Vec<Piece>> {
        if let Some(open) = &mut self.open {
            let batches: Vec<RecordBatch> = open.take(WAVE).collect::<Result<_>>()?;
            if !batches.is_empty() {
                return batches.into_par_iter().map(|batch| Piece::new(&batch)).collect();
            }
            self.open = None;
        }
        let mut units: Vec<(&TableFile, usize)> = Vec::new();
        while let Some(file) = self.files.get(self.file) {
            if self.group >= file.groups() {
                (self.file, self.group) = (self.file + 1, 0);
                continue;
            }
            let large = file.group_rows(self.group) > LARGE_GROUP;
            if units.len() >= WAVE || (large && !units.is_empty()) {
                break;
            }
            self.group += 1;
            if large {
                self.open = Some(file.read(self.group - 1, self.columns, None)?);
                return self.next();
            }
            units.push((file, self.group - 1));
        }
        let pieces: Vec<Vec<Piece>> = units
            .into_par_iter()
            .map(|(file, group)| {
                file.read(group, self.columns, None)?.map(|batch| file.sound(|| Piece::new(&batch?))).collect()
            })
            .collect::<Result<_>>()?;
        let pieces: Vec<Piece> = pieces.into_iter().flatten().collect();
        // Row groups without rows are not the end.
        if pieces.is_empty() && self.file < self.files.len() { self.next() } else { Ok(pieces) }
    }
}

/// A row dealt to a shard.
#[derive(Clone, Copy)]
struct Dealt {
    /// Hash of its device's names.
    key: u64,
    /// Row within the piece.
    place: u32,
    /// Key of the job it names, -1 for none.
    job: i32,
    row: Row,
}

/// Rows of the table, their devices told apart and dealt to shards.
struct Piece {
    nodes: Option<Words>,
    gpus: Option<Words>,
    kinds: Option<Words>,
    jobs: Option<Words>,
    /// Rows by shard, in their order, and where each shard's end. Brought together here, while the columns are at hand: each
    /// shard looking for its rows would have all columns pass through memory once a shard.
    rows: Vec<Dealt>,
    ends: Vec<u32>,
    counts: Readings,
    /// Hash of each node's name.
    node_hashes: Vec<u64>,
    /// Numbers of the named nodes.
    node_numbers: Vec<u32>,
    no_node: u32,
    kind_places: Vec<u32>,
    job_claims: Vec<Claim>,
}

impl Piece {
    fn new(batch: &RecordBatch) -> Result<Self> {
        let text = |name| words(TABLE, batch.column_by_name(name));
        let real = |name| reals(TABLE, batch.column_by_name(name));
        let (nodes, gpus, kinds, jobs) = (text("node")?, text("gpu")?, text("gpu_type")?, text("job_key")?);
        let (ts, util) = (times(TABLE, batch.column_by_name("ts"))?, real("util_ratio")?);
        let (power, counter) = (real("power_w")?, real("energy_j_cum")?);
        let hashes = |words: &Option<Words>, of: fn(&str) -> u64| -> Vec<u64> {
            words.as_ref().map(|words| words.values.iter().map(|name| name.map_or(0, of)).collect()).unwrap_or_default()
        };
        let node_hashes = hashes(&nodes, hash);
        let gpu_hashes = hashes(&gpus, |name| hash(board(name)));
        let job_hashes = hashes(&jobs, hash);
        let cut: Vec<bool> = gpus
            .as_ref()
            .map_or_else(Vec::new, |gpus| gpus.values.iter().map(|name| name.is_some_and(is_instance)).collect());
        let mut counts = Readings { rows: batch.num_rows() as u64, ..Readings::default() };
        let mut ends = vec![0_u32; SHARDS];
        let mut read: Vec<Dealt> = Vec::with_capacity(batch.num_rows());
        {
            let (nodes, gpus, jobs) = (Column::keys(&nodes), Column::keys(&gpus), Column::keys(&jobs));
            let (ts, util) = (Column::times(&ts), Column::reals(&util));
            let (power, counter) = (Column::reals(&power), Column::reals(&counter));
            let find =
                |hashes: &[u64], key: Option<i32>| key.and_then(|key| hashes.get(key as usize)).copied().unwrap_or(0);
            for (place, row) in (0_u32..).zip(0..batch.num_rows()) {
                let (node, gpu, job) = (nodes.get(row), gpus.get(row), jobs.get(row));
                let device = gpu.is_some() || node.is_some();
                let Some(at) = ts.get(row).and_then(within_reach).filter(|_| device) else {
                    counts.without_time += 1;
                    continue;
                };
                // Index 0 of one job's samples is not the GPU 0 of another's.
                let owner = if node.is_none() { find(&job_hashes, job) } else { 0 };
                let first = find(&node_hashes, node) ^ owner.rotate_left(17);
                let key = mix(mix(first) ^ find(&gpu_hashes, gpu));
                let instance = gpu.and_then(|key| cut.get(key as usize)).is_some_and(|cut| *cut);
                let values = [counter.get(row), power.get(row), util.get(row)];
                let row = reading(at, values, Claim::Nobody, instance, &mut counts);
                read.push(Dealt { key, place, job: job.unwrap_or(-1), row });
                if let Some(count) = ends.get_mut(shard_of(key)) {
                    *count += 1;
                }
            }
        }
        let mut starts = [0_u32; SHARDS];
        let mut sum = 0;
        for (start, end) in starts.iter_mut().zip(&mut ends) {
            *start = sum;
            sum += *end;
            *end = sum;
        }
        let none = Dealt { key: 0, place: 0, job: -1, row: Row::at(0, Claim::Nobody) };
        let mut rows = vec![none; read.len()];
        for dealt in &read {
            let Some(place) = starts.get_mut(shard_of(dealt.key)) else { continue };
            if let Some(slot) = rows.get_mut(*place as usize) {
                *slot = *dealt;
            }
            *place += 1;
        }
        Ok(Self {
            nodes,
            gpus,
            kinds,
            jobs,
            rows,
            ends,
            counts,
            node_hashes,
            node_numbers: Vec::new(),
            no_node: 0,
            kind_places: Vec::new(),
            job_claims: Vec::new(),
        })
    }

    /// Finds what the names stand for. O(distinct names).
    fn resolve(
        &mut self,
        names: &mut Names,
        fleet: &mut Fleet,
        claims: &mut Claims,
        models: &mut PowerModels,
        options: &Options,
    ) {
        if let Some(nodes) = &self.nodes {
            let known = nodes.values.iter().zip(&self.node_hashes);
            self.node_numbers =
                known.map(|(name, hash)| *names.nodes.entry(*hash).or_insert_with(|| fleet.number(name))).collect();
        }
        if self.nodes.as_ref().is_none_or(|nodes| nodes.keys.null_count() > 0) {
            self.no_node = *names.no_node.get_or_insert_with(|| fleet.number(None));
        }
        if let Some(kinds) = &self.kinds {
            self.kind_places = kinds
                .values
                .iter()
                .map(|name| {
                    let Some(name) = name else { return 0 };
                    *names.kinds.entry(hash(name)).or_insert_with(|| {
                        if !models.names.iter().flatten().any(|known| known == name) {
                            // A type that none of the rows had to which models were fitted.
                            let given = options.power.get(name).or_else(|| options.power.get("*")).copied();
                            models.models.push(PowerModel::new(
                                Some(name),
                                &Tally::default(),
                                given,
                                options.assumed_util_ratio,
                            ));
                            models.names.push(Some(name.to_owned()));
                        }
                        models.place(Some(name))
                    })
                })
                .collect();
        }
        if let Some(jobs) = &self.jobs {
            let named = |name: Option<&str>| {
                name.map_or(Claim::Nobody, |name| *names.jobs.entry(hash(name)).or_insert_with(|| claims.named(name)))
            };
            self.job_claims = jobs.values.iter().map(named).collect();
        }
    }

    fn rows_of(&self, shard: usize) -> &[Dealt] {
        let from = shard.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let to = self.ends.get(shard).copied().unwrap_or(from);
        self.rows.get(from as usize..to as usize).unwrap_or_default()
    }
}

/// Numbers and claims of names, by the hash of the name.
#[derive(Default)]
struct Names {
    nodes: HashMap<u64, u32, Plain>,
    kinds: HashMap<u64, u32, Plain>,
    jobs: HashMap<u64, Claim, Plain>,
    no_node: Option<u32>,
}

/// A hasher for what is a hash already.
#[derive(Default)]
struct AsItIs(u64);

type Plain = BuildHasherDefault<AsItIs>;

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// The finaliser of `splitmix64` (Steele, Lea, Flood 2014): every bit depends on every bit.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Hash of a name, the same on every machine.
fn hash(name: &str) -> u64 {
    let mut state = mix(0x9e37_79b9_7f4a_7c15 ^ name.len() as u64);
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        for (slot, byte) in word.iter_mut().zip(chunk) {
            *slot = *byte;
        }
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(word));
    }
    state
}

#[inline]
fn shard_of(key: u64) -> usize {
    (key >> 59) as usize % SHARDS
}

/// Read-only data that all shards use.
struct Known<'k> {
    claims: &'k Claims,
    models: &'k PowerModels,
    types: &'k HashMap<&'k str, &'k str>,
    base: Setting<'k>,
}

impl Known<'_> {
    #[inline]
    fn setting(&self, device: &Device) -> Setting<'_> {
        Setting {
            model: self.models.models.get(device.model as usize),
            holding: self.claims.held(Some(device.holding)),
            named: self.claims.by_name(),
            ..self.base
        }
    }
}

/// A device of a shard.
struct Device {
    series: Series,
    reorder: Reorder,
    model: u32,
    holding: u32,
    span: Option<(i64, i64)>,
}

/// Some of the devices.
struct Shard {
    devices: Vec<Device>,
    /// Key of each device, and the device whose row came after its row last time. Kept apart, as
    /// every row needs them.
    keys: Vec<(u64, u32)>,
    index: HashMap<u64, u32, Plain>,
    last: u32,
    sink: Sink,
    counts: Readings,
    /// Rows of a wave with their device, and their order by device.
    rows: Vec<(u32, Row)>,
    order: Vec<u32>,
}

impl Shard {
    fn new(by_node: bool) -> Self {
        Self {
            devices: Vec::new(),
            keys: Vec::new(),
            index: HashMap::default(),
            last: 0,
            sink: Sink::new(by_node),
            counts: Readings::default(),
            rows: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Takes its rows of some pieces, device by device.
    fn take(&mut self, number: usize, wave: &[Piece], known: &Known<'_>) {
        self.rows.clear();
        for piece in wave {
            self.collect(number, piece, known);
        }
        // Counting sort: where each device's rows begin.
        let mut starts = vec![0_u32; self.devices.len() + 1];
        for (place, _) in &self.rows {
            if let Some(count) = starts.get_mut(*place as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        self.order.clear();
        self.order.resize(self.rows.len(), 0);
        for (row, (place, _)) in (0_u32..).zip(&self.rows) {
            let Some(start) = starts.get_mut(*place as usize) else { continue };
            if let Some(slot) = self.order.get_mut(*start as usize) {
                *slot = row;
            }
            *start += 1;
        }
        // Each start is the next one's now.
        let mut from = 0;
        for (device, to) in self.devices.iter_mut().zip(starts) {
            let places = self.order.get(from as usize..to as usize).unwrap_or_default();
            from = to;
            if places.is_empty() {
                continue;
            }
            let set = known.setting(device);
            for (_, row) in places.iter().filter_map(|row| self.rows.get(*row as usize)) {
                let at = row.ts;
                self.counts.at(at, known.base.window);
                device.span = Some(device.span.map_or((at, at), |span| (span.0.min(at), span.1.max(at))));
                if let Some(row) = device.reorder.push(*row, &mut self.counts) {
                    device.series.push(row, &set, &mut self.sink, &mut self.counts);
                }
            }
        }
    }

    /// Collects its rows of a piece.
    fn collect(&mut self, number: usize, piece: &Piece, known: &Known<'_>) {
        for dealt in piece.rows_of(number) {
            let place = self.find(dealt.key, piece, dealt.place as usize, known);
            let mut row = dealt.row;
            if row.claim == Claim::Nobody && dealt.job >= 0 {
                row.claim = piece.job_claims.get(dealt.job as usize).copied().unwrap_or(Claim::Nobody);
            }
            self.rows.push((place, row));
        }
    }

    /// The device of a row. Rows of one device follow each other, or the devices' rows come in the same order again and again:
    /// both are tried before the index.
    #[inline]
    fn find(&mut self, key: u64, piece: &Piece, row: usize, known: &Known<'_>) -> u32 {
        let last = self.keys.get(self.last as usize).copied();
        if last.is_some_and(|last| last.0 == key) {
            return self.last;
        }
        let after = last.map_or(0, |last| last.1);
        if self.keys.get(after as usize).is_some_and(|device| device.0 == key) {
            self.last = after;
            return after;
        }
        let next = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        let place = *self.index.entry(key).or_insert(next);
        if place == next {
            self.devices.push(Device::new(piece, row, known));
            self.keys.push((key, 0));
        }
        if let Some(last) = self.keys.get_mut(self.last as usize) {
            last.1 = place;
        }
        self.last = place;
        place
    }

    fn finish(&mut self, fleet: &Fleet, known: &Known<'_>) {
        for device in &mut self.devices {
            let set = known.setting(device);
            for reading in device.reorder.drain() {
                device.series.push(reading, &set, &mut self.sink, &mut self.counts);
            }
            let (from, to) = fleet.span(device.series.node);
            device.series.finish(from, to, &set, &mut self.sink, &mut self.counts);
        }
    }
}

impl Device {
    fn new(piece: &Piece, row: usize, known: &Known<'_>) -> Self {
        let name = |words: &Option<Words>| {
            let words = words.as_ref()?;
            let key = Column::<i32>::keys_of(words).get(row)?;
            value(&words.values, key).map(str::to_owned)
        };
        let (node, gpu) = (name(&piece.nodes), name(&piece.gpus));
        let number = |words: &Option<Words>, numbers: &[u32]| {
            let key = Column::<i32>::keys_of(words.as_ref()?).get(row)?;
            numbers.get(key as usize).copied()
        };
        let kind = number(&piece.kinds, &piece.kind_places);
        let listed = || Some(known.models.place(Some(known.types.get(node.as_deref()?)?)));
        Self {
            series: Series::new(number(&piece.nodes, &piece.node_numbers).unwrap_or(piece.no_node)),
            reorder: Reorder::new(),
            model: kind.or_else(listed).unwrap_or(0),
            holding: known.claims.unread(node.as_deref(), gpu.as_deref().map(board)),
            span: None,
        }
    }
}

#[cfg(test)]
mod tests;
