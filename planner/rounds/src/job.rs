//! Jobs with steps to make: from a CSV, or drawn as Gavel draws them.
//!
//! **CSV**: columns `job,type,submit_s,gpus,steps`, and `weight`, `user`, `deadline_s`, `cpus` and `memory_gb` if there are any. `type` is a job type of the throughputs. Jobs of one user share the weight of one job
//! evenly while they are there. `deadline_s` says how many seconds after its submission a job is to be done. Where nodes have processors and memory, `cpus` and `memory_gb` say what the whole job needs, and it runs with exactly these; elsewhere they do not count. Other columns are passed over.
//!
//! **Drawn**, as the generator of Gavel's simulator (Narayanan et al., OSDI 2020) has it: the job type evenly; 1, 2, 4 or 8 GPUs with probabilities 0.7, 0.1, 0.15 and 0.05 (a type that was
//! not measured on several has one, and a gang that does not run takes the next smaller one that does); the run on the first GPU type of the fleet 10^u minutes, where u is uniform between 1.5 and 3
//! in 80 % of the jobs and between 3 and 4 in the others; arrivals as a Poisson process, or all at once. [`DrawnRuns::Hours`] draws runs of a whole number of hours from one to four, as the
//! traces of Gavel's physical cluster have them.
//!
//! **Drawn users** ([`UserDraw`]) submit in bursts, so that what each asks for goes up and down: bursts come as a Poisson process, each of so many jobs, all submitted at once. Users take turns in an order that is drawn anew each time all have had theirs, so that all ask for about as much in the end. Types, sizes and runs are those of the same seed without users. **Drawn deadlines** ([`DeadlineDraw`]) lie a multiple of the run alone on the fastest type after the submission; they too change nothing else.
//!
//! O(jobs × kinds). Worked example: a run of 100 minutes at 4 steps a second on a V100 is a job of 24,000 steps.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::ingest::misspelt;

use super::host::HostUse;
use super::host::class::ClassDraw;
use super::node::{Gang, HostNeeds};
use super::pool::{JobKind, TypedFleet};
use tracecast_plan::error::{Error, Result, excerpt};

/// Most jobs.
const MOST_JOBS: usize = 20_000;
/// Latest submission, seconds: a century.
const LATEST_S: f64 = 3.2e9;

/// A job of some GPUs of one type at a time, with steps to make.
#[derive(Debug, Clone, PartialEq)]
pub struct GangJob {
    /// Name of the job.
    pub name: String,
    /// Kind, an index into [`TypedFleet::kinds`].
    pub kind: usize,
    /// Submission, milliseconds.
    pub submit_ms: i64,
    /// Steps that it makes.
    pub steps: f64,
    /// How much it counts beside others.
    pub weight: f64,
    /// User of the job.
    pub user: Option<String>,
    /// Deadline, milliseconds; `None` if the job is best effort.
    pub due_ms: Option<i64>,
    /// How it depends on processors and memory, which counts where the [fleet](TypedFleet::host) has some.
    pub host: HostUse,
}

/// How long drawn jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrawnRuns {
    /// 10^1.5 to 10^4 minutes, four in five below 10^3.
    Simulation,
    /// One to four hours.
    Hours,
}

/// Users of drawn jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserDraw {
    /// How many.
    pub users: u32,
    /// Jobs that one submits at once, 1 or more.
    pub burst: u32,
}

/// Deadlines of drawn jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeadlineDraw {
    /// Share of the jobs that have one.
    pub share: f64,
    /// The time from submission to deadline is drawn evenly between these two multiples of the run alone on the fastest type.
    pub runs: (f64, f64),
}

/// Parameters of drawn jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobDraw {
    /// Jobs.
    pub jobs: usize,
    /// Jobs an hour; `None` if all are there from the beginning.
    pub per_hour: Option<f64>,
    /// How long they run.
    pub runs: DrawnRuns,
    /// Whether some have several GPUs.
    pub gangs: bool,
    /// Users who submit in bursts, `None` if jobs come one by one and are nobody's.
    pub users: Option<UserDraw>,
    /// Deadlines, `None` if no job has one.
    pub deadlines: Option<DeadlineDraw>,
    /// Invented classes of jobs that depend on processors and memory, `None` if the tables of job types say so.
    pub classes: Option<ClassDraw>,
}

impl Default for JobDraw {
    /// The 96 jobs of Gavel's simulator, all there at once.
    fn default() -> Self {
        Self {
            jobs: 96,
            per_hour: None,
            runs: DrawnRuns::Simulation,
            gangs: true,
            users: None,
            deadlines: None,
            classes: None,
        }
    }
}

/// Draws jobs; the same seed gives the same.
///
/// # Errors
/// If no job type runs on the first GPU type, or users are to submit jobs that are all there at once.
pub fn draw(fleet: &TypedFleet, what: &JobDraw, seed: u64) -> Result<Vec<GangJob>> {
    let reference =
        |kind: usize| fleet.kinds.get(kind).and_then(|kind| kind.steps_per_s.first()).copied().unwrap_or(0.0);
    let mut types: Vec<&str> = fleet.kinds.iter().map(|kind| kind.job.as_str()).collect();
    types.dedup();
    types.retain(|job| fleet.kind(job, 1).is_some_and(|kind| reference(kind) > 0.0));
    if types.is_empty() {
        let first = fleet.pools.first().map_or("", |pool| pool.name.as_str());
        return Err(Error::no_jobs(format!(
            "no job of one GPU runs on {first}, by which drawn jobs are measured; name another GPU type first"
        )));
    }
    if what.users.is_some() && what.per_hour.is_none() {
        return Err(Error::policy("users submit over time; say how many jobs come in an hour (`--rate 6`)"));
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at_s = 0.0;
    let mut result = Vec::with_capacity(what.jobs);
    for number in 0..what.jobs {
        let job = types.get(random.random_range(0..types.len())).copied().unwrap_or_default();
        let size: f64 = random.random();
        let gpus = match size {
            _ if !what.gangs => 1,
            s if s < 0.7 => 1,
            s if s < 0.8 => 2,
            s if s < 0.95 => 4,
            _ => 8,
        };
        let fits = |gpus: &u32| fleet.kind(job, *gpus).filter(|kind| reference(*kind) > 0.0);
        let kind = [8, 4, 2, 1].iter().filter(|size| **size <= gpus).find_map(fits).unwrap_or(0);
        let (long, part): (f64, f64) = (random.random(), random.random());
        let run_s = match what.runs {
            DrawnRuns::Simulation if long >= 0.8 => 60.0 * 10f64.powf(3.0 + part),
            DrawnRuns::Simulation => 60.0 * 10f64.powf(1.5 + 1.5 * part),
            DrawnRuns::Hours => 3600.0 * (1.0 + (part * 4.0).floor().min(3.0)),
        };
        let gap: f64 = random.random();
        if let Some(rate) = what.per_hour.filter(|_| number > 0) {
            at_s += -(1.0 - gap).ln() * 3600.0 / rate;
        }
        result.push(GangJob {
            name: format!("{number}"),
            kind,
            submit_ms: (at_s * 1e3) as i64,
            steps: (reference(kind) * run_s).floor().max(1.0),
            weight: 1.0,
            user: None,
            due_ms: None,
            host: fleet.host.as_ref().map_or(HostUse::Any, |host| host.of_type(job)),
        });
    }
    if let Some((users, rate)) = what.users.zip(what.per_hour) {
        submit_in_bursts(&mut result, &users, rate, seed);
    }
    if let Some(deadlines) = what.deadlines {
        set_deadlines(&mut result, fleet, &deadlines, seed);
    }
    if let Some(classes) = what.classes {
        let first = fleet.host.as_ref().and_then(|host| host.classes);
        let first = first.ok_or_else(|| {
            Error::policy("classes of jobs depend on processors and memory; say what a node has of them")
        })?;
        let uses = classes.draw(result.len(), first, seed);
        result.iter_mut().zip(uses).for_each(|(job, host)| job.host = host);
    }
    Ok(result)
}

/// Gives jobs users and times of submission, from a stream of random numbers of their own.
fn submit_in_bursts(jobs: &mut [GangJob], what: &UserDraw, per_hour: f64, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(1);
    let (mut at_s, mut turns) = (0.0, Vec::new());
    for (number, burst) in jobs.chunks_mut(what.burst.max(1) as usize).enumerate() {
        if turns.is_empty() {
            turns.extend(1..=what.users);
        }
        let user = turns.swap_remove(random.random_range(0..turns.len()));
        let gap: f64 = random.random();
        at_s += if number == 0 { 0.0 } else { -(1.0 - gap).ln() * 3600.0 * f64::from(what.burst) / per_hour };
        for job in burst {
            job.submit_ms = (at_s * 1e3) as i64;
            job.user = Some(format!("u{user}"));
        }
    }
}

/// Gives some jobs deadlines, from a stream of random numbers of their own.
fn set_deadlines(jobs: &mut [GangJob], fleet: &TypedFleet, what: &DeadlineDraw, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(2);
    let (least, most) = what.runs;
    for job in jobs {
        let (has, part): (f64, f64) = (random.random(), random.random());
        let fastest = fleet.kinds.get(job.kind).map_or(0.0, JobKind::fastest);
        if has < what.share && fastest > 0.0 {
            let until_s = job.steps / fastest * (least + (most - least) * part);
            job.due_ms = Some(job.submit_ms + (until_s * 1e3).ceil() as i64);
        }
    }
}

/// A row of the CSV.
struct JobRow<'a> {
    file: &'a str,
    head: &'a csv::StringRecord,
    row: &'a csv::StringRecord,
    line: u64,
}

impl JobRow<'_> {
    fn cell(&self, name: &str) -> &str {
        let at = self.head.iter().position(|column| column.eq_ignore_ascii_case(name));
        at.and_then(|at| self.row.get(at)).unwrap_or_default()
    }

    fn wrong(&self, what: String) -> Error {
        Error::file(self.file.to_owned(), self.line, what)
    }

    /// A number between two bounds.
    fn number(&self, name: &str, (least, most): (f64, f64), remedy: &str) -> Result<f64> {
        let cell = self.cell(name);
        let number = cell.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.wrong(format!("`{name}` is `{}`; {remedy}", excerpt(cell))))
    }
}

impl JobRow<'_> {
    /// How the job depends on processors and memory: what it needs, or else by the table of its type.
    fn host(&self, fleet: &TypedFleet, job: &str, gpus: f64) -> Result<HostUse> {
        let needs = |name: &str| {
            let remedy = "write what the whole job needs, above 0, or leave it empty";
            let empty = self.cell(name).is_empty();
            if empty { Ok(None) } else { self.number(name, (1e-9, 1e9), remedy).map(|all| Some(all / gpus)) }
        };
        let (cpus, memory_gb) = (needs("cpus")?, needs("memory_gb")?);
        if cpus.is_none() && memory_gb.is_none() {
            return Ok(fleet.host.as_ref().map_or(HostUse::Any, |host| host.of_type(job)));
        }
        let each = HostNeeds { cpus: cpus.unwrap_or(0.0), memory_gb: memory_gb.unwrap_or(0.0) };
        // Kept, so that an answer can say that it does not count.
        if fleet.host.is_none() {
            return Ok(HostUse::Exactly(each));
        }
        let room = fleet.room(None);
        let runs = fleet.kind(job, gpus as u32).and_then(|kind| fleet.kinds.get(kind));
        let fits = |at: usize| {
            let gang = Gang { gpus: gpus as u32, needs: Some(each) };
            let speed = runs.and_then(|kind| kind.steps_per_s.get(at)).copied().unwrap_or(0.0);
            speed > 0.0 && room.open().take(at, gang)
        };
        if !(0..fleet.pools.len()).any(fits) {
            let told = format!("{} processors and {} GB", each.cpus * gpus, each.memory_gb * gpus);
            return Err(self.wrong(format!("`{job}` needs {told}, which no node has on which it runs; give it less")));
        }
        Ok(HostUse::Exactly(each))
    }
}

/// Reads jobs from the text of a CSV, in order of submission.
///
/// # Errors
/// If a column is missing, a cell is no number that it may be, a job type is not in the throughputs, or a job runs nowhere; with the line.
pub fn read(file: &str, text: &str, fleet: &TypedFleet) -> Result<Vec<GangJob>> {
    let bad = |line: u64, what: String| Error::file(file.to_owned(), line, what);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let line_of = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
    let head = reader.headers().map_err(|error| bad(line_of(&error), error.to_string()))?.clone();
    let has = |name: &str| head.iter().any(|column| column.eq_ignore_ascii_case(name));
    for column in ["job", "type", "submit_s", "gpus", "steps"] {
        if !has(column) {
            return Err(bad(
                1,
                format!("there is no column `{column}`; the first line needs job,type,submit_s,gpus,steps"),
            ));
        }
    }
    if let Some((column, name)) = misspelt(&head.iter(), &["weight", "user", "deadline_s", "cpus", "memory_gb"]) {
        return Err(bad(
            1,
            format!(
                "column `{column}` is not read; call it {name} if that is meant, or give it a name that is less alike"
            ),
        ));
    }
    let mut result = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| bad(line_of(&error), error.to_string()))?;
        let row = JobRow { file, head: &head, row: &record, line: record.position().map_or(0, csv::Position::line) };
        let gpus = row.number("gpus", (1.0, 4096.0), "write a whole number of GPUs")?;
        let job = row.cell("type");
        if gpus.fract() != 0.0 {
            return Err(row.wrong(format!("`gpus` is `{gpus}`; write a whole number of GPUs")));
        }
        let Some(kind) = fleet.kind(job, gpus as u32) else {
            let known = fleet.kinds.iter().any(|kind| kind.job == job);
            return Err(row.wrong(if known {
                format!("`{job}` runs on {gpus} GPUs of no type here; give it another number of GPUs, or measure it")
            } else {
                format!("`{}` is no job type that runs here; name one of the throughputs", excerpt(job))
            }));
        };
        let weight = if row.cell("weight").is_empty() {
            1.0
        } else {
            row.number("weight", (1e-6, 1e6), "write a weight above 0, or leave it empty")?
        };
        let user = row.cell("user");
        let submit_ms =
            (row.number("submit_s", (0.0, LATEST_S), "write seconds from the beginning, 0 or more")? * 1e3) as i64;
        let due_ms = if row.cell("deadline_s").is_empty() {
            None
        } else {
            let remedy = "write seconds after the submission, above 0, or leave it empty";
            Some(submit_ms + (row.number("deadline_s", (1e-3, LATEST_S), remedy)? * 1e3) as i64)
        };
        result.push(GangJob {
            name: row.cell("job").to_owned(),
            kind,
            submit_ms,
            due_ms,
            host: row.host(fleet, job, gpus)?,
            steps: row.number("steps", (1e-9, 1e18), "write the steps that the job makes, above 0")?,
            weight,
            user: (!user.is_empty()).then(|| user.to_owned()),
        });
        if result.len() > MOST_JOBS {
            return Err(row.wrong(format!("there are more than {MOST_JOBS} jobs; take a part of them")));
        }
    }
    if result.is_empty() {
        return Err(Error::no_jobs(format!("{file}: there is no job in it")));
    }
    result.sort_by_key(|job| job.submit_ms);
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::pool::pools;
    use super::super::pool::tests::rate;
    use super::*;

    fn fleet() -> TypedFleet {
        let rates =
            [rate("v100", "a", 1, 4.0), rate("k80", "a", 1, 1.0), rate("v100", "a", 2, 7.0), rate("k80", "b", 1, 1.0)];
        TypedFleet::new(pools("v100=2,k80=2").unwrap(), &rates).unwrap()
    }

    #[test]
    fn jobs_are_drawn_alike_from_a_seed() {
        let what =
            JobDraw { jobs: 500, per_hour: Some(2.0), runs: DrawnRuns::Simulation, gangs: true, ..JobDraw::default() };
        let jobs = draw(&fleet(), &what, 7).unwrap();
        assert_eq!(jobs, draw(&fleet(), &what, 7).unwrap());
        assert_ne!(jobs, draw(&fleet(), &what, 8).unwrap());
        // `b` does not run on the first type; gangs of 4 and 8 take the 2 that there are.
        assert!(jobs.iter().all(|job| fleet().kinds[job.kind].job == "a"));
        let pairs = jobs.iter().filter(|job| fleet().kinds[job.kind].gpus == 2).count();
        assert!((110..190).contains(&pairs), "{pairs}");
        let run_min = |job: &GangJob| job.steps / fleet().kinds[job.kind].steps_per_s[0] / 60.0;
        assert!(jobs.iter().all(|job| (31.5..=10_001.0).contains(&run_min(job))));
        let hours = jobs.last().unwrap().submit_ms as f64 / 3.6e6;
        assert!((200.0..310.0).contains(&hours), "{hours}");
        let four = JobDraw { runs: DrawnRuns::Hours, per_hour: None, ..what };
        let hours = draw(&fleet(), &four, 1).unwrap();
        assert!(
            hours
                .iter()
                .all(|job| job.submit_ms == 0 && (run_min(job) / 60.0 - (run_min(job) / 60.0).round()).abs() < 1e-6)
        );
    }

    #[test]
    fn users_submit_in_bursts() {
        let single = JobDraw { jobs: 4000, per_hour: Some(6.0), gangs: true, ..JobDraw::default() };
        let users = JobDraw { users: Some(UserDraw { users: 5, burst: 8 }), ..single };
        let (alone, jobs) = (draw(&fleet(), &single, 3).unwrap(), draw(&fleet(), &users, 3).unwrap());
        // The jobs are the same, and as many come in an hour.
        assert!(alone.iter().zip(&jobs).all(|(a, b)| (a.kind, a.steps) == (b.kind, b.steps)));
        assert!(jobs.is_sorted_by_key(|job| job.submit_ms));
        let rate = 4000.0 / (jobs.last().unwrap().submit_ms as f64 / 3.6e6);
        assert!((5.0..7.2).contains(&rate), "{rate}");
        let bursts = 1 + jobs.windows(2).filter(|two| two[0].submit_ms < two[1].submit_ms).count();
        assert_eq!(bursts, 500);
        for user in 1..=5 {
            assert_eq!(jobs.iter().filter(|job| job.user.as_deref() == Some(&format!("u{user}"))).count(), 800);
        }
        let told = draw(&fleet(), &JobDraw { per_hour: None, ..users }, 3).unwrap_err().to_string();
        assert!(told.contains("--rate"), "{told}");
    }

    #[test]
    fn deadlines_are_multiples_of_runs_alone() {
        let none = JobDraw { jobs: 2000, ..JobDraw::default() };
        let some = JobDraw { deadlines: Some(DeadlineDraw { share: 0.25, runs: (1.5, 4.0) }), ..none };
        let (none, some) = (draw(&fleet(), &none, 5).unwrap(), draw(&fleet(), &some, 5).unwrap());
        assert!(none.iter().zip(&some).all(|(a, b)| GangJob { due_ms: None, ..b.clone() } == *a));
        let multiple = |job: &GangJob| {
            let alone_s = job.steps / fleet().kinds[job.kind].fastest();
            Some((job.due_ms? - job.submit_ms) as f64 / 1e3 / alone_s)
        };
        let multiples: Vec<f64> = some.iter().filter_map(multiple).collect();
        assert!((400..600).contains(&multiples.len()), "{}", multiples.len());
        assert!(multiples.iter().all(|multiple| (1.5..=4.001).contains(multiple)));
        assert!(multiples.iter().any(|multiple| *multiple < 1.7) && multiples.iter().any(|multiple| *multiple > 3.8));
    }

    #[test]
    fn a_csv_is_read_and_what_is_wrong_is_told() {
        let head = "job,type,submit_s,gpus,steps,weight,user\n";
        let jobs = read("j.csv", &format!("{head}x,a,60,2,100,,\ny,b,0,1,5.5,2,u\n"), &fleet()).unwrap();
        assert_eq!((jobs[0].name.as_str(), jobs[0].weight, jobs[1].submit_ms), ("y", 2.0, 60_000));
        assert_eq!(jobs[0].user.as_deref(), Some("u"));
        let due =
            read("j.csv", "job,type,submit_s,gpus,steps,deadline_s\nx,a,60,1,5,90\ny,a,60,1,5,\n", &fleet()).unwrap();
        assert_eq!((due[0].due_ms, due[1].due_ms), (Some(150_000), None));
        let late = read("j.csv", "job,type,submit_s,gpus,steps,deadline_s\nx,a,60,1,5,-1\n", &fleet());
        assert!(late.unwrap_err().to_string().contains("j.csv, line 2: `deadline_s` is `-1`"));
        // What a job needs is read also where nodes have nothing of it.
        let needs =
            |cpus: &str| read("j.csv", &format!("job,type,submit_s,gpus,steps,cpus\nx,a,60,2,5,{cpus}\n"), &fleet());
        let each = HostNeeds { cpus: 3.0, memory_gb: 0.0 };
        assert_eq!(needs("6").unwrap()[0].host, HostUse::Exactly(each));
        assert_eq!(needs("").unwrap()[0].host, HostUse::Any);
        assert!(needs("six").unwrap_err().to_string().contains("j.csv, line 2: `cpus` is `six`"));
        let told = |row: &str| read("j.csv", &format!("{head}{row}\n"), &fleet()).unwrap_err().to_string();
        assert!(told("x,c,0,1,5,,").contains("j.csv, line 2: `c` is no job type"));
        assert!(told("x,a,0,8,5,,").contains("runs on 8 GPUs of no type here"));
        assert!(told("x,a,0,1,NaN,,").contains("`steps` is `NaN`"));
        assert!(told("x,a,-1,1,5,,").contains("`submit_s` is `-1`"));
        assert!(told("x,a,0,1,5,0,").contains("weight above 0"));
        assert!(told("x,a,0,1").contains("line 2"));
        assert!(read("j.csv", head, &fleet()).unwrap_err().to_string().contains("no job in it"));
        assert!(read("j.csv", "job\n", &fleet()).unwrap_err().to_string().contains("no column `type`"));
    }
}
