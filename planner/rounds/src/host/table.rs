//! How fast a job is with so many processors and so much memory for each GPU: a table, interpolated.
//!
//! **CSV**: columns `job,cpus,memory_gb,speed`. `job` is a job type of the throughputs, `cpus` and `memory_gb` are for each GPU of the job, and `speed` is in any unit: the greatest of a job is its full speed. Each job needs each of its numbers of processors with each of its amounts of memory. Where `cpus` or `memory_gb` is
//! empty in all lines of a job, it does not depend on that. More processors or memory never make a job slower.
//!
//! Between measured points the speed is **bilinear**: linear in each of the two where the other is held. Below the least measured it falls in proportion, to nothing at nothing; above the greatest it stays. Bilinear speeds are means of the four corners, so a programme that mixes measured points can do no worse ([`super::bound`]).
//!
//! O(log points) a speed. Worked example: 0.4 at 1 processor and 1 at 4: 0.6 at 2 processors, 0.2 at half a one, and 1 at 8.

use crate::node::HostNeeds;
use tracecast_plan::error::{Error, Result, excerpt};

/// Most measured points of a job in one of the two.
const MOST_POINTS: usize = 256;

/// How fast a job is by processors and memory, a share of its full speed.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity {
    /// The job type.
    pub job: String,
    cpus: Vec<f64>,
    memory_gb: Vec<f64>,
    /// By processors, then by memory.
    speeds: Vec<Vec<f64>>,
}

/// Between which points a value lies, and how far along.
fn between(points: &[f64], value: f64) -> (usize, usize, f64) {
    let above = points.partition_point(|point| *point < value);
    let (Some(low), Some(high)) = (above.checked_sub(1).and_then(|at| points.get(at)), points.get(above)) else {
        let end = above.min(points.len().saturating_sub(1));
        return (end, end, 0.0);
    };
    (above - 1, above, (value - low) / (high - low))
}

impl Sensitivity {
    /// Builds a table of measured points: processors, memory, speed.
    ///
    /// # Errors
    /// If a pair is missing or there twice, a speed is nothing, or more makes it slower; in words.
    pub fn of(job: &str, points: &[(f64, f64, f64)]) -> std::result::Result<Self, String> {
        let axis = |of: fn(&(f64, f64, f64)) -> f64| {
            let mut values: Vec<f64> = points.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values
        };
        let (cpus, memory_gb) = (axis(|point| point.0), axis(|point| point.1));
        if points.is_empty() || cpus.len() > MOST_POINTS || memory_gb.len() > MOST_POINTS {
            return Err(format!("measure 1 to {MOST_POINTS} numbers of processors and amounts of memory"));
        }
        let full = points.iter().map(|point| point.2).fold(0.0, f64::max);
        let mut speeds = Vec::new();
        for cpus in &cpus {
            let mut row: Vec<f64> = Vec::new();
            for memory in &memory_gb {
                let here: Vec<f64> =
                    points.iter().filter(|point| (point.0, point.1) == (*cpus, *memory)).map(|point| point.2).collect();
                let [speed] = here.as_slice() else {
                    let times = if here.is_empty() { "missing" } else { "there twice" };
                    return Err(format!(
                        "{cpus} processors with {memory} GB are {times}; each number of processors needs each amount of memory once"
                    ));
                };
                row.push(speed / full);
            }
            speeds.push(row);
        }
        let rises = |values: &[f64]| values.is_sorted();
        let columns_rise = (0..memory_gb.len()).all(|memory| {
            let column: Vec<f64> = speeds.iter().filter_map(|row| row.get(memory)).copied().collect();
            rises(&column)
        });
        if !columns_rise || !speeds.iter().all(|row| rises(row)) {
            return Err("more processors or memory make it slower; measure again, or take the greater speed".to_owned());
        }
        let (mut cpus, mut memory_gb) = (cpus, memory_gb);
        // Nothing at nothing.
        if memory_gb.first().is_some_and(|least| *least > 0.0) {
            memory_gb.insert(0, 0.0);
            speeds.iter_mut().for_each(|row| row.insert(0, 0.0));
        }
        if cpus.first().is_some_and(|least| *least > 0.0) {
            cpus.insert(0, 0.0);
            speeds.insert(0, vec![0.0; memory_gb.len()]);
        }
        Ok(Self { job: job.to_owned(), cpus, memory_gb, speeds })
    }

    fn at(&self, cpus: usize, memory: usize) -> f64 {
        self.speeds.get(cpus).and_then(|row| row.get(memory)).copied().unwrap_or(0.0)
    }

    /// The speed with so much for each GPU, 0 to 1.
    pub fn speed(&self, has: HostNeeds) -> f64 {
        let (few, many, cpus) = between(&self.cpus, has.cpus);
        let (little, much, memory) = between(&self.memory_gb, has.memory_gb);
        let along = |cpus: usize| {
            let low = self.at(cpus, little);
            low + (self.at(cpus, much) - low) * memory
        };
        let low = along(few);
        low + (along(many) - low) * cpus
    }

    /// Returns the least memory, and then the fewest processors, that make the job as fast as `has`
    /// does.
    pub fn least(&self, has: HostNeeds) -> HostNeeds {
        // A speed that does not rise any more does so from a measured point on.
        let speed = self.speed(has);
        let as_fast = |point: &HostNeeds| self.speed(*point) >= speed;
        let mut result = has;
        let memory = self.memory_gb.iter().map(|memory| HostNeeds { memory_gb: *memory, ..result });
        result = memory.filter(|point| point.memory_gb < has.memory_gb).find(as_fast).unwrap_or(result);
        let cpus = self.cpus.iter().map(|cpus| HostNeeds { cpus: *cpus, ..result });
        cpus.filter(|point| point.cpus < has.cpus).find(as_fast).unwrap_or(result)
    }

    /// The least with which it is at full speed.
    pub fn best(&self) -> HostNeeds {
        let last = |points: &[f64]| points.last().copied().unwrap_or(0.0);
        self.least(HostNeeds { cpus: last(&self.cpus), memory_gb: last(&self.memory_gb) })
    }

    /// The points that a programme may mix: those where no other asks for less and is as fast.
    pub fn corners(&self) -> Vec<(HostNeeds, f64)> {
        let mut result = Vec::new();
        for (few, cpus) in self.cpus.iter().enumerate() {
            for (little, memory) in self.memory_gb.iter().enumerate() {
                let speed = self.at(few, little);
                let with_less = |cpus: Option<usize>, memory: Option<usize>| {
                    cpus.zip(memory).is_some_and(|(cpus, memory)| self.at(cpus, memory) >= speed)
                };
                if !with_less(few.checked_sub(1), Some(little)) && !with_less(Some(few), little.checked_sub(1)) {
                    result.push((HostNeeds { cpus: *cpus, memory_gb: *memory }, speed));
                }
            }
        }
        result
    }
}

/// Reads tables from the text of a CSV, in order of their jobs.
///
/// # Errors
/// If a column is missing, a cell is no number that it may be, or a job's points are no table; with the line, the job's first where no single one is wrong.
pub fn read(file: &str, text: &str) -> Result<Vec<Sensitivity>> {
    let bad = |line: u64, what: String| Error::file(file.to_owned(), line, what);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let line_of = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
    let head = reader.headers().map_err(|error| bad(line_of(&error), error.to_string()))?.clone();
    let place = |name: &str| {
        let at = head.iter().position(|column| column.eq_ignore_ascii_case(name));
        at.ok_or_else(|| bad(1, format!("there is no column `{name}`; the first line needs job,cpus,memory_gb,speed")))
    };
    let (job, cpus, memory, speed) = (place("job")?, place("cpus")?, place("memory_gb")?, place("speed")?);
    /// Processors, memory and speed, with empty cells as they are.
    type Point = (Option<f64>, Option<f64>, f64);
    /// A job's name, and its points with their lines.
    type Points = (String, Vec<(u64, Point)>);
    let mut result: Vec<Points> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| bad(line_of(&error), error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |at: usize, name: &str, least: f64, remedy: &str| {
            let cell = record.get(at).unwrap_or_default();
            let number = cell.parse::<f64>().ok().filter(|number| (least..=1e9).contains(number));
            number.ok_or_else(|| bad(line, format!("`{name}` is `{}`; {remedy}", excerpt(cell))))
        };
        let amount = |at: usize, name: &str| {
            let empty = record.get(at).unwrap_or_default().is_empty();
            let how = "write what each GPU of the job has, above 0, or leave it empty in all lines of the job";
            if empty { Ok(None) } else { number(at, name, 1e-6, how).map(Some) }
        };
        let name = record.get(job).unwrap_or_default();
        if name.is_empty() {
            return Err(bad(line, "`job` is empty; name a job type of the throughputs".to_owned()));
        }
        let point = (
            amount(cpus, "cpus")?,
            amount(memory, "memory_gb")?,
            number(speed, "speed", 1e-9, "write how fast the job is there, above 0")?,
        );
        match result.iter_mut().find(|(job, _)| job == name) {
            Some((_, points)) => points.push((line, point)),
            None => result.push((name.to_owned(), vec![(line, point)])),
        }
    }
    if result.is_empty() {
        return Err(Error::no_jobs(format!("{file}: there is no measured point in it")));
    }
    let table = |(job, rows): Points| {
        let (lines, points): (Vec<u64>, Vec<Point>) = rows.into_iter().unzip();
        // The first line that is not as the first is.
        let first = points.first().map(|point| (point.0.is_some(), point.1.is_some()));
        let other = points.iter().position(|point| Some((point.0.is_some(), point.1.is_some())) != first);
        let line = |at: Option<usize>| lines.get(at.unwrap_or(0)).copied().unwrap_or(0);
        if other.is_some() {
            return Err(bad(
                line(other),
                format!("`{job}` has cells that are empty and others that are not; fill all of its lines, or none"),
            ));
        }
        let of = |(cpus, memory, speed): &Point| (cpus.unwrap_or(0.0), memory.unwrap_or(0.0), *speed);
        let points: Vec<(f64, f64, f64)> = points.iter().map(of).collect();
        // The first line with a point that is there already, or slower than one with no more; else the job's first.
        let wrong = |(at, point): (usize, &(f64, f64, f64))| {
            points.iter().enumerate().any(|(other, less)| {
                let twice = other < at && (less.0, less.1) == (point.0, point.1);
                twice || (less.0 <= point.0 && less.1 <= point.1 && less.2 > point.2)
            })
        };
        let told = |what: String| bad(line(points.iter().enumerate().position(wrong)), format!("`{job}`: {what}"));
        Sensitivity::of(&job, &points).map_err(told)
    };
    result.into_iter().map(table).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(cpus: f64, memory_gb: f64) -> HostNeeds {
        HostNeeds { cpus, memory_gb }
    }

    #[test]
    fn the_worked_example() {
        let table = read("t.csv", "job,cpus,memory_gb,speed\na,1,,40\na,4,,100\n").unwrap().remove(0);
        let speed = |cpus: f64| table.speed(needs(cpus, 0.0));
        assert!((speed(2.0) - 0.6).abs() < 1e-12 && (speed(0.5) - 0.2).abs() < 1e-12);
        assert_eq!((speed(1.0), speed(4.0), speed(8.0), speed(0.0)), (0.4, 1.0, 1.0, 0.0));
        assert_eq!(table.best(), needs(4.0, 0.0));
        // In both: the mean of the corners in the middle.
        let both = Sensitivity::of("b", &[(1.0, 10.0, 0.2), (1.0, 30.0, 0.4), (3.0, 10.0, 0.6), (3.0, 30.0, 1.0)]);
        let both = both.unwrap();
        assert!((both.speed(needs(2.0, 20.0)) - 0.55).abs() < 1e-12);
        assert!((both.speed(needs(1.0, 5.0)) - 0.1).abs() < 1e-12);
        assert_eq!(both.best(), needs(3.0, 30.0));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let head = "job,cpus,memory_gb,speed\n";
        let told = |rows: &str| read("t.csv", &format!("{head}{rows}")).unwrap_err().to_string();
        assert!(told("a,1,10,1\na,x,10,1\n").contains("t.csv, line 3: `cpus` is `x`"));
        assert!(told("a,1,10,0\n").contains("`speed` is `0`"));
        assert!(told("a,1,10,NaN\n").contains("`speed` is `NaN`"));
        assert!(told("a,1,10,1\na,2,20,1\n").contains("1 processors with 20 GB are missing"));
        assert!(told("a,1,10,1\na,1,10,1\n").contains("line 3: `a`: 1 processors with 10 GB are there twice"));
        assert!(told("b,1,10,1\na,1,10,1\na,3,10,2\na,2,10,0.5\n").contains("t.csv, line 5: `a`: more"));
        // The line that is slower with more, wherever it stands.
        assert!(told("a,2,10,0.5\na,1,10,1\n").contains("t.csv, line 2: `a`: more"));
        assert!(told("a,1,10,1\na,2,,1\n").contains("t.csv, line 3: `a` has cells"));
        assert!(told("").contains("no measured point"));
        assert!(read("t.csv", "job,cpus,speed\n").unwrap_err().to_string().contains("no column `memory_gb`"));
    }

    proptest! {
        #[test]
        fn speeds_rise_and_the_least_is_as_fast(
            steps in proptest::collection::vec((0.0f64..1.0, 0.0f64..1.0), 9), has in (0.0f64..14.0, 0.0f64..140.0), more in (0.0f64..4.0, 0.0f64..40.0),
        ) {
            // Sums of steps rise in both.
            let mut points = Vec::new();
            for few in 0..3 {
                for little in 0..3 {
                    let speed: f64 = (0..=few).flat_map(|a| (0..=little).map(move |b| (a, b))).map(|(a, b)| steps[a * 3 + b].0).sum();
                    points.push(((few * 4 + 1) as f64, (little * 40 + 10) as f64, speed + 0.01));
                }
            }
            let table = Sensitivity::of("a", &points).unwrap();
            let has = needs(has.0, has.1);
            let speed = table.speed(has);
            prop_assert!((0.0..=1.0).contains(&speed));
            prop_assert!(table.speed(has.plus(needs(more.0, more.1))) >= speed - 1e-12);
            let least = table.least(has);
            prop_assert!(table.speed(least) >= speed && least.within(has));
            prop_assert_eq!(table.speed(table.best()), 1.0);
            for (cpus, memory, told) in &points {
                let full = points.iter().map(|point| point.2).fold(0.0, f64::max);
                prop_assert!((table.speed(needs(*cpus, *memory)) - told / full).abs() < 1e-12);
            }
        }
    }
}
