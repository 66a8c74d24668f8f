//! Rows of delimited text or Parquet, converted column by column and pushed into a canonical table.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit as ArrowUnit, TimestampMillisecondType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::cell::{Cell, Converter, Raw};
use super::file::{From, Mapping, Rule};
use super::{ENDED_WHILE_RUNNING, NO_VALUE, REPEATED_KEY};
use crate::error::{Error, Result};
use crate::ingest::Delimited;
use crate::ingest::read::{ReadOptions, check_job};
use crate::ingest::reader::Head;
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::{ColumnMut, ColumnSpec, JobRow, JobState, Table};

/// What files of one request have in common: the rows already seen.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Hashes of whole rows, by table. Two rows of ten million with the same hash are a chance of one in 10⁵.
    seen: HashSet<(&'static str, u64)>,
    /// Keys of jobs and nodes, with the hash of their row.
    keys: HashMap<(&'static str, Box<str>), u64>,
}

/// A source column for each canonical one, by position among the columns read.
struct Layout<'m> {
    /// Source columns, lower case, each once.
    wanted: Vec<&'m str>,
    /// Whether the file may lack a source column.
    optional: Vec<bool>,
    places: Vec<Place<'m>>,
    /// Position of the key column (`jobs` and `nodes`), among the table's columns.
    key: Option<usize>,
    /// Positions of the columns every row must have.
    required: Vec<usize>,
    /// Position of the canonical state (`jobs.state`, `attempts.end_reason`).
    state: Option<usize>,
    job: Option<JobPlaces>,
}

/// Where one canonical column comes from.
struct Place<'m> {
    spec: &'m ColumnSpec,
    rule: Option<&'m Rule>,
    from: Option<usize>,
    constant: Option<&'m str>,
    add: Vec<usize>,
}

/// Positions of the columns of `jobs` that hang together.
struct JobPlaces {
    submit: usize,
    start: usize,
    end: usize,
    censored: usize,
    attempts: usize,
    run_s: usize,
    state: usize,
    reported_state: usize,
}

impl<'m> Layout<'m> {
    fn of(mapping: &'m Mapping) -> Self {
        let position = |name: &str| mapping.rules.iter().position(|(spec, _)| spec.name == name);
        let mut layout = Self {
            wanted: Vec::new(),
            optional: Vec::new(),
            places: Vec::new(),
            key: match mapping.table {
                "jobs" => position("job_key"),
                "nodes" => position("node"),
                _ => None,
            },
            required: mapping.required.iter().filter_map(|name| position(name)).collect(),
            state: match mapping.table {
                "jobs" => position("state"),
                "attempts" => position("end_reason"),
                _ => None,
            },
            job: (mapping.table == "jobs").then(|| JobPlaces::find(&position)).flatten(),
        };
        for (spec, rule) in &mapping.rules {
            let (mut from, mut constant) = (None, None);
            match rule.as_ref().map(|rule| &rule.from) {
                Some(From::Column { name, optional }) => from = Some(layout.want(name, *optional)),
                Some(From::Constant(text)) => constant = Some(text.as_str()),
                None => {}
            }
            let add = rule.iter().flat_map(|rule| &rule.add).map(|name| layout.want(name, false)).collect();
            layout.places.push(Place { spec, rule: rule.as_ref(), from, constant, add });
        }
        layout
    }

    fn want(&mut self, name: &'m str, optional: bool) -> usize {
        if let Some(ix) = self.wanted.iter().position(|have| *have == name) {
            if let Some(all) = self.optional.get_mut(ix) {
                *all &= optional;
            }
            return ix;
        }
        self.wanted.push(name);
        self.optional.push(optional);
        self.wanted.len() - 1
    }

    /// Position of each wanted column among `header`.
    fn find(&self, file: &SourceFile, header: &[String]) -> Result<Vec<Option<usize>>> {
        let of_each = self.wanted.iter().zip(&self.optional).map(|(name, optional)| {
            let found = header.iter().position(|have| have == name);
            if found.is_some() || *optional {
                return Ok(found);
            }
            Err(Error::Format {
                file: file.name().to_owned(),
                line: None,
                column: Some((*name).to_owned()),
                found: format!("the mapping names it, but the file has only {}", header.join(", ")),
                remedy: "correct the mapping, or add `optional = true` to the column".to_owned(),
            })
        });
        of_each.collect()
    }
}

impl JobPlaces {
    fn find(position: &impl Fn(&str) -> Option<usize>) -> Option<Self> {
        Some(Self {
            submit: position("submit")?,
            start: position("start")?,
            end: position("end")?,
            censored: position("censored")?,
            attempts: position("attempts")?,
            run_s: position("run_s")?,
            state: position("state")?,
            reported_state: position("reported_state")?,
        })
    }
}

impl Rows {
    /// Appends the rows of `file` to `table`.
    ///
    /// # Errors
    /// When the file cannot be opened or lacks a column the mapping names.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn read<T: Table>(
        &mut self,
        table: &mut T,
        file: &SourceFile,
        head: &Head,
        mapping: &Mapping,
        converter: &Converter<'_>,
        options: &ReadOptions<'_>,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let layout = Layout::of(mapping);
        let mut columns = table.columns_mut();
        let mut sink =
            Sink { rows: self, layout: &layout, converter, columns: &mut columns, pushed: 0, table: T::NAME };
        if head.text.starts_with("PAR1") {
            sink.read_parquet(file, ledger)?;
        } else {
            let separator = mapping.separator.unwrap_or_else(|| separator(head, &mapping.comment));
            let source = Delimited::open_with_comment(file, separator, &mapping.comment, options.observer)?;
            sink.read_delimited(source, file, ledger)?;
        }
        let pushed = sink.pushed;
        drop(columns);
        table.grow(pushed);
        Ok(())
    }
}

/// Whichever of comma, tab, semicolon and bar the header has most of.
pub(super) fn separator(head: &Head, comment: &str) -> u8 {
    let is_comment = |line: &str| !comment.is_empty() && line.starts_with(comment);
    let header = head.text.lines().find(|line| !line.trim().is_empty() && !is_comment(line)).unwrap_or_default();
    let count = |separator: u8| header.bytes().filter(|byte| *byte == separator).count();
    // The last of the largest wins, so the comma comes last.
    [b'|', b';', b'\t', b','].into_iter().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

/// Takes rows as source values and pushes canonical ones.
struct Sink<'s, 'c, 't> {
    rows: &'s mut Rows,
    layout: &'s Layout<'s>,
    converter: &'s Converter<'s>,
    columns: &'c mut Vec<ColumnMut<'t>>,
    pushed: usize,
    table: &'static str,
}

impl Sink<'_, '_, '_> {
    fn read_delimited(&mut self, mut source: Delimited<'_>, file: &SourceFile, ledger: &mut Ledger) -> Result<()> {
        let positions = self.layout.find(file, source.header())?;
        while let Some(record) = source.next_row(ledger) {
            let row: Vec<Raw<'_>> = positions.iter().map(|ix| record.field(*ix).map_or(Raw::Null, Raw::Text)).collect();
            let (line, whole) = (record.raw(), hash(record.raw()));
            self.push(&row, Some(whole), || line.to_owned(), record.audit, ledger);
        }
        source.finish(ledger);
        Ok(())
    }

    fn read_parquet(&mut self, file: &SourceFile, ledger: &mut Ledger) -> Result<()> {
        let failed = |e| Error::Parquet { action: "read", path: file.path().to_owned(), source: e };
        let opened = File::open(file.path()).map_err(|e| Error::io("open", file.path(), e))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(failed)?;
        let header: Vec<String> =
            builder.schema().fields().iter().map(|field| field.name().trim().to_ascii_lowercase()).collect();
        let positions = self.layout.find(file, &header)?;
        let mut roots: Vec<usize> = positions.iter().copied().flatten().collect();
        roots.sort_unstable();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots.iter().copied());
        let reader = builder.with_projection(mask).build().map_err(failed)?;
        let mut line = 0;
        for batch in reader {
            let batch = match batch {
                Ok(batch) => batch,
                Err(e) => {
                    ledger.damaged(file.name(), line, e.to_string());
                    break;
                }
            };
            let mut columns = Vec::with_capacity(positions.len());
            for (position, name) in positions.iter().zip(&self.layout.wanted) {
                // Projected columns keep their order among themselves.
                let array =
                    position.and_then(|position| roots.binary_search(&position).ok()).map(|ix| batch.column(ix));
                let values = array.map_or(Ok(Values::Null), Values::of).map_err(|found| Error::Format {
                    file: file.name().to_owned(),
                    line: None,
                    column: Some((*name).to_owned()),
                    found,
                    remedy: "write it as text, number, boolean or timestamp".to_owned(),
                })?;
                columns.push(values);
            }
            for ix in 0..batch.num_rows() {
                line += 1;
                let row: Vec<Raw<'_>> = columns.iter().map(|column| column.get(ix)).collect();
                let whole = self.layout.key.map(|_| {
                    let mut hasher = DefaultHasher::new();
                    row.iter().for_each(|value| value.text().hash(&mut hasher));
                    hasher.finish()
                });
                let text = || {
                    let cells =
                        self.layout.wanted.iter().zip(&row).map(|(name, value)| format!("{name}={}", value.text()));
                    cells.collect::<Vec<_>>().join(", ")
                };
                self.push(&row, whole, text, RowAudit::new(file.name(), line), ledger);
            }
        }
        Ok(())
    }

    /// Converts and pushes one row, or quarantines it. `whole` is a hash of the row as it stands.
    fn push(
        &mut self,
        row: &[Raw<'_>],
        whole: Option<u64>,
        text: impl FnOnce() -> String,
        mut audit: RowAudit<'_>,
        ledger: &mut Ledger,
    ) {
        let at = |ix: Option<usize>| ix.and_then(|ix| row.get(ix)).copied().unwrap_or(Raw::Null);
        let mut cells: Vec<Cell<'_>> = Vec::with_capacity(self.layout.places.len());
        for place in &self.layout.places {
            let Some(rule) = place.rule else {
                cells.push(Cell::Unknown);
                continue;
            };
            let raw = place.constant.map_or_else(|| at(place.from), Raw::Text);
            let add: Vec<Raw<'_>> = place.add.iter().map(|ix| at(Some(*ix))).collect();
            cells.push(self.converter.cell(place.spec, rule, raw, &add, &mut audit));
        }
        let verdict = self.unusable(&cells, whole);
        if let Some((reason, column)) = verdict {
            ledger.quarantine(&audit, reason, column, &text());
            return;
        }
        let state = self.settle_state(&mut cells, &mut audit);
        if let Some(job) = &self.layout.job {
            let word = self.layout.places.get(job.state).map_or(Raw::Null, |place| at(place.from));
            settle_job(job, self.layout, state, word, &mut cells, &mut audit);
        }
        for (column, cell) in self.columns.iter_mut().zip(&cells) {
            match column {
                ColumnMut::Text(text) => text.push(cell.text()),
                ColumnMut::Label(label) => label.push(cell.text()),
                ColumnMut::Int(int) => int.push(cell.int()),
                ColumnMut::Num(num) => num.push(if let Cell::Num(value) = cell { Some(*value) } else { None }),
            }
        }
        self.pushed += 1;
        ledger.keep(audit);
    }

    /// Why a row cannot be used, if it cannot, and the source column to blame.
    fn unusable(&mut self, cells: &[Cell<'_>], whole: Option<u64>) -> Option<(Reason, &'static str)> {
        for ix in &self.layout.required {
            if cells.get(*ix).is_none_or(|cell| *cell == Cell::Unknown) {
                let name = self.layout.places.get(*ix).map_or("", |place| place.spec.name);
                let reason = match name {
                    "job_key" | "node" => reason::NO_KEY,
                    "submit" => reason::NO_SUBMIT,
                    _ => NO_VALUE,
                };
                return Some((reason, name));
            }
        }
        let whole = whole?;
        let Some(key_ix) = self.layout.key else {
            return (!self.rows.seen.insert((self.table, whole))).then_some((reason::DUPLICATE, ""));
        };
        let key = cells.get(key_ix).and_then(Cell::text).unwrap_or_default();
        let name = self.layout.places.get(key_ix).map_or("", |place| place.spec.name);
        match self.rows.keys.entry((self.table, key.into())) {
            std::collections::hash_map::Entry::Occupied(first) if *first.get() == whole => {
                Some((reason::DUPLICATE, name))
            }
            std::collections::hash_map::Entry::Occupied(_) => Some((REPEATED_KEY, name)),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(whole);
                None
            }
        }
    }

    /// Turns the state into a canonical word.
    fn settle_state(&self, cells: &mut [Cell<'_>], audit: &mut RowAudit<'_>) -> Option<JobState> {
        let ix = self.layout.state?;
        let cell = cells.get_mut(ix)?;
        let place = self.layout.places.get(ix)?;
        place.rule?;
        let state = match cell.text() {
            None => JobState::Unknown,
            Some(word) => {
                let found =
                    JobState::ALL.into_iter().find(|state| state.id() == word).or_else(|| JobState::parse(word));
                found.unwrap_or_else(|| {
                    audit.repair(reason::UNKNOWN_STATE, place.spec.name, word);
                    JobState::Unknown
                })
            }
        };
        *cell = Cell::Text(state.id().into());
        Some(state)
    }
}

/// Fills what follows from a job's other columns, and checks its times.
fn settle_job<'a>(
    job: &JobPlaces,
    layout: &Layout<'_>,
    state: Option<JobState>,
    word: Raw<'a>,
    cells: &mut [Cell<'a>],
    audit: &mut RowAudit<'_>,
) {
    let unmapped = |ix: usize| layout.places.get(ix).is_some_and(|place| place.rule.is_none());
    let int = |cells: &[Cell<'_>], ix: usize| cells.get(ix).and_then(Cell::int);
    let set = |cells: &mut [Cell<'a>], ix: usize, cell: Cell<'a>| {
        if let Some(slot) = cells.get_mut(ix) {
            *slot = cell;
        }
    };
    if unmapped(job.reported_state) && word != Raw::Null && !word.text().is_empty() {
        set(cells, job.reported_state, Cell::Text(word.text()));
    }
    if let (Some(state), true) = (state, unmapped(job.censored)) {
        let open = matches!(state, JobState::Running | JobState::Pending);
        set(cells, job.censored, if state == JobState::Unknown { Cell::Unknown } else { Cell::Int(i64::from(open)) });
    }
    if int(cells, job.censored) == Some(1) {
        if let Some(end) = int(cells, job.end) {
            audit.repair(ENDED_WHILE_RUNNING, "end", &crate::time::format_utc(end));
            set(cells, job.end, Cell::Unknown);
        }
    }
    let mut checked = JobRow {
        submit: int(cells, job.submit),
        start: int(cells, job.start),
        end: int(cells, job.end),
        attempts: int(cells, job.attempts),
        ..JobRow::default()
    };
    check_job(&mut checked, audit);
    set(cells, job.end, checked.end.map_or(Cell::Unknown, Cell::Int));
    set(cells, job.run_s, checked.run_s.map_or(Cell::Unknown, Cell::Num));
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A Parquet column in one of the types we read.
enum Values {
    Null,
    Text(StringArray),
    Int(Int64Array),
    Num(Float64Array),
    Flag(BooleanArray),
    Utc(TimestampMillisecondArray),
    Civil(TimestampMillisecondArray),
}

impl Values {
    /// Converts `array`; what was found if its type is none we read.
    fn of(array: &ArrayRef) -> std::result::Result<Self, String> {
        let to = |kind: &DataType| cast(array, kind).map_err(|e| e.to_string());
        let other = || format!("type {}", array.data_type());
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(to(&DataType::Utf8)?.as_string_opt::<i32>().ok_or_else(other)?.clone())
            }
            DataType::Dictionary(_, value) => return Self::of(&to(value)?),
            kind if kind.is_integer() => {
                Self::Int(to(&DataType::Int64)?.as_primitive_opt::<Int64Type>().ok_or_else(other)?.clone())
            }
            kind if kind.is_floating() => {
                Self::Num(to(&DataType::Float64)?.as_primitive_opt::<Float64Type>().ok_or_else(other)?.clone())
            }
            DataType::Boolean => Self::Flag(array.as_boolean_opt().ok_or_else(other)?.clone()),
            DataType::Timestamp(_, zone) => {
                let ms = to(&DataType::Timestamp(ArrowUnit::Millisecond, zone.clone()))?;
                let ms = ms.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(other)?.clone();
                if zone.is_some() { Self::Utc(ms) } else { Self::Civil(ms) }
            }
            DataType::Date32 | DataType::Date64 => {
                let ms = to(&DataType::Timestamp(ArrowUnit::Millisecond, None))?;
                Self::Civil(ms.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(other)?.clone())
            }
            _ => return Err(other()),
        })
    }

    fn get(&self, ix: usize) -> Raw<'_> {
        match self {
            Self::Null => Raw::Null,
            Self::Text(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Text(array.value(ix))),
            Self::Int(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Int(array.value(ix))),
            Self::Num(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Num(array.value(ix))),
            Self::Flag(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Flag(array.value(ix))),
            Self::Utc(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Utc(array.value(ix))),
            Self::Civil(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Civil(array.value(ix))),
        }
    }
}

/// `ix`, if it is in range and not null: only then may a value be taken.
fn known(array: &dyn Array, ix: usize) -> Option<usize> {
    (ix < array.len() && array.is_valid(ix)).then_some(ix)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Float32Array, LargeStringArray, RecordBatch, TimestampNanosecondArray, UInt16Array,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::ingest::{self, ReadOptions};
    use crate::time::TimeBasis;

    const MAPPING: &str = r#"
        table = "jobs"
        [source]
        zone = "Asia/Shanghai"
        [columns]
        job_key = { column = "Id" }
        user = { column = "who" }
        submit = { column = "at" }
        start = { column = "begun" }
        end = { column = "begun", add = ["hours"], add_unit = "h" }
        req_gpus = { column = "gpus" }
        censored = { column = "open" }
    "#;

    /// Local nanoseconds and UTC milliseconds, unsigned and half-width numbers, dictionaries, booleans and nulls.
    #[test]
    fn parquet_types_are_converted() {
        let who: DictionaryArray<Int32Type> = [Some("ada"), None, Some("ada"), None].into_iter().collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("spare", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
            ("gpus", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(2.0), Some(2.0)]))),
            ("who", Arc::new(who)),
            ("id", Arc::new(LargeStringArray::from(vec![Some("a"), Some("b"), None, Some("b")]))),
            // 08:00 and 09:00 on the clocks of Shanghai are 00:00 and 01:00 UTC.
            ("at", Arc::new(TimestampNanosecondArray::from(vec![28_800_000_000_000, 32_400_000_000_000, 0, 0]))),
            (
                "begun",
                Arc::new(TimestampMillisecondArray::from(vec![Some(60_000), None, None, None]).with_timezone("UTC")),
            ),
            ("hours", Arc::new(UInt16Array::from(vec![2, 2, 2, 2]))),
            ("open", Arc::new(BooleanArray::from(vec![Some(false), Some(true), None, None]))),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch =
            RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, array)| array).collect()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (data, mapping) = (dir.path().join("jobs.parquet"), dir.path().join("m.toml"));
        let mut writer = ArrowWriter::try_new(File::create(&data).unwrap(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::write(&mapping, MAPPING).unwrap();

        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        let trace = ingest::read(&[SourceFile::new(&data)], &options).unwrap();
        let jobs = &trace.jobs;
        assert_eq!((trace.basis, trace.zone.as_str()), (TimeBasis::Local, "Asia/Shanghai"));
        assert_eq!(jobs.job_key.iter().collect::<Vec<_>>(), [Some("a"), Some("b")]);
        assert_eq!(jobs.user.iter().collect::<Vec<_>>(), [Some("ada"), None]);
        assert_eq!(jobs.submit.iter().collect::<Vec<_>>(), [Some(0), Some(3_600_000)]);
        assert_eq!(jobs.end.iter().collect::<Vec<_>>(), [Some(60_000 + 7_200_000), None]);
        assert_eq!(jobs.run_s.iter().collect::<Vec<_>>(), [Some(7_200.0), None]);
        assert_eq!(jobs.req_gpus.iter().collect::<Vec<_>>(), [Some(0.5), None]);
        assert_eq!(jobs.censored.iter().collect::<Vec<_>>(), [Some(0), Some(1)]);
        // Row 3 has no key; row 4 has that of row 2 and other values.
        assert_eq!((trace.ledger.count("no_key"), trace.ledger.count("repeated_key")), (1, 1));
        assert_eq!((trace.ledger.read, trace.ledger.kept), (4, 2));
    }
}
