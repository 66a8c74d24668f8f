//! The jobs to run: what each is, how many steps it makes, and by when.
//!
//! **CSV**: columns `job,type,steps`, and `deadline` if there is one: the time within which a job must be done, such as `24h`, or empty. `type` is a job type of the throughputs. Other columns are passed over, but for one that is `deadline` misspelt.
//!
//! O(bytes). Worked example: `train-7,ResNet-18 (batch size 64),2000000,24h` makes two million steps within a day.

use std::path::Path;

use tracecast_analytics::report::format;
use tracecast_predictors::sheet::Sheet;

use super::scaling::ScalingTable;
use crate::error::{Error, Result, excerpt};
use crate::replay::scenario::parse_duration;

/// Most jobs.
pub const MOST_JOBS: usize = 500;
/// Most steps.
const MOST_STEPS: f64 = 1e18;

/// A job that is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RentedJob {
    /// Name of the job.
    pub name: String,
    /// Type of the job.
    pub job_type: String,
    /// Steps that it makes.
    pub steps: f64,
    /// Within which time it must be done, seconds.
    pub deadline_s: Option<f64>,
}

/// A job type of the throughputs; what to name instead if there is none of that name.
fn known_type(table: &ScalingTable, name: &str) -> std::result::Result<String, String> {
    let jobs = table.jobs();
    if jobs.contains(name) {
        return Ok(name.to_owned());
    }
    let plain = |name: &str| name.to_lowercase().split_whitespace().collect::<String>();
    let wanted = plain(name);
    let near: Vec<&str> = jobs.iter().filter(|known| plain(known).contains(&wanted)).copied().collect();
    Err(match near.as_slice() {
        [] => format!("name one of {}", some(&jobs.into_iter().collect::<Vec<_>>())),
        near => format!("did you mean {}?", some(near)),
    })
}

/// The first of some names.
fn some(names: &[&str]) -> String {
    let marked: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format::names(&marked, 5)
}

/// A job from `TYPE=STEPS`.
///
/// # Errors
/// If it is of another form, or of a type that was not measured.
pub fn of_text(table: &ScalingTable, text: &str, deadline_s: Option<f64>) -> Result<RentedJob> {
    let malformed = || {
        Error::malformed(
            "job",
            excerpt(text),
            "write its type and its steps, above 0, such as \"ResNet-18 (batch size 64)=2000000\"".to_owned(),
        )
    };
    let (name, steps) = text.rsplit_once('=').ok_or_else(malformed)?;
    let steps = steps.trim().parse::<f64>().ok().filter(|steps| *steps > 0.0 && *steps <= MOST_STEPS);
    let steps = steps.ok_or_else(malformed)?;
    let job_type = known_type(table, name.trim())
        .map_err(|remedy| Error::malformed("job type of the throughputs", excerpt(name), remedy))?;
    Ok(RentedJob { name: job_type.clone(), job_type, steps, deadline_s })
}

/// Jobs from the text of a CSV; `deadline_s` is of those that name none.
///
/// # Errors
/// If a column is missing, a cell is not what it may be, or a job type was not measured; with the line.
pub fn read(path: &Path, text: &str, table: &ScalingTable, deadline_s: Option<f64>) -> Result<Vec<RentedJob>> {
    let sheet = Sheet::open(path, text)?;
    let remedy = "name a file of jobs with the columns job, type and steps, and deadline if there is one";
    sheet.needs(&["job", "type", "steps"], remedy)?;
    sheet.misspelt(&["deadline"])?;
    let mut result: Vec<RentedJob> = Vec::new();
    sheet.rows(|row| {
        let written = row.name("type")?;
        let job_type = known_type(table, written).map_err(|remedy| {
            row.wrong(format!("`{}` is no job type of the throughputs", excerpt(written)), &remedy)
        })?;
        let steps = row.number("steps")?.filter(|steps| *steps > 0.0 && *steps <= MOST_STEPS);
        let steps = steps.ok_or_else(|| {
            row.wrong("column `steps` is empty or not above 0".to_owned(), "write how many steps the job makes")
        })?;
        let deadline_s = match row.cell("deadline") {
            "" => deadline_s,
            written => {
                let ms = parse_duration(written).ok().filter(|ms| *ms > 0);
                let ms = ms.ok_or_else(|| {
                    row.wrong(
                        format!("column `deadline` holds `{}`", excerpt(written)),
                        "write a time such as 24h, or leave it empty",
                    )
                })?;
                Some(ms as f64 / 1e3)
            }
        };
        let name = row.name("job")?;
        if result.iter().any(|other| other.name == name) {
            return Err(row.wrong(format!("`{name}` stands in the file twice"), "give each job a name of its own"));
        }
        result.push(RentedJob { name: name.to_owned(), job_type, steps, deadline_s });
        if result.len() > MOST_JOBS {
            return Err(row.wrong(format!("there are more than {MOST_JOBS} jobs"), "take a part of them"));
        }
        Ok(())
    })?;
    if result.is_empty() {
        return Err(Error::no_jobs(format!("{}: there is no job in it", path.display())));
    }
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::scaling::tests::rate;
    use super::*;

    fn table() -> ScalingTable {
        ScalingTable::new(&[rate("v", "ResNet-18 (batch size 64)", 1, 4.0), rate("v", "LM", 1, 1.0)])
    }

    #[test]
    fn jobs_are_read_with_their_deadlines() {
        let text = "job,type,steps,deadline,note\na,ResNet-18 (batch size 64),2000000,24h,x\nb,LM,5,,\n";
        let result = read(Path::new("j.csv"), text, &table(), Some(60.0)).unwrap();
        assert_eq!((result[0].steps, result[0].deadline_s), (2e6, Some(86_400.0)));
        assert_eq!((result[1].name.as_str(), result[1].deadline_s), ("b", Some(60.0)));
        assert_eq!(of_text(&table(), "LM=7", None).unwrap().steps, 7.0);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |text: &str| read(Path::new("j.csv"), text, &table(), None).unwrap_err().to_string();
        let head = "job,type,steps,deadline\n";
        assert!(told("job,steps\na,1\n").contains("job, type and steps"));
        assert!(told("job,type,steps,dead_line\na,LM,1,1h\n").contains("call it deadline"));
        let near = told(&format!("{head}a,resnet-18,1,\n"));
        assert!(near.contains("line 2") && near.contains("did you mean `ResNet-18 (batch size 64)`?"), "{near}");
        assert!(told(&format!("{head}a,BERT,1,\n")).contains("name one of `LM`, `ResNet-18 (batch size 64)`"));
        assert!(told(&format!("{head}a,LM,0,\n")).contains("`steps` is empty or not above 0"));
        assert!(told(&format!("{head}a,LM,1,soon\n")).contains("`deadline` holds `soon`"));
        assert!(told(head).contains("there is no job"));
        for text in ["LM", "LM=-1"] {
            let told = of_text(&table(), text, None).unwrap_err().to_string();
            assert!(told.contains(text) && told.contains("write its type and its steps"), "{told}");
        }
    }
}
