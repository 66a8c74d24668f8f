//! Questions in SQL over the tables of a trace, the facts derived of each job, and the asker's own files.
//!
//! The engine is polars, lazy and streaming: of a trace folder only the columns and row groups that a query needs are read from Parquet, and
//! only the tables that it names. `job_facts` ([`tracecast_analytics::facts::columns`]) rests on definitions that look at all jobs and attempts; it is
//! derived in memory, and only for a query that names it.
//!
//! | module | holds |
//! |---|---|
//! | `statement` | what is asked: one query, nothing that changes anything, with an order that leaves no ties to chance |
//! | `file` | files of the asker's own |
//! | `frame` | tables to frames of polars and back to Arrow |
//! | `hint` | what is said when a query fails: the columns and functions that may be meant |
//! | `reach` | files of this machine alone, and no limit beyond what memory can be set aside for |
//! | `quantiles` | exact quantiles by group, read off counts of values |
//! | [`absent`] | texts that a query looks for and that no row has |
//! | [`answer`] | the rows of an answer, written as text, CSV, JSON, JSON lines, Parquet or Arrow |
//! | [`listing`] | which tables and columns there are |
//! | [`selection`] | a condition over `job_facts` as a mask: `--where` |
//!
//! **Order and rounding.** A query that groups, joins or removes duplicates gives rows in no order of its own, and a sort leaves ties: the columns
//! of the answer, from the left, break what ties an `ORDER BY` leaves, and stand for one where there is none. Floating-point sums depend on the order of adding, which threads choose: numbers of such
//! a query are rounded to ten significant digits. Together this makes the answer the same on any number of threads.
//!
//! Worked number: two jobs, 8 GPUs for 1,800 s and 1 GPU for 3,600 s: `select sum(gpu_hours) from job_facts` is 8 × 0.5 + 1 × 1 = 5.

pub mod absent;
pub mod answer;
pub mod listing;
pub mod selection;

mod file;
mod frame;
mod hint;
mod quantiles;
mod reach;
mod statement;
mod walk;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use polars::prelude::{Engine, IntoLazy as _, LazyFrame, PolarsError, PolarsResult};
use polars::sql::SQLContext;

pub use absent::AbsentText;
pub use answer::QueryAnswer;
pub use listing::{ListedColumn, ListedTable};
pub use selection::Selection;

use tracecast_analytics::error::{Error, Result};
use tracecast_analytics::facts::{JobFacts, columns};
use tracecast_analytics::quality::Ledger;
use tracecast_analytics::schema::{Table, all_specs};
use tracecast_analytics::storage::{self, Manifest};
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::{Trace, each_table};

use hint::failed;
use statement::Statement;

/// Storage of a trace's tables.
#[derive(Debug)]
enum Source {
    /// A trace folder, read as far as a query needs.
    Folder { path: PathBuf, manifest: Box<Manifest> },
    /// A trace in memory.
    Memory(Box<Trace>),
}

/// The tables that a query can name.
#[derive(Debug)]
pub struct Tables {
    source: Source,
    zone: Zone,
    /// The asker's own tables: name and file.
    with: Vec<(String, PathBuf)>,
}

/// A planned query.
struct Planned {
    frame: LazyFrame,
    statement: Statement,
    /// The tables that it names.
    tables: Vec<LazyFrame>,
}

impl Tables {
    /// The tables of a trace folder. Times are shown in `zone`, else in the trace's own.
    ///
    /// # Errors
    /// When the folder's manifest is missing, damaged or of another version, or its zone is not known.
    pub fn of_folder(path: &Path, zone: Option<Zone>) -> Result<Self> {
        let manifest = Box::new(storage::manifest(path)?);
        let zone = zone.map_or_else(|| Zone::named(&manifest.zone), Ok)?;
        Ok(Self { source: Source::Folder { path: path.to_owned(), manifest }, zone, with: Vec::new() })
    }

    /// The tables of a trace in memory, whose zone times are shown in.
    ///
    /// # Errors
    /// When the trace's zone is not known.
    pub fn of_trace(trace: Trace) -> Result<Self> {
        let zone = Zone::named(&trace.zone)?;
        Ok(Self { source: Source::Memory(Box::new(trace)), zone, with: Vec::new() })
    }

    /// Adds the asker's own file (CSV with a header, or Parquet) as the table `name`.
    ///
    /// # Errors
    /// When the name is taken or is none, or the file cannot be opened.
    pub fn add(&mut self, name: &str, path: &Path) -> Result<()> {
        let wrong = |found: &str, remedy: &str| Error::Setting {
            setting: format!("--with {name}={}", path.display()),
            found: found.to_owned(),
            remedy: remedy.to_owned(),
        };
        let first = name.chars().next();
        if !first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err(wrong("this is no name of a table", "use letters, digits and _, such as rates=rates.csv"));
        }
        let taken = |known: &str| known.eq_ignore_ascii_case(name);
        if taken(columns::NAME)
            || all_specs().iter().any(|(known, _)| taken(known))
            || self.with.iter().any(|(known, _)| taken(known))
        {
            return Err(wrong("a table of this name is there already", "choose another name"));
        }
        if !std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?.is_file() {
            return Err(wrong("it is no regular file", "save it as a file, and name that"));
        }
        let mut magic = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(6).read_to_end(&mut magic))
            .map_err(|e| Error::io("read", path, e))?;
        if magic == b"ARROW1" {
            return Err(wrong("it is an Arrow file, which is not read here", "write it as Parquet or CSV"));
        }
        if magic.starts_with(&[0x1f, 0x8b]) || magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return Err(wrong("it is compressed, and such files are not read here", "unpack it first"));
        }
        self.with.push((name.to_owned(), path.to_owned()));
        Ok(())
    }

    /// Ledger of the rows of a trace folder, from its manifest; `None` for a trace in memory.
    pub fn ledger(&self) -> Option<&Ledger> {
        match &self.source {
            Source::Folder { manifest, .. } => Some(&manifest.quality),
            Source::Memory(_) => None,
        }
    }

    /// The zone that times are shown in.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The answer to a query.
    ///
    /// # Errors
    /// When the text is no single query, names what there is not, or a file cannot be read.
    pub fn ask(&self, sql: &str) -> Result<QueryAnswer> {
        let Planned { frame, statement, tables } = self.plan(sql)?;
        let answer = || {
            let mut result = run(frame)?;
            if let Some(kept) = statement.kept() {
                result = result.slice(i64::try_from(kept.offset).unwrap_or(i64::MAX), kept.most);
            }
            let mut answer = QueryAnswer::of(&result, &self.zone, statement.is_aggregate())?;
            answer.absent = absent::absent(&statement.sought(), &tables)?;
            Ok(answer)
        };
        answer().map_err(|error| failed(sql, &error, &tables))
    }

    /// Returns the optimised plan of a query, last step first.
    ///
    /// # Errors
    /// See [`Tables::ask`].
    pub fn explain(&self, sql: &str) -> Result<String> {
        let Planned { frame, tables, .. } = self.plan(sql)?;
        guarded(|| frame.explain(true)).map_err(|error| failed(sql, &error, &tables))
    }

    /// The plan of a query, with every tie of its order broken.
    fn plan(&self, sql: &str) -> Result<Planned> {
        let mut statement = Statement::parse(sql).map_err(|why| refused(sql, why))?;
        let mut context = SQLContext::new();
        let names = self.names();
        let mut tables = Vec::new();
        for request in statement.tables() {
            let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(request)) else {
                if statement.defines(request) {
                    continue;
                }
                return Err(refused(sql, format!("there is no table {request}; there are {}", names.join(", "))));
            };
            let table = self.frame(name)?;
            context.register(request, table.clone());
            tables.push(table);
        }
        let wrong = |error: PolarsError| failed(sql, &error, &tables);
        let mut frame = guarded(|| context.execute(&statement.text())).map_err(wrong)?;
        if statement.is_unordered() {
            let schema = guarded(|| frame.collect_schema()).map_err(wrong)?;
            let sortable = schema.iter().enumerate().filter(|(_, (_, kind))| !kind.is_nested());
            statement.order_fully(sortable.map(|(ix, (name, _))| (ix + 1, name.to_string())));
            frame = guarded(|| context.execute(&statement.text())).map_err(wrong)?;
        }
        Ok(Planned { frame: quantiles::off_counts(frame), statement, tables })
    }

    /// Names of all tables, the asker's last.
    fn names(&self) -> Vec<String> {
        let facts_first = std::iter::once(columns::NAME).chain(all_specs().into_iter().map(|(name, _)| name));
        facts_first.map(str::to_owned).chain(self.with.iter().map(|(name, _)| name.clone())).collect()
    }

    /// The table called `name` as a frame.
    fn frame(&self, name: &str) -> Result<LazyFrame> {
        if let Some((_, path)) = self.with.iter().find(|(known, _)| known == name) {
            return file::scan(path);
        }
        if name == columns::NAME {
            return match &self.source {
                Source::Memory(trace) => facts(trace, &self.zone),
                Source::Folder { path, .. } => facts(&storage::load_only(path, &["jobs", "attempts"])?, &self.zone),
            };
        }
        match &self.source {
            Source::Memory(trace) => table_of(trace, name, &self.zone),
            Source::Folder { path, manifest } if manifest.tables.iter().any(|table| table.name == name) => {
                let path = path.join(format!("{name}.parquet"));
                let stored = file::scan_parquet(&path)?;
                frame::in_zone(stored, &self.zone).map_err(|error| file::unreadable(&path, &error))
            }
            // A table without rows has no file.
            Source::Folder { .. } => table_of(&Trace::default(), name, &self.zone),
        }
    }
}

/// The canonical table `name` of a trace in memory as a frame.
fn table_of(trace: &Trace, name: &str, zone: &Zone) -> Result<LazyFrame> {
    let mut result = None;
    each_table!(&trace, table => in_memory(table, name, zone, &mut result)?);
    result.ok_or_else(|| refused(name, "there is no such table".to_owned()))
}

/// `job_facts` of a trace as a frame.
fn facts(trace: &Trace, zone: &Zone) -> Result<LazyFrame> {
    let mut facts = JobFacts::new(trace);
    facts.zone = zone.clone();
    let frame = frame::of_rows(facts.len(), zone, |from, to| columns::batch(&facts, from, to))?;
    Ok(frame.lazy())
}

fn in_memory<T: Table>(table: &T, name: &str, zone: &Zone, result: &mut Option<LazyFrame>) -> Result<()> {
    if T::NAME == name {
        *result = Some(frame::of_rows(table.len(), zone, |from, to| storage::batch(table, from, to))?.lazy());
    }
    Ok(())
}

/// Runs a plan. Panics within polars, which has some where SQL asks for what it lacks, are its errors.
#[expect(clippy::redundant_closure_for_method_calls, reason = "polars does not export the type of the method")]
fn run(frame: LazyFrame) -> PolarsResult<polars::prelude::DataFrame> {
    guarded(|| frame.collect_with_engine(Engine::Streaming).map(|result| result.unwrap_single()))
}

fn guarded<T>(work: impl FnOnce() -> PolarsResult<T>) -> PolarsResult<T> {
    storage::guarded_with_engine(work).unwrap_or_else(|| {
        Err(PolarsError::ComputeError("the engine gave up; it cannot do what was asked with these columns".into()))
    })
}

fn refused(sql: &str, why: String) -> Error {
    Error::Query { sql: sql.to_owned(), why }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
