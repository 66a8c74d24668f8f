//! Inputs of a forecast of utilisation, from CSV files: job types, or jobs that are yet to be
//! submitted; and the jobs that wait in a trace.
//!
//! **Job types**: the columns of profiles, `gpu_type,job,family` and any of `batch,flops,parameters,precision_bits` (or MISO's `model,batch`). **Jobs**: the column `name`, and any of
//! `user,gpus,cpus,limit_s,job_id`, as `/v1/predict` names them; a cell may be empty. Other columns are passed over with a note.
//!
//! O(bytes). Worked example: `name,user,gpus` and `train_7,ann,1` ask about the next of ann's jobs `train_#`.

use std::path::Path;

use super::held_out::GRAPH;
use super::history::{AskedJob, JobKnown, UsageHistory};
use crate::error::{Error, Result};
use crate::interference::read::{ProfileRow, passed_over, profile_rows};
use crate::interference::table::Quantity;
use crate::sheet::{Sheet, text};

/// Columns of a file of jobs.
const OF_JOBS: [&str; 6] = ["name", "user", "gpus", "cpus", "limit_s", "job_id"];

fn none(path: &Path) -> Error {
    Error::TooFew(format!("{}: there is no row in it", path.display()))
}

/// The job types of a file, and what a reader must know of it.
///
/// # Errors
/// If the file cannot be read, is not of the form, or has no row.
pub fn read_types(path: &Path) -> Result<(Vec<ProfileRow>, Vec<String>)> {
    let mut rows = Vec::new();
    let passed = profile_rows(path, |row| rows.push(row))?;
    if rows.is_empty() {
        return Err(none(path));
    }
    let mut notes: Vec<String> = passed_over(path, &passed).into_iter().collect();
    let told =
        |quantity: &Quantity| !GRAPH.contains(quantity) && rows.iter().any(|row| row.profile.get(*quantity).is_some());
    let unused: Vec<&str> = Quantity::ALL.into_iter().filter(told).map(Quantity::name).collect();
    if !unused.is_empty() {
        notes.push(format!(
            "{}: {} of the rows asked about do not count: a forecast rests on the table, and on what is known before a job runs.",
            path.display(),
            unused.join(", ")
        ));
    }
    Ok((rows, notes))
}

/// The jobs of a file, and what a reader must know of it.
///
/// # Errors
/// If the file cannot be read, is not of the form, or has no row.
pub fn read_jobs(path: &Path) -> Result<(Vec<AskedJob>, Vec<String>)> {
    let content = text(path)?;
    let sheet = Sheet::open(path, &content)?;
    if !sheet.has(&["name"]) {
        return Err(sheet.other(
            "name a file of jobs with the column name and any of user, gpus, cpus, limit_s and job_id; for job types, name a table of profiles in place of the trace",
        ));
    }
    let passed: Vec<String> =
        sheet.columns().iter().filter(|column| !OF_JOBS.contains(&column.as_str())).cloned().collect();
    let mut jobs = Vec::new();
    sheet.rows(|row| {
        let filled = |column: &str| Some(row.cell(column)).filter(|cell| !cell.is_empty()).map(str::to_owned);
        jobs.push(AskedJob {
            id: filled("job_id"),
            known: JobKnown {
                name: filled("name"),
                user: filled("user"),
                gpus: row.number("gpus")?,
                cpus: row.number("cpus")?,
                limit_s: row.number("limit_s")?.filter(|limit_s| *limit_s > 0.0),
            },
        });
        Ok(())
    })?;
    if jobs.is_empty() {
        return Err(none(path));
    }
    Ok((jobs, passed_over(path, &passed).into_iter().collect()))
}

/// The jobs that wait when the record ends.
///
/// # Errors
/// If none does.
pub fn waiting(history: &UsageHistory) -> Result<&[AskedJob]> {
    if history.waiting.is_empty() {
        return Err(Error::NotRecorded(
            "no job with GPUs waits when the record ends: record the queue as well (sacct lists jobs that are PENDING), or name jobs in a CSV with --jobs"
                .to_owned(),
        ));
    }
    Ok(&history.waiting)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sheet::tests::file;

    #[test]
    fn job_types_and_jobs_are_read() {
        let types = file(
            "gpu_type,job,family,batch,flops,sm_util_pct,colour\na100,m (batch size 8),,8,,40,red\na100,n,x,,1e9,,\n",
        );
        let (rows, notes) = read_types(types.path()).unwrap();
        let told: Vec<(&str, Option<&str>)> =
            rows.iter().map(|row| (row.job.as_str(), row.family.as_deref())).collect();
        assert_eq!(told, [("m (batch size 8)", None), ("n", Some("x"))]);
        let of = |quantity| [rows[0].profile.get(quantity), rows[1].profile.get(quantity)];
        assert_eq!((of(Quantity::Batch), of(Quantity::Flops)), ([Some(8.0), None], [None, Some(1e9)]));
        assert!(notes[0].contains("colour") && notes[1].contains("sm_util_pct of the rows asked about"), "{notes:?}");
        let jobs = file("name,user,gpus,limit_s,job_id,site\ntrain_7,ann,2,0,j,x\n,ben,,,,\n");
        let (jobs, notes) = read_jobs(jobs.path()).unwrap();
        let known = JobKnown {
            name: Some("train_7".to_owned()),
            user: Some("ann".to_owned()),
            gpus: Some(2.0),
            ..JobKnown::default()
        };
        assert_eq!(jobs[0], AskedJob { id: Some("j".to_owned()), known });
        assert_eq!((jobs[1].known.name.clone(), jobs[1].known.user.as_deref(), jobs.len()), (None, Some("ben"), 2));
        assert!(notes[0].contains("site"), "{notes:?}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_remedy() {
        let of_types = |text: &str| read_types(file(text).path()).unwrap_err().to_string();
        let of_jobs = |text: &str| read_jobs(file(text).path()).unwrap_err().to_string();
        assert!(of_types("name,user\na,b\n").contains("line 1: its columns are name, user; name a file of profiles"));
        assert!(of_types("gpu_type,job\n").contains("there is no row in it"));
        assert!(of_types("gpu_type,job,batch\na100,,8\n").contains("line 2: column `job` is empty"));
        assert!(of_types("gpu_type,job,batch\na100,m,-8\n").contains("line 2: column `batch` holds `-8`"));
        assert!(of_jobs("gpu_type,job\na100,m\n").contains("name a table of profiles in place of the trace"));
        assert!(of_jobs("name,gpus\na,many\n").contains("line 2: column `gpus` holds `many`"));
        assert!(waiting(&UsageHistory::default()).unwrap_err().to_string().contains("--jobs"));
    }
}
