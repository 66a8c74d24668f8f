//! What the GPUs must carry, and how they are partitioned now, from CSV files.
//!
//! **Demand**: columns `job,jobs` (so many jobs of the type run at once, each on a slice of its own), or `job,per_hour,run_s` (so many come in an hour, and each would run so long alone on a
//! whole GPU). A file is of one form. **Now**: columns `partition,gpus`, where a partition is a name as [`MigPartition`] reads it.
//!
//! Jobs that come are a load: `per_hour × run_s / 3600` whole GPUs that are busy. A slice on which they run at speed s carries `s × busy` of it, where `busy` is the share of the time
//! that slices may be held, so that jobs seldom wait. O(lines).
//!
//! Worked example: 12 jobs an hour of 30 min each are a load of 6. At speed 0.5 and 80 % busy, a slice carries 0.4 of it, so 15 slices carry all.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::HOUR_S;
use tracecast_predictors::sheet::{self, Sheet, SheetRow};

use super::gpu::MigGpu;
use super::partition::MigPartition;
use crate::error::{Error, Result};

/// Most job types of a file.
const MOST_TYPES: usize = 500;
/// Most jobs of a type at once, GPUs, or whole GPUs of load.
pub(super) const MOST: f64 = 1e5;

/// Demand of one job type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigDemandRow {
    /// Job type.
    pub job: String,
    /// Jobs at once, or jobs an hour.
    pub jobs: f64,
    /// How long one runs alone on a whole GPU, seconds; none where jobs at once are told.
    pub run_s: Option<f64>,
}

impl MigDemandRow {
    /// Whole GPUs that it keeps busy if every job runs alone.
    pub fn load(&self) -> f64 {
        self.run_s.map_or(self.jobs, |run_s| self.jobs * run_s / HOUR_S)
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct MigDemand {
    /// Job types, in order of the file.
    pub rows: Vec<MigDemandRow>,
    /// Whether jobs come and go, and are no fixed number at once.
    pub is_load: bool,
}

impl MigDemand {
    /// Reads a file of demand.
    ///
    /// # Errors
    /// If it is not of a form above, names a job type twice, or asks for nothing; with the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = sheet::text(path)?;
        let sheet = Sheet::open(path, &text)?;
        let is_load = sheet.has(&["job", "per_hour", "run_s"]);
        if sheet.has(&["jobs"]) == is_load || !sheet.has(&["job"]) {
            return Err(sheet
                .other("name a file of demand with the columns job and jobs, or job, per_hour and run_s")
                .into());
        }
        let mut rows: Vec<MigDemandRow> = Vec::new();
        sheet.rows(|row| {
            let job = row.name("job")?.to_owned();
            if rows.iter().any(|known| known.job == job) {
                return Err(row.wrong(format!("`{job}` stands in the file twice"), "write one line for each job type"));
            }
            if rows.len() >= MOST_TYPES {
                return Err(row.wrong(
                    format!("there are more than {MOST_TYPES} job types"),
                    "put those together that run alike",
                ));
            }
            let (jobs, run_s) = if is_load {
                (amount(row, "per_hour")?, Some(amount(row, "run_s")?))
            } else {
                (whole(row, "jobs")?, None)
            };
            let result = MigDemandRow { job, jobs, run_s };
            if result.load() > MOST {
                return Err(row.wrong(
                    format!("it keeps {} GPUs busy, and {MOST} are the most", result.load()),
                    "plan a part of the jobs, or check the units: run_s is in seconds",
                ));
            }
            // What asks for nothing needs nothing.
            if result.load() > 0.0 {
                rows.push(result);
            }
            Ok(())
        })?;
        if rows.is_empty() {
            return Err(Error::no_jobs(format!("{}: no job is asked for in it", path.display())));
        }
        Ok(Self { rows, is_load })
    }

    /// Whole GPUs that all keep busy if every job runs alone.
    pub fn load(&self) -> f64 {
        self.rows.iter().map(MigDemandRow::load).sum()
    }

    /// All jobs: at once, or in an hour.
    pub fn jobs(&self) -> f64 {
        self.rows.iter().map(|row| row.jobs).sum()
    }
}

type Cell<T> = std::result::Result<T, tracecast_predictors::Error>;

/// A number that must be there.
fn amount(row: &SheetRow<'_>, name: &str) -> Cell<f64> {
    let Some(result) = row.number(name)? else {
        return Err(row.wrong(format!("column `{name}` is empty"), "write a number in every row"));
    };
    if result > 1e9 {
        return Err(row.wrong(format!("column `{name}` holds {result}"), "write a number below a billion"));
    }
    Ok(result)
}

/// A whole number that must be there.
fn whole(row: &SheetRow<'_>, name: &str) -> Cell<f64> {
    let result = amount(row, name)?;
    if result.fract() != 0.0 || result > MOST {
        return Err(
            row.wrong(format!("column `{name}` holds {result}"), &format!("write a whole number of at most {MOST}"))
        );
    }
    Ok(result)
}

/// Reads how GPUs are partitioned now: partitions, and how many GPUs have each.
///
/// # Errors
/// If it is not of the form above, or a partition is none of the GPU; with the line.
pub fn read_now(path: &Path, gpu: &MigGpu) -> Result<Vec<(MigPartition, u32)>> {
    let text = sheet::text(path)?;
    let sheet = Sheet::open(path, &text)?;
    sheet.needs(&["partition", "gpus"], "name a file with the columns partition and gpus, such as 2x3g.20gb,4")?;
    let mut result: Vec<(MigPartition, u32)> = Vec::new();
    sheet.rows(|row| {
        let name = row.name("partition")?;
        let partition = MigPartition::parse(gpu, name).map_err(|error| {
            row.wrong(error.to_string(), "write a partition of this GPU, or name another GPU with --gpu")
        })?;
        let gpus = whole(row, "gpus")? as u32;
        match result.iter_mut().find(|(known, _)| *known == partition) {
            Some((_, known)) => *known = known.saturating_add(gpus),
            None => result.push((partition, gpus)),
        }
        Ok(())
    })?;
    let all: f64 = result.iter().map(|(_, gpus)| f64::from(*gpus)).sum();
    if all > MOST {
        let what = format!("{}: {all} GPUs, where {MOST} are the most that can be planned", path.display());
        return Err(Error::NothingToEvaluate(what));
    }
    result.retain(|(_, gpus)| *gpus > 0);
    if result.is_empty() {
        return Err(Error::no_jobs(format!("{}: there is no GPU in it", path.display())));
    }
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn both_forms_are_read() {
        let at_once = MigDemand::read(file("job,jobs,team\na,3,x\nb,0,y\n").path()).unwrap();
        assert!(!at_once.is_load && at_once.rows.len() == 1 && (at_once.load() - 3.0).abs() < 1e-12);
        let comes = MigDemand::read(file("job,per_hour,run_s\na,12,1800\nb,1.5,600\n").path()).unwrap();
        // The worked example.
        assert!(comes.is_load && (comes.rows[0].load() - 6.0).abs() < 1e-12 && (comes.jobs() - 13.5).abs() < 1e-12);
        let gpu = MigGpu::named("a100-40gb").unwrap();
        let now = read_now(file("partition,gpus\n2x3g.20gb,4\nwhole,2\n3g.20gb+3g.20gb,1\n7x1g.5gb,0\n").path(), gpu);
        let named: Vec<(String, u32)> = now.unwrap().iter().map(|(of, gpus)| (of.name(gpu), *gpus)).collect();
        assert_eq!(named, [("2x3g.20gb".to_owned(), 5), ("whole".to_owned(), 2)]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| MigDemand::read(file(text).path()).unwrap_err().to_string();
        for (text, wanted) in [
            ("a,b\n1,2\n", "name a file of demand with the columns job and jobs"),
            ("job,jobs,per_hour,run_s\na,1,1,1\n", "name a file of demand"),
            ("job,jobs\na,1.5\n", "line 2: column `jobs` holds 1.5; write a whole number"),
            ("job,jobs\na,1\na,2\n", "line 3: `a` stands in the file twice"),
            ("job,jobs\na,\n", "line 2: column `jobs` is empty; write a number"),
            ("job,jobs\n,1\n", "line 2: column `job` is empty"),
            ("job,jobs\na,-1\n", "no number of at least 0"),
            ("job,jobs\na,0\n", "no job is asked for"),
            ("job,per_hour,run_s\na,1000000,100000\n", "check the units"),
        ] {
            assert!(told(text).contains(wanted), "{text}: {}", told(text));
        }
        let gpu = MigGpu::named("h100-80gb").unwrap();
        let told = read_now(file("partition,gpus\n2x3g.20gb,4\n").path(), gpu).unwrap_err().to_string();
        assert!(told.contains("line 2") && told.contains("an h100-80gb has 1g.10gb"), "{told}");
    }
}
