//! Measured groups: three jobs and more that ran together on one GPU, from the CSV that `datasets/pairs/measure.py --groups` writes.
//!
//! Columns `gpu_type,group,job,speed`: a row for each job, `group` the same in all rows of a group, and `speed` the share of the job's speed alone. It is empty in all rows of a group that did not fit.
//! GPU types and job types are spelled as in the pairs beside it. Other columns are passed over.
//!
//! What they say of the predictor is in [`backtest`].
//!
//! O(bytes). Worked example: rows `h100,1,a,0.4`, `h100,1,a,0.5` and `h100,1,b,0.3` are one group, of two jobs `a` and one `b`.

use std::collections::BTreeMap;
use std::path::Path;

use super::predictor::MOST_TOGETHER;
use super::table::{SharingTable, share_alone};
use crate::error::{Error, Result};
use crate::sheet::{Sheet, SheetRow, text};

mod backtest;

pub use backtest::{COMPOSED, CouplesKnown, GroupScore, GroupTest, backtest};

/// Fewest jobs of a group: two are a pair.
const FEWEST: usize = 3;

/// Jobs that ran together on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGroup {
    /// GPU type, a place in [`SharingTable::gpu_types`].
    pub gpu: usize,
    /// Job types, places in [`SharingTable::jobs`]; one that ran several times stands there so often.
    pub jobs: Vec<usize>,
    /// Normalised speed of each; `None` if they did not fit.
    pub speeds: Option<Vec<f64>>,
}

/// The rows of a group so far: job types, and their speeds.
type Rows = (Vec<usize>, Vec<Option<f64>>);

/// Groups while their rows are read: GPU type and name, in the order in which they begin.
#[derive(Default)]
struct Reading {
    order: Vec<(usize, String)>,
    rows: BTreeMap<(usize, String), Rows>,
}

impl Reading {
    /// Takes a row.
    fn take(&mut self, row: &SheetRow<'_>, table: &SharingTable) -> Result<()> {
        let known = |column: &str, names: &[String], remedy: &str| {
            let name = row.name(column)?;
            let place = names.iter().position(|known| known == name);
            place.ok_or_else(|| {
                row.wrong(format!("column `{column}` holds `{name}`, of which there is no pair"), remedy)
            })
        };
        let spelled = format!("spell it as the pairs do: {}", table.gpu_types().join(", "));
        let gpu = known("gpu_type", table.gpu_types(), &spelled)?;
        let job = known("job", table.jobs(), "spell it as the pairs do, or measure its pairs as well")?;
        let speed = share_alone(row, "speed")?;
        let name = row.name("group")?;
        let key = (gpu, name.to_owned());
        let (jobs, speeds) = self.rows.entry(key.clone()).or_insert_with(|| {
            self.order.push(key);
            Default::default()
        });
        if speeds.first().is_some_and(|first| first.is_some() != speed.is_some()) {
            let told = format!("some speeds of the group `{name}` are empty or 0, and others are not");
            return Err(row.wrong(told, "write all of them, or leave all empty where the group did not fit"));
        }
        if jobs.len() == MOST_TOGETHER {
            let told = format!("the group `{name}` has more than {MOST_TOGETHER} jobs");
            return Err(
                row.wrong(told, "give each group a name of its own; no more jobs than these are forecast together")
            );
        }
        jobs.push(job);
        speeds.push(speed);
        Ok(())
    }
}

/// The groups of a file, in the order in which they begin; `table` has the pairs beside which they were measured.
///
/// # Errors
/// If the file cannot be read or is not what it should be, or names a GPU type or a job type that no pair or profile has; the error says where, and what would mend it.
pub fn read(path: &Path, table: &SharingTable) -> Result<Vec<MeasuredGroup>> {
    let content = text(path)?;
    let sheet = Sheet::open(path, &content)?;
    let needed = ["gpu_type", "group", "job", "speed"];
    sheet.needs(&needed, &format!("name a file of groups with the columns {}", needed.join(", ")))?;
    let mut reading = Reading::default();
    sheet.rows(|row| reading.take(row, table))?;
    let wrong = |found: String, remedy: &str| Error::Measured {
        file: path.display().to_string(),
        line: None,
        found,
        remedy: remedy.to_owned(),
    };
    if reading.order.is_empty() {
        return Err(wrong("there is no group in it".to_owned(), "write a row for each job of a group"));
    }
    let Reading { order, mut rows } = reading;
    let mut groups = Vec::with_capacity(order.len());
    for key in order {
        let Some((jobs, speeds)) = rows.remove(&key) else { continue };
        if jobs.len() < FEWEST {
            let told = format!("the group `{}` has fewer than {FEWEST} jobs", key.1);
            return Err(wrong(told, "write pairs into the file of pairs, and all jobs of a group under one name"));
        }
        groups.push(MeasuredGroup { gpu: key.0, jobs, speeds: speeds.into_iter().collect() });
    }
    Ok(groups)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::table::SharedPair;
    use super::*;
    use crate::sheet::tests::file;

    fn table() -> SharingTable {
        let mut table = SharingTable::new();
        let (gpu, a, b) = (table.gpu_type("h100"), table.job("a"), table.job("b"));
        table.add_pairs([SharedPair { gpu, a, b, speeds: None }]);
        table.sorted()
    }

    #[test]
    fn the_worked_example() {
        let rows = "group,gpu_type,job,speed,note\n1,h100,a,0.4,x\n2,h100,b,,\n1,h100,a,0.5,\n1,h100,b,0.3,\n2,h100,b,0,\n2,h100,b,,\n";
        let groups = read(file(rows).path(), &table()).unwrap();
        let one = MeasuredGroup { gpu: 0, jobs: vec![0, 0, 1], speeds: Some(vec![0.4, 0.5, 0.3]) };
        assert_eq!(groups, [one, MeasuredGroup { gpu: 0, jobs: vec![1; 3], speeds: None }]);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_remedy() {
        let told = |rows: &str| {
            let text = format!("gpu_type,group,job,speed\n{rows}");
            read(file(&text).path(), &table()).unwrap_err().to_string()
        };
        assert!(told("").contains("there is no group in it; write a row"));
        assert!(told("h100,1,c,0.5\n").contains("line 2: column `job` holds `c`, of which there is no pair; spell it"));
        assert!(told("H100,1,a,0.5\n").contains("`H100`, of which there is no pair; spell it as the pairs do: h100"));
        assert!(told("h100,1,a,50\n").contains("line 2: column `speed` holds 50, which is more than 10 times"));
        assert!(told("h100,1,a,-1\n").contains("no number of at least 0"));
        assert!(told("h100,,a,1\n").contains("line 2: column `group` is empty"));
        assert!(told("h100,1,a,1\nh100,1,b,\n").contains("line 3: some speeds of the group `1` are empty or 0"));
        assert!(told("h100,1,a,1\nh100,1,b,1\n").contains("the group `1` has fewer than 3 jobs; write pairs"));
        assert!(told(&"h100,1,a,0.1\n".repeat(17)).contains("line 18: the group `1` has more than 16 jobs"));
        let pairs = file("gpu_type,job_a,job_b,speed_a,speed_b\nh100,a,b,1,1\n");
        assert!(read(pairs.path(), &table()).unwrap_err().to_string().contains("name a file of groups with"));
    }
}
