//! Rows of source values, converted column by column and pushed into a canonical table; those of delimited text.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cell::{Cell, Converter, Raw};
use super::file::{Given, Mapping, Rule};
use super::{ENDED_WHILE_RUNNING, NO_VALUE, REPEATED_KEY, UNKNOWN_WORD};
use crate::error::{Error, Result};
use crate::ingest::Delimited;
use crate::ingest::options::ReadOptions;
use crate::ingest::read::check_job;
use crate::ingest::source::{Head, SourceFile};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::{ColumnMut, ColumnSpec, JobRow, JobState, Table};

/// Rows already seen in the files of one request.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Hashes of whole rows, by table. Two rows of ten million with the same hash are a chance of one in 10⁵.
    seen: HashSet<(&'static str, u64)>,
    /// Keys of jobs and nodes, with the hash of their row.
    keys: HashMap<(&'static str, Box<str>), u64>,
}

/// A source column for each canonical one, by position among the columns read.
pub(super) struct Layout<'m> {
    /// Source columns, lower case, each once.
    pub(super) wanted: Vec<&'m str>,
    /// Whether the file may lack a source column.
    optional: Vec<bool>,
    places: Vec<Place<'m>>,
    /// Position of the key column (`jobs` and `nodes`), among the table's columns.
    pub(super) key: Option<usize>,
    /// Positions of the columns every row must have.
    required: Vec<usize>,
    /// Position of the canonical state (`jobs.state`, `attempts.end_reason`).
    state: Option<usize>,
    job: Option<JobPlaces>,
}

/// Origin of one canonical column.
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
    reported_run_s: usize,
    reported_wait_s: usize,
    alloc_nodes: usize,
    alloc_cpus: usize,
    alloc_gpus: usize,
    nodes_hostlist: usize,
}

impl<'m> Layout<'m> {
    fn new(mapping: &'m Mapping) -> Self {
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
                Some(Given::Column { name, optional }) => from = Some(layout.want(name, *optional)),
                Some(Given::Constant(text)) => constant = Some(text.as_str()),
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
    pub(super) fn find(&self, file: &SourceFile, header: &[String]) -> Result<Vec<Option<usize>>> {
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
            reported_run_s: position("reported_run_s")?,
            reported_wait_s: position("reported_wait_s")?,
            alloc_nodes: position("alloc_nodes")?,
            alloc_cpus: position("alloc_cpus")?,
            alloc_gpus: position("alloc_gpus")?,
            nodes_hostlist: position("nodes_hostlist")?,
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
        let layout = Layout::new(mapping);
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

/// Separator that the header has most of: comma, tab, semicolon or bar.
pub(super) fn separator(head: &Head, comment: &str) -> u8 {
    let is_comment = |line: &str| !comment.is_empty() && line.starts_with(comment);
    let header = head.text.lines().find(|line| !line.trim().is_empty() && !is_comment(line)).unwrap_or_default();
    let count = |separator: u8| header.bytes().filter(|byte| *byte == separator).count();
    // The last of the largest wins, so the comma comes last.
    [b'|', b';', b'\t', b','].into_iter().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

/// Takes rows as source values and pushes canonical ones.
pub(super) struct Sink<'s, 'c, 't> {
    rows: &'s mut Rows,
    pub(super) layout: &'s Layout<'s>,
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

    /// Converts and pushes one row, or quarantines it. `whole` is a hash of the row as it stands.
    pub(super) fn push(
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
            // A value that is there and cannot be read is not one that was left out.
            let reason = audit.repaired(column).unwrap_or(reason);
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
                let result =
                    JobState::ALL.into_iter().find(|state| state.id() == word).or_else(|| JobState::parse(word));
                result.unwrap_or_else(|| {
                    audit.repair(UNKNOWN_WORD, place.spec.name, word);
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
    if int(cells, job.censored) == Some(1)
        && let Some(end) = int(cells, job.end)
    {
        audit.repair(ENDED_WHILE_RUNNING, "end", &crate::time::format_utc(end));
        set(cells, job.end, Cell::Unknown);
    }
    let num = |cells: &[Cell<'_>], ix: usize| match cells.get(ix) {
        Some(Cell::Num(value)) => Some(*value),
        _ => None,
    };
    let (gpus, cpus) = (num(cells, job.alloc_gpus), num(cells, job.alloc_cpus));
    // Lengths and counts were bounded as they were read; here they only tell what the times mean.
    let known = |value: Option<f64>| value.filter(|value| (0.0..=1e9).contains(value));
    let mut checked = JobRow {
        state: state.map(|state| state.id().into()),
        submit: int(cells, job.submit),
        start: int(cells, job.start),
        end: int(cells, job.end),
        attempts: int(cells, job.attempts),
        alloc_nodes: int(cells, job.alloc_nodes),
        alloc_cpus: cpus,
        alloc_gpus: known(gpus).filter(|gpus| *gpus > 0.0).map(|_| 1.0),
        nodes_hostlist: cells.get(job.nodes_hostlist).and_then(Cell::text).map(|_| "given".into()),
        reported_run_s: known(num(cells, job.reported_run_s)),
        reported_wait_s: known(num(cells, job.reported_wait_s)),
        ..JobRow::default()
    };
    check_job(&mut checked, audit);
    set(cells, job.submit, checked.submit.map_or(Cell::Unknown, Cell::Int));
    set(cells, job.attempts, checked.attempts.map_or(Cell::Unknown, Cell::Int));
    set(cells, job.start, checked.start.map_or(Cell::Unknown, Cell::Int));
    set(cells, job.end, checked.end.map_or(Cell::Unknown, Cell::Int));
    set(cells, job.run_s, checked.run_s.map_or(Cell::Unknown, Cell::Num));
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
