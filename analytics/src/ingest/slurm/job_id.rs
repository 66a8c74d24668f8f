//! Slurm's job identifiers: `123`, `123.batch`, `123_7`, `123_[1-5%2]`, `123+1.0`.
//!
//! An array's waiting tasks share one record whose identifier lists them (`%2` says how many may run at once); Slurm
//! cuts a long list and ends it in `...`. A heterogeneous job's components are `123+0`, `123+1`, and so on.

/// Tasks one waiting array record may stand for before it is kept as one row.
const MOST_TASKS: usize = 65_536;

/// Part of a job that a record is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The job itself.
    Whole,
    /// One task of an array.
    Task(u64),
    /// The waiting tasks of an array, as listed.
    Waiting(String),
    /// One component of a heterogeneous job.
    Component(u64),
}

/// A job identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobId {
    /// The number; the array's or heterogeneous job's own for its parts.
    pub job: u64,
    /// Part of the job.
    pub part: Part,
    /// The step (`batch`, `extern`, `0`), `None` for the allocation.
    pub step: Option<String>,
}

impl JobId {
    /// Reads an identifier, `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let job = text.get(..digits)?.parse().ok()?;
        let rest = text.get(digits..)?;
        let (part, rest) = if let Some(list) = rest.strip_prefix("_[") {
            let (list, after) = list.split_once(']')?;
            (Part::Waiting(list.to_owned()), after)
        } else if let Some(after) = rest.strip_prefix('_') {
            let (number, after) = leading(after)?;
            (Part::Task(number), after)
        } else if let Some(after) = rest.strip_prefix('+') {
            let (number, after) = leading(after)?;
            (Part::Component(number), after)
        } else {
            (Part::Whole, rest)
        };
        let step = match rest.strip_prefix('.') {
            Some(step) if !step.is_empty() => Some(step.to_owned()),
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { job, part, step })
    }

    /// The identifier without its step.
    pub fn allocation(&self) -> String {
        let job = self.job;
        match &self.part {
            Part::Whole => job.to_string(),
            Part::Task(task) => format!("{job}_{task}"),
            Part::Waiting(list) => format!("{job}_[{list}]"),
            Part::Component(offset) => format!("{job}+{offset}"),
        }
    }

    /// The array or heterogeneous job this is a part of.
    pub fn parent(&self) -> Option<u64> {
        (self.part != Part::Whole).then_some(self.job)
    }
}

fn leading(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text.get(..digits)?.parse().ok()?, text.get(digits..)?))
}

/// The task numbers of a waiting array (`1-5%2`, `1,5`, `0-10:5`), `None` if the list is cut short, not a list, or
/// longer than 65,536 tasks. O(tasks).
pub fn tasks(list: &str) -> Option<Vec<u64>> {
    let list = list.split_once('%').map_or(list, |(tasks, _)| tasks);
    let mut numbers = Vec::new();
    for item in list.split(',') {
        let (range, step) = match item.split_once(':') {
            Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0)?),
            None => (item, 1),
        };
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u64, u64) = (low.parse().ok()?, high.parse().ok()?);
        if high < low || (high - low) / step as u64 >= MOST_TASKS as u64 {
            return None;
        }
        numbers.extend((low..=high).step_by(step));
        if numbers.len() > MOST_TASKS {
            return None;
        }
    }
    Some(numbers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_is_read_and_written_back() {
        for (text, part, step) in [
            ("123", Part::Whole, None),
            ("123.batch", Part::Whole, Some("batch")),
            ("123_7", Part::Task(7), None),
            ("123_7.0", Part::Task(7), Some("0")),
            ("123_[1-5%2]", Part::Waiting("1-5%2".to_owned()), None),
            ("123+1", Part::Component(1), None),
            ("123+1.0", Part::Component(1), Some("0")),
        ] {
            let id = JobId::parse(text).unwrap();
            assert_eq!((id.job, &id.part, id.step.as_deref()), (123, &part, step), "{text}");
            assert_eq!(id.allocation(), text.split('.').next().unwrap());
        }
        for text in ["", "x", "123_", "123_[1-5", "123.", "123x", "_7", "99999999999999999999"] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_waiting_record_lists_its_tasks_unless_the_list_was_cut() {
        assert_eq!(tasks("1-5%2"), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(tasks("1,5"), Some(vec![1, 5]));
        assert_eq!(tasks("0-10:5"), Some(vec![0, 5, 10]));
        assert_eq!(tasks("1,3,..."), None);
        assert_eq!(tasks("0-65535").unwrap().len(), 65_536);
        assert_eq!(tasks("0-65536"), None);
        assert_eq!(tasks("5-1"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9_+.\\[\\]%:,é-]{0,24}") {
            if let Some(id) = JobId::parse(&text) {
                prop_assert!(JobId::parse(&id.allocation()).is_some());
            }
            let _ = tasks(&text);
        }
    }
}
