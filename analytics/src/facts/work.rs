//! Jobs that are the same work again: of one user, and of one name but for its numbers.
//!
//! The stem of a name is the name in lower case with each run of digits as one `#`, cut at 64
//! bytes. Jobs without a name are taken for one work of their user.
//!
//! Complexity: O(n log n) for n jobs. Worked example: `Train_v12` and `train_v7` have the stem
//! `train_v#`.

use std::collections::HashMap;

use super::job::JobFacts;
use crate::schema::JobState;

/// Most bytes of a stem.
const LONGEST_STEM: usize = 64;

/// Returns the stem of a name.
pub fn stem(name: &str) -> String {
    let mut stem = String::with_capacity(name.len().min(LONGEST_STEM));
    let mut in_number = false;
    for letter in name.chars() {
        let number = letter.is_ascii_digit();
        if number && in_number {
            continue;
        }
        in_number = number;
        let letter = if number { '#' } else { letter.to_ascii_lowercase() };
        if stem.len() + letter.len_utf8() > LONGEST_STEM {
            break;
        }
        stem.push(letter);
    }
    stem
}

/// Returns true if the work itself failed: with an error, out of memory or at its time limit. A
/// lost node is no fault of the work.
pub fn is_failure(state: JobState) -> bool {
    matches!(state, JobState::Failed | JobState::OutOfMemory | JobState::Timeout)
}

/// Work that may be tried several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// Code of the user in the jobs table.
    pub user: u32,
    /// Place of the stem in [`Tries::stems`]; `None` for jobs without a name.
    pub stem: Option<usize>,
}

/// A job that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Try {
    /// Row in the jobs table.
    pub row: usize,
    /// Submission, ms.
    pub submit_ms: i64,
    /// End, ms.
    pub end_ms: i64,
    /// GPU time, GPU-seconds; `None` if unknown.
    pub gpu_s: Option<f64>,
    /// Whether the work failed ([`is_failure`]).
    pub failed: bool,
    /// Work that the job attempted.
    pub work: Work,
}

/// The jobs that ended and whose user, submission and end are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tries {
    /// Jobs, by submission.
    pub jobs: Vec<Try>,
    /// Stems of their names.
    pub stems: Vec<String>,
}

impl Tries {
    /// Collects them from the jobs table.
    pub fn from_facts(facts: &JobFacts<'_>) -> Self {
        let jobs = &facts.trace.jobs;
        let (mut stems, mut places) = (Vec::new(), HashMap::new());
        let names = (0..).map_while(|code| jobs.name.name(code)).map(stem);
        let of_name: Vec<usize> = names
            .map(|stem| {
                *places.entry(stem).or_insert_with_key(|stem| {
                    stems.push(stem.clone());
                    stems.len() - 1
                })
            })
            .collect();
        let result = (0..facts.len()).filter(|row| facts.state(*row).is_final()).filter_map(|row| {
            let stem = jobs.name.code(row).and_then(|code| of_name.get(code as usize)).copied();
            Some(Try {
                row,
                submit_ms: jobs.submit.get(row)?,
                end_ms: jobs.end.get(row)?,
                gpu_s: facts.gpu_s(row),
                failed: is_failure(facts.state(row)),
                work: Work { user: jobs.user.code(row)?, stem },
            })
        });
        let mut result: Vec<Try> = result.collect();
        result.sort_by_key(|job| (job.submit_ms, job.row));
        Self { jobs: result, stems }
    }

    /// Returns the stem of a work's names, `None` if they have none.
    pub fn stem(&self, work: Work) -> Option<&str> {
        self.stems.get(work.stem?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_case_do_not_tell_names_apart() {
        assert_eq!(stem("Train_v12"), "train_v#");
        assert_eq!(stem("train_v7"), "train_v#");
        assert_eq!(stem(""), "");
        // 40 letters of two bytes each: cut between letters, never within one.
        assert_eq!(stem(&"ß".repeat(40)), "ß".repeat(32));
    }
}
