//! Rates of gangs of GPUs alone: steps a second of a job type on so many GPUs of a type.
//!
//! Read are Gavel's JSON ([`super::gavel`]) or a CSV with the columns `gpu_type,job,gpus,steps_per_s`, and `apart_steps_per_s` if there is one: the same with each GPU on a machine of its own. The steps are those of the whole gang. 0 says that the gang does not run on
//! that GPU type, an empty `apart_steps_per_s` that this was not measured. Other columns are passed over, and a note names them; one that is hardly any but `apart_steps_per_s` is an error. Any file may be compressed (`.gz`, `.zst`).
//!
//! O(bytes). Worked example: `v100,ResNet-18,4,123.9,40.6` says that four V100 together make 123.9 steps a second on one machine, and 40.6 on four.

use std::collections::BTreeMap;
use std::path::Path;

use super::gavel;
pub use super::gavel::GangRate;
use super::read::passed_over;
use crate::error::{Error, Result};
use crate::sheet::{Sheet, text};

/// Most GPUs of a gang.
const LARGEST_GANG: f64 = 4096.0;
/// The columns of a CSV.
const COLUMNS: [&str; 4] = ["gpu_type", "job", "gpus", "steps_per_s"];
/// The column of machines apart.
const APART: &str = "apart_steps_per_s";

/// Rates of gangs alone that a file states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// The rate of each gang.
    pub gangs: Vec<GangRate>,
    /// Notes on the file for readers, a sentence each.
    pub notes: Vec<String>,
}

/// The rates in a file: CSV or Gavel's JSON.
///
/// # Errors
/// If the file cannot be read, is not what it should be, says two things of one gang, or says that nothing runs.
pub fn rates(path: &Path) -> Result<Rates> {
    let content = text(path)?;
    let file = path.display().to_string();
    let result = if content.trim_start().starts_with('{') {
        Rates { gangs: gavel::alone(&file, &content)?, notes: Vec::new() }
    } else {
        of_csv(path, &content)?
    };
    if !result.gangs.iter().any(|rate| rate.steps_per_s > 0.0) {
        return Err(Error::TooFew(format!("{file}: no job type runs on any GPU type in it")));
    }
    Ok(result)
}

fn of_csv(path: &Path, content: &str) -> Result<Rates> {
    let sheet = Sheet::open(path, content)?;
    let remedy = format!("name a file of throughputs with the columns {}, or Gavel's JSON", COLUMNS.join(", "));
    sheet.needs(&COLUMNS, &remedy)?;
    sheet.misspelt(&[APART])?;
    let has_apart = sheet.has(&[APART]);
    // Any other column of gangs apart is meant for it, in whatever unit.
    if let Some(other) = sheet.columns().iter().find(|column| !has_apart && column.starts_with("apart_")) {
        return Err(sheet.is_meant(other, APART));
    }
    let is_passed = |column: &&String| column.as_str() != APART && !COLUMNS.contains(&column.as_str());
    let passed: Vec<String> = sheet.columns().iter().filter(is_passed).cloned().collect();
    let mut result: Vec<GangRate> = Vec::new();
    let mut seen: BTreeMap<(String, String, u32), (f64, Option<f64>)> = BTreeMap::new();
    sheet.rows(|row| {
        let number = |name: &str| {
            row.number(name)?.ok_or_else(|| {
                row.wrong(
                    format!("column `{name}` is empty"),
                    "write a number; 0 steps a second for a gang that does not run",
                )
            })
        };
        let gpus = number("gpus")?;
        if gpus.fract() != 0.0 || !(1.0..=LARGEST_GANG).contains(&gpus) {
            return Err(row.wrong(format!("column `gpus` holds {gpus}"), "write a whole number of GPUs, 1 to 4096"));
        }
        let rate = GangRate {
            gpu: row.name("gpu_type")?.to_owned(),
            job: row.name("job")?.to_owned(),
            gpus: gpus as u32,
            steps_per_s: number("steps_per_s")?,
            apart_steps_per_s: if has_apart { row.number(APART)? } else { None },
        };
        if rate.gpus == 1 && rate.apart_steps_per_s.is_some() {
            return Err(
                row.wrong(format!("column `{APART}` is of one GPU"), "leave it empty: one GPU is on one machine")
            );
        }
        let of = (rate.gpu.clone(), rate.job.clone(), rate.gpus);
        let said = (rate.steps_per_s, rate.apart_steps_per_s);
        if let Some(before) = seen.insert(of, said).filter(|before| *before != said) {
            let in_words = |(one, apart): (f64, Option<f64>)| {
                format!("{one} steps a second{}", apart.map_or_else(String::new, |apart| format!(" and {apart} apart")))
            };
            let what = format!("it says {}, and an earlier line {}", in_words(said), in_words(before));
            return Err(row.wrong(what, "keep one line for each GPU type, job and number of GPUs"));
        }
        result.push(rate);
        Ok(())
    })?;
    let note = passed_over(path, &passed).map(|note| format!("{note} Read are {} and {APART}.", COLUMNS.join(", ")));
    Ok(Rates { gangs: result, notes: note.into_iter().collect() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn all(content: &str) -> Result<Rates> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.csv");
        std::fs::write(&path, content).unwrap();
        rates(&path)
    }

    fn read(content: &str) -> Result<Vec<GangRate>> {
        all(content).map(|rates| rates.gangs)
    }

    /// Regression test: `apart_steps_s` was passed over without a word, and the plan took machines
    /// apart to be as fast as one.
    #[test]
    fn columns_that_are_not_read_are_told() {
        let notes = |head: &str| all(&format!("gpu_type,job,gpus,steps_per_s{head}\nv100,a,2,3,1\n"));
        let told = &notes(",apart").unwrap().notes[0];
        assert!(told.contains("columns that nothing is done with: apart. Read are gpu_type, job, "), "{told}");
        assert_eq!(notes(",apart_steps_per_s").unwrap().notes, Vec::<String>::new());
        for wrong in ["apart_steps_s", "apart_steps", "apart_steps_per_second"] {
            let told = notes(&format!(",{wrong}")).unwrap_err().to_string();
            assert!(told.contains(&format!("column `{wrong}` is not read")), "{told}");
            assert!(told.contains("call it apart_steps_per_s if that is meant"), "{told}");
        }
    }

    #[test]
    fn a_csv_and_the_json_are_read() {
        let result = read("gpu_type,job,gpus,steps_per_s,note\nv100,a,1,4,x\nv100,a,2,7.5,\nk80,a,1,0,\n").unwrap();
        assert_eq!(result.len(), 3);
        let of = |gpus: u32, steps_per_s: f64, apart_steps_per_s: Option<f64>| GangRate {
            gpu: "v100".into(),
            job: "a".into(),
            gpus,
            steps_per_s,
            apart_steps_per_s,
        };
        assert_eq!(result[1], of(2, 7.5, None));
        let result = read(r#"{"v100": {"('a', 1)": {"null": 4.0}, "('a', 4)": {"null": 0.0}}, "v100_unconsolidated": {"('a', 1)": {"null": 9.0}, "('a', 4)": {"null": 3.0}}}"#).unwrap();
        assert_eq!(result, [of(1, 4.0, None), of(4, 0.0, Some(3.0))]);
        let apart = "gpu_type,job,gpus,steps_per_s,apart_steps_per_s\nv100,a,1,4,\nv100,a,2,7.5,3\nv100,a,4,9,0\n";
        assert_eq!(read(apart).unwrap(), [of(1, 4.0, None), of(2, 7.5, Some(3.0)), of(4, 9.0, Some(0.0))]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        let head = "gpu_type,job,gpus,steps_per_s\n";
        assert!(told("gpu,job\nv100,a\n").contains("gpu_type, job, gpus, steps_per_s, or Gavel's JSON"));
        assert!(told(&format!("{head}v100,a,1,NaN\n")).contains("line 2"));
        assert!(told(&format!("{head}v100,a,1,-3\n")).contains("no number of at least 0"));
        assert!(told(&format!("{head}v100,a,1.5,3\n")).contains("whole number of GPUs"));
        assert!(told(&format!("{head}v100,a,1,\n")).contains("`steps_per_s` is empty"));
        assert!(told(&format!("{head}v100,a,1,0\n")).contains("no job type runs"));
        assert!(told(&format!("{head}v100,a,1,3\nv100,a,1,4\n")).contains("an earlier line 3"));
        assert!(told("{\"k80\": {\"('A', 1)\": {\"null\": \"fast\"}}}").contains("holds no steps a second alone"));
        let apart = "gpu_type,job,gpus,steps_per_s,apart_steps_per_s\n";
        assert!(told(&format!("{apart}v100,a,1,3,2\n")).contains("line 2: column `apart_steps_per_s` is of one GPU"));
        assert!(
            told(&format!("{apart}v100,a,2,3,2\nv100,a,2,3,1\n"))
                .contains("an earlier line 3 steps a second and 2 apart")
        );
        assert!(
            told("gpu_type,job,gpus,steps_per_s,apart_step_per_s\nv100,a,2,3,2\n")
                .contains("call it apart_steps_per_s")
        );
        let json = r#"{"k80": {"('A', 2)": {"null": 1.0}}, "k80_unconsolidated": {"('A', 2)": {}}}"#;
        assert!(told(json).contains("`k80_unconsolidated` `('A', 2)` holds no steps a second alone"));
    }
}
