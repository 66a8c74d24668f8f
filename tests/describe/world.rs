//! The raw files read without the library: plain loops over CSV and JSON into plain records, by the definitions in
//! `analytics::describe` and the formats' own documentation.
//!
//! None of the real files holds a job that still ran; the log that [`generate_log`] makes up does.

use std::path::Path;

use serde_json::Value;

pub const HOUR: i64 = 3_600_000;
pub const DAY: i64 = 24 * HOUR;

/// A job as the raw file has it, with what follows from its times. Times in ms.
#[derive(Debug, Clone, Default)]
pub struct Job {
    pub submit: i64,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub run_s: Option<f64>,
    /// Whether it still ran when the record was taken, so that `run_s` is only its run until then.
    pub running: bool,
    /// The run is the source's figure, not derived from timestamps.
    pub reported_run: bool,
    pub wait_s: Option<f64>,
    pub gpus: Option<f64>,
    pub state: &'static str,
    pub said: Option<String>,
    pub user: Option<String>,
    pub vc: Option<String>,
    pub nodes: Option<u64>,
    pub attempts: Option<u64>,
    /// Times at which it held its GPUs.
    pub held: Vec<(i64, i64)>,
    /// Whether its place in time was taken from its submission.
    pub assumed_start: bool,
}

/// The end of an attempt that still ran.
const OPEN: i64 = i64::MAX;

impl Job {
    /// Run of the job, if it ended.
    pub fn ended_run(&self) -> Option<f64> {
        self.run_s.filter(|_| !self.running)
    }

    pub fn gpu_s(&self) -> Option<f64> {
        Some(self.gpus? * self.run_s?)
    }

    pub fn is_gpu_job(&self) -> bool {
        self.gpus.is_some_and(|gpus| gpus > 0.0)
    }

    pub fn is_over(&self) -> bool {
        !["unknown", "running", "pending"].contains(&self.state)
    }

    /// Position of the size class: no GPU, a fraction, one, 2 to 4, 5 to 8, more.
    pub fn class(&self) -> Option<usize> {
        Some(match self.gpus? {
            0.0 => 0,
            gpus if gpus < 1.0 => 1,
            1.0 => 2,
            gpus if gpus <= 4.0 => 3,
            gpus if gpus <= 8.0 => 4,
            _ => 5,
        })
    }

    /// Start and end of its wait, where they are known.
    pub fn waited(&self) -> Option<(i64, i64)> {
        Some((self.submit, self.start?))
    }
}

/// Everything of a source.
pub struct World {
    pub jobs: Vec<Job>,
    /// Nodes and their GPUs, where there is an inventory.
    pub inventory: Option<(u64, f64)>,
    /// Nodes of the inventory with GPUs.
    pub gpu_nodes: Option<u64>,
    /// GPUs of the largest node of the inventory.
    pub largest_node: Option<f64>,
    /// GPUs of each VC over time, where recorded.
    pub quotas: std::collections::BTreeMap<String, Vec<(i64, i64, f64)>>,
    pub rows: u64,
    pub zone: &'static str,
    /// Offset of local time from UTC at a moment, ms; `None` where hours mean nothing.
    pub offset: Option<fn(i64) -> i64>,
    /// First and last moment that any record names.
    pub window: (i64, i64),
}

impl World {
    /// GPUs there are: those of the VCs that jobs name, where they are known by VC, else those of the inventory.
    pub fn capacity(&self) -> Option<Vec<(i64, i64, f64)>> {
        if let Some((_, gpus)) = self.inventory {
            return Some(vec![(self.window.0, self.window.1, gpus)]);
        }
        let named = |vc: &str| self.jobs.iter().any(|job| job.vc.as_deref() == Some(vc));
        let quotas = self.quotas.iter().filter(|(vc, _)| named(vc)).flat_map(|(_, quota)| quota.clone());
        Some(quotas.collect::<Vec<_>>()).filter(|quotas| !quotas.is_empty())
    }

    fn new(mut jobs: Vec<Job>, zone: &'static str, offset: Option<fn(i64) -> i64>) -> Self {
        jobs.sort_by_key(|job| job.submit);
        let mut times: Vec<i64> = Vec::new();
        for job in &jobs {
            times.push(job.submit);
            times.extend(job.start);
            times.extend(job.end);
            // A place taken from the submission is no record.
            times.extend(job.held.iter().filter(|_| !job.assumed_start).flat_map(|(start, end)| [*start, *end]));
        }
        times.retain(|time| *time != OPEN);
        let window = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
        for job in jobs.iter_mut().filter(|job| job.running) {
            let end = |end: i64| if end == OPEN { window.1 } else { end };
            job.held = job.held.iter().map(|(start, until)| (*start, end(*until))).collect();
            job.run_s = Some(job.held.iter().map(|(start, end)| end - start).sum::<i64>() as f64 / 1_000.0);
        }
        Self {
            rows: jobs.len() as u64,
            jobs,
            inventory: None,
            gpu_nodes: None,
            largest_node: None,
            quotas: std::collections::BTreeMap::new(),
            zone,
            offset,
            window,
        }
    }
}

/// Standard time from the second hour of 5 November 2017 local time on, which is 09:00 UTC.
fn pacific(ms: i64) -> i64 {
    if ms < 1_509_872_400_000 { -7 * HOUR } else { -8 * HOUR }
}

fn china(_: i64) -> i64 {
    8 * HOUR
}

/// Days of a date since 1970-01-01, by counting years and months.
fn days(year: i64, month: usize, day: i64) -> i64 {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut count = 0;
    for year in 1970..year {
        count += if leap(year) { 366 } else { 365 };
    }
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    count + lengths[..month - 1].iter().sum::<i64>() + day - 1
}

/// `2017-08-14 23:27:00` as UTC, ms.
pub fn moment(text: &str) -> i64 {
    let parts: Vec<i64> = text.split(['-', ' ', ':']).map(|part| part.parse().unwrap()).collect();
    days(parts[0], parts[1] as usize, parts[2]) * DAY + (parts[3] * 3_600 + parts[4] * 60 + parts[5]) * 1_000
}

/// Year and month of a day since 1970-01-01.
pub fn month_of(day: i64) -> String {
    // From about that year: this is asked for each job.
    let (mut year, mut month) = (1970 + day / 366, 1);
    loop {
        let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        if days(next_year, next_month, 1) > day {
            return format!("{year}-{month:02}");
        }
        (year, month) = (next_year, next_month);
    }
}

#[test]
fn calendar_by_hand() {
    // 1,509,872,400 s is 2017-11-05 09:00:00 UTC.
    assert_eq!(moment("2017-11-05 09:00:00"), 1_509_872_400_000);
    assert_eq!((month_of(0), month_of(days(2017, 12, 31)).as_str()), ("1970-01".to_owned(), "2017-12"));
    assert_eq!(
        (month_of(364), month_of(365), month_of(days(2016, 2, 29)).as_str()),
        ("1970-12".to_owned(), "1971-01".to_owned(), "2016-02")
    );
}

pub fn text(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        std::io::read_to_string(flate2::read::MultiGzDecoder::new(file)).unwrap()
    } else {
        std::io::read_to_string(file).unwrap()
    }
}

pub fn rows(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = text(path);
    csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(text.as_bytes())
        .deserialize()
        .map(Result::unwrap)
        .collect()
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Philly's joined table: the run is `wall_duration_s`; only jobs with `first_start_utc` have a place in time.
pub fn philly_joined(path: &Path) -> World {
    let jobs = rows(path).into_iter().map(|row| {
        let submit = moment(&row["submit_utc"]);
        let run_s: f64 = row["wall_duration_s"].parse().unwrap();
        let run_ms = (run_s * 1_000.0).round() as i64;
        let start = known(&row["first_start_utc"]).map(|text| moment(&text));
        let attempts: Option<u64> = known(&row["num_attempts"]).map(|text| text.parse().unwrap());
        let from = start.unwrap_or(submit);
        Job {
            submit,
            start,
            end: start.map(|start| start + run_ms),
            run_s: Some(run_s),
            // With one attempt the run is end less start; with more, gaps lie between them and the figure is reported.
            reported_run: start.is_none() || attempts.is_some_and(|attempts| attempts > 1),
            wait_s: start.map(|start| (start - submit) as f64 / 1_000.0),
            gpus: Some(row["num_gpus"].parse().unwrap()),
            state: if row["inferred_status"] == "Pass" { "completed" } else { "unknown" },
            said: known(&row["inferred_status"]),
            vc: known(&row["vc"]),
            attempts,
            held: vec![(from, from + run_ms)],
            assumed_start: start.is_none(),
            ..Job::default()
        }
    });
    World::new(jobs.collect(), "America/Los_Angeles", Some(pacific))
}

/// Philly's own JSON: the run is the sum of the attempts, the wait ends as the first of them starts. A job without an
/// attempt never ran, one whose last attempt has no end still runs.
pub fn philly_log(path: &Path) -> World {
    let Value::Array(log) = serde_json::from_str(&text(path)).unwrap() else { panic!("a list of jobs") };
    let jobs = log.iter().map(|job| {
        let submit = moment(job["submitted_time"].as_str().unwrap());
        let attempts: Vec<(i64, i64)> = job["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| {
                let at = |field: &str| attempt[field].as_str().map_or(OPEN, moment);
                (at("start_time"), at("end_time"))
            })
            .collect();
        let running = attempts.last().is_some_and(|(_, end)| *end == OPEN);
        let run_ms = attempts.iter().map(|(start, end)| end.saturating_sub(*start)).reduce(i64::saturating_add);
        let word = |field: &str| job[field].as_str().and_then(known);
        Job {
            submit,
            start: attempts.first().map(|(start, _)| *start),
            end: attempts.last().map(|(_, end)| *end).filter(|end| *end != OPEN),
            running,
            run_s: run_ms.map(|ms| ms as f64 / 1_000.0),
            wait_s: attempts.first().map(|(start, _)| (start - submit) as f64 / 1_000.0),
            gpus: job["num_gpus"].as_f64(),
            state: match job["status"].as_str() {
                _ if running => "running",
                Some("Pass") => "completed",
                Some("Killed") => "cancelled",
                Some("Failed") => "failed",
                _ => "unknown",
            },
            said: word("status"),
            user: word("user"),
            vc: word("vc"),
            attempts: Some(attempts.len() as u64),
            held: attempts,
            ..Job::default()
        }
    });
    World::new(jobs.collect(), "America/Los_Angeles", Some(pacific))
}

/// A made-up log in that form: 60 jobs of five users in three VCs, of which many were retried, four never ran and eight or more
/// still run. Few enough that no law is fitted.
pub fn generate_log() -> String {
    let mut state = 7u64;
    let mut draw = |below: u64| {
        // Knuth's generator: the same log on every run.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let stamp = |second: u64| {
        let (day, rest) = (second / 86_400, second % 86_400);
        format!("2017-11-{:02} {:02}:{:02}:{:02}", 3 + day, rest / 3_600, rest / 60 % 60, rest % 60)
    };
    let end = 5 * 86_400;
    let mut jobs = Vec::new();
    let mut submit = 0;
    for id in 0..60u64 {
        submit += draw(9_000) * (id % 4).min(1);
        let mut at = submit + [0, 1, 40, 3_000][draw(4) as usize] * (1 + draw(3));
        let mut attempts = Vec::new();
        let runs = if id % 15 == 8 { 0 } else { 1 + draw(3) };
        for attempt in 0..runs {
            let until = at + 1 + draw(90) * draw(2_000);
            let last = attempt + 1 == runs;
            let open = last && id % 5 == 3 && runs > 0 || until > end;
            let stop = if open { "null".to_owned() } else { format!("\"{}\"", stamp(until)) };
            attempts.push(format!("{{\"start_time\": \"{}\", \"end_time\": {stop}}}", stamp(at)));
            if open {
                break;
            }
            at = until + draw(600);
        }
        let status = if runs == 0 { "Killed" } else { ["Pass", "Failed", "Killed", "Pass"][draw(4) as usize] };
        jobs.push(format!(
            "{{\"id\": \"application_{id}\", \"num_gpus\": {}, \"status\": \"{status}\", \"user\": \"u{}\", \"vc\": \"v{}\", \
             \"submitted_time\": \"{}\", \"attempts\": [{}]}}",
            [1, 1, 2, 8, 16][draw(5) as usize],
            draw(5),
            draw(3),
            stamp(submit),
            attempts.join(", ")
        ));
    }
    format!("[\n{}\n]\n", jobs.join(",\n"))
}

/// openb: GPUs are `num_gpu × gpu_milli / 1000`; a deleted pod has ended, whatever the phase says.
pub fn openb(pods: &Path, nodes: &Path) -> World {
    let seconds = |text: &str| known(text).map(|text| text.parse::<i64>().unwrap() * 1_000);
    let jobs = rows(pods).into_iter().map(|row| {
        let submit = seconds(&row["creation_time"]).unwrap();
        let start = seconds(&row["scheduled_time"]);
        let end = seconds(&row["deletion_time"]);
        assert!(end.is_some(), "every pod was deleted");
        let run_ms = start.zip(end).map(|(start, end)| end - start);
        let number = |field: &str| row[field].parse::<f64>().unwrap();
        Job {
            submit,
            start,
            end,
            run_s: run_ms.map(|ms| ms as f64 / 1_000.0),
            wait_s: start.map(|start| (start - submit) as f64 / 1_000.0),
            gpus: Some(number("num_gpu") * number("gpu_milli") / 1_000.0),
            state: match row["pod_phase"].as_str() {
                "Succeeded" => "completed",
                "Failed" => "failed",
                "Pending" if start.is_none() => "cancelled",
                _ => "unknown",
            },
            said: known(&row["pod_phase"]),
            nodes: Some(1),
            held: start.zip(end).into_iter().collect(),
            ..Job::default()
        }
    });
    let mut world = World::new(jobs.collect(), "UTC", None);
    let nodes = rows(nodes);
    world.rows += nodes.len() as u64;
    let gpus = nodes.iter().map(|row| row["gpu"].parse::<f64>().unwrap()).sum();
    world.gpu_nodes = Some(nodes.iter().filter(|row| row["gpu"] != "0").count() as u64);
    world.inventory = Some((nodes.len() as u64, gpus));
    world.largest_node = nodes.iter().map(|node| node["gpu"].parse().unwrap()).reduce(f64::max);
    world
}

/// The Helios slice: microseconds since 2020-09-01 00:00 in China; submission and duration are all it says of time.
pub fn helios_slice(path: &Path) -> World {
    let origin = moment("2020-09-01 00:00:00") - 8 * HOUR;
    let jobs = rows(path).into_iter().map(|row| {
        let submit = origin + row["submit_time"].parse::<i64>().unwrap() / 1_000;
        let run_s: f64 = row["duration_s"].parse().unwrap();
        Job {
            submit,
            run_s: Some(run_s),
            reported_run: true,
            gpus: Some(row["num_chips"].parse().unwrap()),
            state: match row["final_status"].as_str() {
                "COMPLETED" => "completed",
                "FAILED" => "failed",
                "CANCELED" => "cancelled",
                "NODE_FAIL" => "node_fail",
                other => panic!("a state this test does not know: {other}"),
            },
            said: known(&row["final_status"]),
            user: known(&row["user"]),
            vc: known(&row["tenant"]),
            nodes: Some(row["num_nodes"].parse().unwrap()),
            held: vec![(submit, submit + (run_s * 1_000.0).round() as i64)],
            assumed_start: true,
            ..Job::default()
        }
    });
    World::new(jobs.collect(), "Asia/Shanghai", Some(china))
}

/// Helios' GPUs by VC and local day, one interval a day.
pub fn helios_quotas(path: &Path) -> std::collections::BTreeMap<String, Vec<(i64, i64, f64)>> {
    let mut quotas: std::collections::BTreeMap<String, Vec<(i64, i64, f64)>> = std::collections::BTreeMap::new();
    for row in rows(path) {
        let from = moment(&format!("{} 00:00:00", row["date"])) - 8 * HOUR;
        for (vc, gpus) in row.iter().filter(|(vc, _)| vc.starts_with("vc")) {
            quotas.entry(vc.clone()).or_default().push((from, from + DAY, gpus.parse().unwrap()));
        }
    }
    quotas
}
