//! A run of many scenarios split over the tasks of a job array, and put together again.
//!
//! Task *i* of *n* (counted from 1) takes scenarios i − 1, i − 1 + n, i − 1 + 2n, …: neighbours in a list tend to cost alike, so
//! dealing them out in turn balances the tasks. Each task writes one file for each of its scenarios, with its schedule. [`merge`] checks
//! that they are of the same jobs and scenarios, none twice, none missing; what is said about them is then computed as if they had been run
//! in one go.
//!
//! O(results log results).
//!
//! Worked number: 2/5 of 12 scenarios takes numbers 1, 6 and 11.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::Schedule;
use tracecast_sim::workload::Workload;

/// One task of a job array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = Error;

    /// `i/n`, i from 1 to n.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Malformed {
            what: "part of a study",
            found: text.to_owned(),
            remedy: "write i/n with i from 1 to n, such as 2/5".to_owned(),
        };
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let number: usize = number.trim().parse().map_err(|_| wrong())?;
        let of: usize = of.trim().parse().map_err(|_| wrong())?;
        if number == 0 || number > of {
            return Err(wrong());
        }
        Ok(Self { number: number - 1, of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.number + 1, self.of)
    }
}

impl Shard {
    /// Whether scenario `index` (from 0) is this task's.
    pub fn mine(&self, index: usize) -> bool {
        index % self.of == self.number
    }
}

/// Schedule of one scenario, and what it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Index in the list of scenarios, from 0.
    pub index: usize,
    /// Scenarios in the list.
    pub of: usize,
    /// Name of the scenario.
    pub name: String,
    /// The policy, every switch of it.
    pub policy: String,
    /// [`fingerprint`] of the jobs and nodes.
    pub jobs: String,
    /// When and where every job ran.
    pub schedule: Schedule,
}

impl Stored {
    /// Name of its file.
    pub fn file(&self) -> String {
        format!("{:04}.schedule.json", self.index)
    }

    /// Writes JSON.
    ///
    /// # Errors
    /// If it cannot be written so.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Defect(format!("scenario `{}`: {error}", self.name)))
    }

    /// From JSON; `file` is for messages.
    ///
    /// # Errors
    /// If it is none, or its columns differ in length.
    pub fn from_json(file: &str, text: &str) -> Result<Self> {
        let wrong = |line: u64, what: String| Error::File { file: file.to_owned(), line, what };
        let stored: Self = serde_json::from_str(text)
            .map_err(|error| wrong(error.line() as u64, format!("this is not from `simulate --shard` ({error})")))?;
        if stored.schedule.is_consistent() {
            Ok(stored)
        } else {
            Err(wrong(1, "its columns differ in length; write it anew with --shard".to_owned()))
        }
    }
}

/// The schedules of all tasks in the order of the scenarios: those of jobs with this fingerprint. Each scenario is its name, its policy, and how many nodes it has at most.
///
/// # Errors
/// If they are not of these jobs and scenarios, or if one is there twice or missing.
pub fn merge(mut stored: Vec<Stored>, jobs: &str, scenarios: &[(String, String, u32)]) -> Result<Vec<Schedule>> {
    stored.sort_by_key(|result| result.index);
    let wrong = |what: String| Err(Error::Shards(what));
    if let Some(other) = stored.iter().find(|result| result.jobs != jobs) {
        return wrong(format!(
            "`{}` is not of these jobs and nodes; name the same source and options as for --shard",
            other.name
        ));
    }
    let same = |result: &&Stored| {
        let found = scenarios.get(result.index);
        let named = found.is_some_and(|(name, policy, _)| (name, policy) == (&result.name, &result.policy));
        result.of == scenarios.len() && named
    };
    if let Some(other) = stored.iter().find(|result| !same(result)) {
        return wrong(format!("`{}` is not of these scenarios; name the same ones as for --shard", other.name));
    }
    let beyond = |result: &&Stored| {
        let nodes = scenarios.get(result.index).map_or(0, |(_, _, nodes)| *nodes);
        result.schedule.pieces.iter().any(|piece| piece.node >= nodes)
    };
    if let Some(other) = stored.iter().find(beyond) {
        return wrong(format!("`{}` names a node that does not exist; write it anew with --shard", other.name));
    }
    if let Some([one, _]) = stored.windows(2).find_map(|pair| match pair {
        [a, b] if a.index == b.index => Some([a, b]),
        _ => None,
    }) {
        return wrong(format!("scenario {} (`{}`) is there twice", one.index + 1, one.name));
    }
    let missing: Vec<String> = (0..scenarios.len())
        .filter(|index| stored.binary_search_by_key(index, |result| result.index).is_err())
        .map(|index| (index + 1).to_string())
        .collect();
    if !missing.is_empty() {
        let shown = missing.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if missing.len() > 10 { ", …" } else { "" };
        return wrong(format!("{} of {} scenarios are missing: {shown}{more}", missing.len(), scenarios.len()));
    }
    Ok(stored.into_iter().map(|result| result.schedule).collect())
}

/// A name for jobs and nodes: how many jobs, and an FNV-1a hash of what they are, when they came, what is known of them and what they
/// run on. Two tasks that read the same trace with the same options agree on it. O(n).
pub fn fingerprint(workload: &Workload, cluster: &Cluster) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |word: u64| {
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (job, (submit, run)) in workload.submit_ms.iter().zip(&workload.run_ms).enumerate() {
        let shape = workload.shape_of(job);
        mix(submit.cast_unsigned());
        mix(run.cast_unsigned());
        mix(shape.amount());
        if let Some(request) = shape.request {
            format!("{request:?}").bytes().for_each(|byte| mix(u64::from(byte)));
        }
        mix(workload.vc.get(job).map_or(u64::MAX, |vc| u64::from(*vc)));
        mix(workload.user.get(job).map_or(u64::MAX, |user| u64::from(*user)));
        mix(workload.requested_ms.get(job).copied().flatten().map_or(u64::MAX, i64::cast_unsigned));
        mix(workload.predicted_s.get(job).copied().flatten().map_or(u64::MAX, f64::to_bits));
        if let Some(qos) = workload.qos.get(job) {
            mix(qos.map_or(u64::MAX, u64::from));
        }
        if let Some(association) = workload.association.get(job) {
            mix(association.map_or(u64::MAX, u64::from));
        }
        if let Some(charge) = workload.charge.get(job) {
            mix(*charge);
        }
        mix(workload.score.get(job).map_or(u64::MAX, |score| score.to_bits()));
    }
    for warm in &workload.warm {
        mix(u64::from(warm.job));
        mix(warm.start_ms.cast_unsigned());
    }
    for list in [&workload.unfinished, &workload.once] {
        for job in list {
            mix(u64::from(*job));
        }
    }
    for known in &workload.history_gpu_s {
        mix(known.to_bits());
    }
    for byte in format!("{cluster:?}").bytes() {
        mix(u64::from(byte));
    }
    format!("{}-{hash:016x}", workload.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tracecast_sim::workload::Shape;

    #[test]
    fn scenarios_are_dealt_out_in_turn() {
        let shard: Shard = "2/5".parse().unwrap();
        assert_eq!((0..12).filter(|index| shard.mine(*index)).collect::<Vec<_>>(), [1, 6, 11]);
        assert_eq!(shard.to_string(), "2/5");
        // Every scenario belongs to exactly one task.
        let tasks: Vec<Shard> = (1..=5).map(|task| format!("{task}/5").parse().unwrap()).collect();
        assert!((0..23).all(|index| tasks.iter().filter(|task| task.mine(index)).count() == 1));
        for wrong in ["0/5", "6/5", "1", "a/2", "1/0", "-1/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    fn stored(index: usize) -> Stored {
        let mut jobs = Workload::default();
        jobs.push(0, 1000, Shape::whole(1));
        let cluster = tracecast_sim::Cluster::of_vcs(&[("all", 1, 8)]);
        let schedule = tracecast_sim::simulate(&jobs, &cluster, &tracecast_sim::Policy::default()).unwrap();
        Stored { index, of: 3, name: format!("s{index}"), policy: "p".into(), jobs: "1-aa".into(), schedule }
    }

    fn scenarios() -> Vec<(String, String, u32)> {
        (0..3).map(|index| (format!("s{index}"), "p".to_owned(), 1)).collect()
    }

    #[test]
    fn schedules_survive_the_file_and_come_back_in_order() {
        let files = [2, 0, 1].map(|index| stored(index).to_json().unwrap());
        let back = files.iter().map(|text| Stored::from_json("f", text).unwrap()).collect();
        assert_eq!(merge(back, "1-aa", &scenarios()).unwrap(), [0, 1, 2].map(|index| stored(index).schedule));
        let error = Stored::from_json("0001.schedule.json", "{}").unwrap_err().to_string();
        assert!(error.starts_with("0001.schedule.json, line 1: "), "{error}");
        let cut = files[0].replacen("\"preemptions\":[0]", "\"preemptions\":[]", 1);
        assert!(Stored::from_json("f", &cut).unwrap_err().to_string().contains("differ in length"));
    }

    #[test]
    fn schedules_that_do_not_belong_together_are_refused() {
        let error = |stored: Vec<Stored>| merge(stored, "1-aa", &scenarios()).unwrap_err().to_string();
        let mut elsewhere = stored(1);
        elsewhere.schedule.pieces[0].node = 7;
        assert!(error(vec![stored(0), elsewhere, stored(2)]).contains("a node that does not exist"));
        assert!(error(vec![stored(0), stored(2)]).contains("1 of 3 scenarios are missing: 2"));
        assert!(error(vec![stored(0), stored(1), stored(1), stored(2)]).contains("twice"));
        assert!(error(vec![stored(0), Stored { jobs: "8-bb".into(), ..stored(1) }]).contains("not of these jobs"));
        assert!(error(vec![stored(0), Stored { name: "x".into(), ..stored(1) }]).contains("not of these scenarios"));
        assert!(error(vec![Stored { of: 4, ..stored(1) }]).contains("not of these scenarios"));
    }

    #[test]
    fn fingerprints_tell_workloads_apart() {
        let jobs = |run: i64| {
            let mut jobs = Workload::default();
            jobs.push(0, run, Shape::whole(1));
            jobs
        };
        let of = |run: i64, nodes: u32| fingerprint(&jobs(run), &Cluster::of_vcs(&[("all", nodes, 8)]));
        assert_eq!(of(5, 1), of(5, 1));
        assert_ne!(of(5, 1), of(6, 1));
        assert_ne!(of(5, 1), of(5, 2));
        let predicted = Workload { predicted_s: vec![Some(3.0)], ..jobs(5) };
        assert_ne!(fingerprint(&predicted, &Cluster::of_vcs(&[("all", 1, 8)])), of(5, 1));
        assert!(of(5, 1).starts_with("1-"));
    }
}
