//! Several traces as one: job accounting from here, meters from there, a month in each folder.
//!
//! Rows follow each other. What both have is there once: jobs and nodes by their key, other tables by the whole row. Samples may repeat, and
//! who uses them counts the first of a device and moment. A job that is in both with other values is an error, as nobody can tell whether it
//! is two jobs of two clusters or one that is recorded wrongly.
//!
//! O(rows). Worked number: folders of March and April with 100 and 120 jobs, of which 3 ran over midnight and are in both alike, have 217 jobs.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Selected, Trace};
use crate::error::{Error, Result};
use crate::schema::{ColumnMut, ColumnRef, GpuSampleTable, JobTable, NodeSampleTable, NodeTable, Table};

impl Trace {
    /// Adds another trace, called `name` in messages.
    ///
    /// # Errors
    /// If one has dates and the other has not, or a job or node is in both with other values.
    pub fn merge(&mut self, mut other: Self, name: &str) -> Result<()> {
        let timed = |trace: &Self| !trace.row_counts().is_empty();
        if timed(self) && timed(&other) && self.basis.has_dates() != other.basis.has_dates() {
            return Err(Error::Setting {
                setting: "sources".to_owned(),
                found: format!(
                    "times of {name} and of the sources before it do not meet: one has dates, the other has not"
                ),
                remedy: "name sources of one cluster with dates, or one by one".to_owned(),
            });
        }
        // The trace with the jobs says where the cluster is.
        let leads = self.jobs.is_empty() && (!other.jobs.is_empty() || !timed(self));
        if leads {
            self.basis = other.basis.clone();
            self.zone.clone_from(&other.zone);
            self.counts_gpus = other.counts_gpus;
        } else if !other.jobs.is_empty() {
            self.counts_gpus &= other.counts_gpus;
        }
        let (here, there) = (self.jobs.len(), other.jobs.len());
        add_keyed(&mut self.jobs, &other.jobs, "job_key", name)?;
        let selected = Selected::union((self.selected.take(), here), (other.selected.take(), there), self.jobs.len());
        add_keyed(&mut self.nodes, &other.nodes, "node", name)?;
        (other.jobs, other.nodes) = (JobTable::default(), NodeTable::default());
        add_all(&mut self.gpu_samples, &other.gpu_samples);
        add_all(&mut self.node_samples, &other.node_samples);
        (other.gpu_samples, other.node_samples) = (GpuSampleTable::default(), NodeSampleTable::default());
        add_new(&mut self.attempts, &other.attempts);
        add_new(&mut self.placements, &other.placements);
        add_new(&mut self.capacity, &other.capacity);
        add_new(&mut self.activity, &other.activity);
        add_new(&mut self.carbon, &other.carbon);
        add_new(&mut self.prices, &other.prices);
        add_new(&mut self.availability, &other.availability);
        for source in other.sources {
            if !self.sources.contains(&source) {
                self.sources.push(source);
            }
        }
        self.skipped.extend(other.skipped);
        self.empty.extend(other.empty);
        other.notes.into_iter().for_each(|note| self.note(note));
        self.selected = selected;
        self.ledger.merge(other.ledger);
        self.finish();
        Ok(())
    }
}

fn add_all<T: Table>(table: &mut T, more: &T) {
    add(table, more, |_| true);
}

/// Adds the rows that are not there yet.
fn add_new<T: Table>(table: &mut T, more: &T) {
    if more.is_empty() {
        return;
    }
    let seen: HashSet<u64> = (0..table.len()).map(|ix| hash(table, ix)).collect();
    let fresh: Vec<bool> = (0..more.len()).map(|ix| !seen.contains(&hash(more, ix))).collect();
    add(table, more, |ix| fresh.get(ix).copied().unwrap_or(true));
}

/// Adds the rows whose key is not there yet; rows of a known key must be alike.
fn add_keyed<T: Table>(table: &mut T, more: &T, key: &str, name: &str) -> Result<()> {
    let Some(column) = T::COLUMNS.iter().position(|spec| spec.name == key) else { return Ok(()) };
    let mut known: HashMap<String, usize> = HashMap::new();
    for ix in 0..table.len() {
        if let Some(key) = text(table, column, ix) {
            known.insert(key, ix);
        }
    }
    let mut fresh = vec![true; more.len()];
    for (ix, fresh) in fresh.iter_mut().enumerate() {
        let Some((key, place)) = text(more, column, ix).and_then(|key| known.get(&key).map(|place| (key, *place)))
        else {
            continue;
        };
        if hash(table, place) != hash(more, ix) {
            return Err(Error::Setting {
                setting: "sources".to_owned(),
                found: format!(
                    "{} {key} is in {name} and in a source before it, with other values",
                    T::NAME.trim_end_matches('s')
                ),
                remedy: "name the source that has it right, or sources of other clusters one by one".to_owned(),
            });
        }
        *fresh = false;
    }
    add(table, more, |ix| fresh.get(ix).copied().unwrap_or(true));
    Ok(())
}

fn text<T: Table>(table: &T, column: usize, ix: usize) -> Option<String> {
    match table.columns().get(column)? {
        ColumnRef::Text(text) => text.get(ix).map(str::to_owned),
        ColumnRef::Label(label) => label.get(ix).map(str::to_owned),
        _ => None,
    }
}

/// Hash of a whole row. Two of ten million have the same with a chance of one in 10^5.
fn hash<T: Table>(table: &T, ix: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for column in table.columns() {
        match column {
            ColumnRef::Text(text) => text.get(ix).hash(&mut hasher),
            ColumnRef::Label(label) => label.get(ix).hash(&mut hasher),
            ColumnRef::Int(int) => int.get(ix).hash(&mut hasher),
            ColumnRef::Num(num) => num.get(ix).map(f64::to_bits).hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// Adds the rows for which `wanted` holds.
fn add<T: Table>(table: &mut T, more: &T, wanted: impl Fn(usize) -> bool) {
    let rows: Vec<usize> = (0..more.len()).filter(|ix| wanted(*ix)).collect();
    for (into, from) in table.columns_mut().into_iter().zip(more.columns()) {
        match (into, from) {
            (ColumnMut::Text(into), ColumnRef::Text(from)) => rows.iter().for_each(|ix| into.push(from.get(*ix))),
            (ColumnMut::Label(into), ColumnRef::Label(from)) => rows.iter().for_each(|ix| into.push(from.get(*ix))),
            (ColumnMut::Int(into), ColumnRef::Int(from)) => rows.iter().for_each(|ix| into.push(from.get(*ix))),
            (ColumnMut::Num(into), ColumnRef::Num(from)) => rows.iter().for_each(|ix| into.push(from.get(*ix))),
            // Both are columns of one table.
            _ => {}
        }
    }
    table.grow(rows.len());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{JobRow, NodeSampleRow, PlacementRow};
    use crate::time::TimeBasis;

    fn trace(keys: &[(&str, i64)]) -> Trace {
        let mut trace = Trace::default();
        for (key, end) in keys {
            trace.jobs.push(JobRow {
                job_key: Some((*key).into()),
                submit: Some(1),
                end: Some(*end),
                ..JobRow::default()
            });
            trace.placements.push(PlacementRow {
                job_key: Some((*key).into()),
                node: Some("n".into()),
                ..PlacementRow::default()
            });
        }
        trace.ledger.keep_many(keys.len() as u64);
        trace
    }

    #[test]
    fn what_two_have_alike_is_there_once_and_what_differs_is_an_error() {
        let mut all = trace(&[("a", 5), ("b", 6)]);
        all.merge(trace(&[("b", 6), ("c", 7)]), "april").unwrap();
        assert_eq!((all.jobs.len(), all.placements.len(), all.ledger.read), (3, 3, 4));
        assert!(all.ledger.balances());
        let error = all.merge(trace(&[("c", 8)]), "may").unwrap_err().to_string();
        assert!(error.contains("job c is in may") && error.contains("one by one"), "{error}");
    }

    #[test]
    fn meters_join_jobs_and_the_jobs_say_the_zone() {
        let mut meters = Trace { zone: "UTC".into(), ..Trace::default() };
        meters.node_samples.push(NodeSampleRow { ts: Some(9), node: Some("n".into()), ..NodeSampleRow::default() });
        let mut jobs = trace(&[("a", 5)]);
        jobs.zone = "Europe/Berlin".into();
        jobs.basis = TimeBasis::Local;
        meters.merge(jobs, "accounting").unwrap();
        assert_eq!((meters.jobs.len(), meters.node_samples.len(), meters.zone.as_str()), (1, 1, "Europe/Berlin"));
        let relative = Trace { basis: TimeBasis::Relative, ..trace(&[("z", 1)]) };
        assert!(meters.merge(relative, "philly").unwrap_err().to_string().contains("do not meet"));
    }
}
