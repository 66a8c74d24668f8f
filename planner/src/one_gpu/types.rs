//! Which job type a job of a trace is of, by its name: a CSV that people write.
//!
//! Columns `name` (a pattern, in which `*` stands for any text and `?` for one character; case counts) and `job_type` (one of the table of measurements). The first line that matches counts; a job that no line
//! matches keeps its name. `**` is refused, as it would mean no more than `*`.
//!
//! O(jobs × lines). Worked example: with the lines `bert-*,BERT` and `*,ResNet-18 (batch size 16)`, a job `bert-large-3` is a BERT, and every other a ResNet-18.

use std::path::Path;

use glob::Pattern;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_predictors::sheet::{self, Sheet};

use super::OneGpuJobs;
use crate::error::Result;

/// Job types that an error names at most.
const MOST_NAMED: usize = 5;

/// Names and the job type of the jobs that are called so, as a line of the file has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TypeOfNames {
    /// Names: `*` stands for any text and `?` for one character, and case counts.
    pub name: String,
    /// Job type.
    pub job_type: String,
}

/// Patterns of names, with the job type of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypesOfNames {
    file: String,
    lines: Vec<(Pattern, TypeOfNames)>,
}

impl TypesOfNames {
    /// Reads the file; `known` are the job types there are.
    ///
    /// # Errors
    /// If it is not of the form above, a pattern is none, or a job type is not known; with the line.
    pub fn read(path: &Path, known: &[String]) -> Result<Self> {
        let text = sheet::text(path)?;
        let sheet = Sheet::open(path, &text)?;
        sheet.needs(&["name", "job_type"], "name a file with the columns name and job_type, such as bert-*,BERT")?;
        let mut lines = Vec::new();
        sheet.rows(|row| {
            let name = row.name("name")?;
            if name.contains("**") {
                return Err(
                    row.wrong(format!("`{name}` is no pattern: it has two * in a row"), "write one * for any text")
                );
            }
            // A name may hold brackets, which are no sets here.
            let escaped = name.replace('[', "[[]");
            let pattern = Pattern::new(&escaped).map_err(|error| {
                row.wrong(
                    format!("`{name}` is no pattern: {}", error.msg),
                    "use * for any text and ? for one character",
                )
            })?;
            let job_type = row.name("job_type")?;
            if !known.iter().any(|known| known == job_type) {
                let shown: Vec<&str> = known.iter().take(MOST_NAMED).map(String::as_str).collect();
                let more = if known.len() > MOST_NAMED {
                    format!(", and {} more", known.len() - MOST_NAMED)
                } else {
                    String::new()
                };
                return Err(row.wrong(
                    format!("`{job_type}` is no job type of the measurements"),
                    &format!("write one that was measured, as it is written there: {}{more}", shown.join(", ")),
                ));
            }
            lines.push((pattern, TypeOfNames { name: name.to_owned(), job_type: job_type.to_owned() }));
            Ok(())
        })?;
        Ok(Self { file: path.display().to_string(), lines })
    }

    /// The job type of a name.
    pub(crate) fn of(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, line)| line.job_type.as_str())
    }

    /// The lines, in their order: the first that matches counts.
    pub fn lines(&self) -> Vec<TypeOfNames> {
        self.lines.iter().map(|(_, line)| line.clone()).collect()
    }
}

impl OneGpuJobs {
    /// Names jobs after their types, and says of how many that tells the type.
    pub fn name_types(&mut self, types: &TypesOfNames) {
        let mut named = 0;
        for name in self.names.iter_mut().flatten() {
            if let Some(job_type) = types.of(name) {
                job_type.clone_into(name);
                named += 1;
            }
        }
        self.named_by = Some(format!(
            "{} tells the job types of {} by their names.",
            types.file,
            format::counted(named, "job", "jobs")
        ));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TypesOfNames> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("types.csv");
        std::fs::write(&path, text).unwrap();
        TypesOfNames::read(&path, &["BERT".to_owned(), "ResNet-18 (batch size 16)".to_owned()])
    }

    #[test]
    fn the_first_line_that_matches_counts() {
        let types = read("name,job_type\nbert-*,BERT\njob[1]?,BERT\n*-x,ResNet-18 (batch size 16)\n").unwrap();
        let of = |name: &str| types.of(name).unwrap_or("none").to_owned();
        assert_eq!(
            [of("bert-x"), of("job[1]a"), of("vit-x"), of("vit")],
            ["BERT", "BERT", "ResNet-18 (batch size 16)", "none"]
        );
        let names = ["bert-1", "vit", ""].map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
        let mut jobs = OneGpuJobs { names: names.to_vec(), ..OneGpuJobs::default() };
        jobs.name_types(&types);
        assert_eq!(jobs.names, [Some("BERT".to_owned()), Some("vit".to_owned()), None]);
        assert!(jobs.notes(0, "", 1).iter().any(|note| note.contains("tells the job types of 1 job by their names")));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, wanted) in [
            ("pattern,job_type\na,BERT\n", "columns name and job_type"),
            ("name,job_type\na,BERT\nb,Bert\n", "`Bert` is no job type of the measurements"),
            ("name,job_type\na***b,BERT\n", "`a***b` is no pattern"),
            ("name,job_type\nruns/**,BERT\n", "write one * for any text"),
            ("name,job_type\n,BERT\n", "name"),
        ] {
            let told = read(text).unwrap_err().to_string();
            assert!(told.contains(wanted) && told.contains("types.csv"), "{text}: {told}");
        }
    }
}
