//! MIT Supercloud (2021/22): `slurm-log.csv`, a dump of Slurm's job table, and GPU samples of single jobs.
//!
//! The dump has `id_job, id_user, time_submit, time_start, time_end, timelimit, nodes_alloc, nodelist, tres_alloc,
//! gres_used, state_end (or state), partition, name_job …`. Times are epoch seconds, 0 is unset; states are Slurm's
//! numbers; the time limit is in minutes.
//!
//! `tres_alloc` numbers its resources (`1=20,2=170000,4=1,1002=2`). Slurm's own numbers are 1 CPU, 2 memory, 3 energy,
//! 4 nodes, 5 billing, and sites' own begin at 1001; a published loader takes 4 for GPUs. Which is right is decided by
//! the file: the number (or the sum of the site's) that equals the GPUs in `gres_used` in at least 95 % of the jobs
//! that name any there. Number 4 must also differ from `nodes_alloc` at least once, or it may as well be the nodes. Where
//! `gres_used` is empty in every job, GPUs are 1001 and 1002, the two models of the published cluster. If none passes, GPUs
//! are taken from `gres_used` alone, and are unknown where that says nothing.
//!
//! Worked number: `gres_used=gpu:volta:2` with `tres_alloc=1=40,4=1,1002=2` speaks for 1002 and against 4.
//! O(rows x resources).

use std::collections::{BTreeMap, BTreeSet};

use super::delimited::{Delimited, Record};
use super::field::{MIB, Moment};
use super::options::ReadOptions;
use super::read::{check_job, forget_unstarted};
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile, TableHeaders};
use crate::error::{Error, Result};
use crate::quality::reason;
use crate::schema::{GpuSampleRow, JobRow, JobState, Table};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// The cluster's zone.
const ZONE: &str = "America/New_York";
/// Slurm's number for nodes, which is sometimes taken for GPUs.
const NODE_ID: u32 = 4;
/// The first number of a site's own resources.
const FIRST_SITE_ID: u32 = 1_001;
/// The numbers of the published cluster's two GPU models.
const GPU_IDS: [u32; 2] = [1_001, 1_002];
/// Least of Slurm's 32-bit numbers that mean "no value" or "infinite".
const NO_VALUE: i64 = 4_294_967_293;
/// The share of jobs in which a resource number must agree with `gres_used`.
const AGREE: f64 = 0.95;

/// Reads the job table and GPU samples.
pub(super) struct Supercloud;

const LOG: &[&str] = &["id_job", "time_submit", "time_start", "time_end", "tres_alloc"];
const GPU_SAMPLES: &[&str] = &["timestamp", "gpu_index", "utilization_gpu_pct", "memory_used_mib"];

fn is_log(head: &Head) -> bool {
    head.has_columns(',', LOG)
}

fn is_gpu_samples(head: &Head) -> bool {
    head.has_columns(',', GPU_SAMPLES)
}

impl Reader for Supercloud {
    fn id(&self) -> &'static str {
        "supercloud"
    }

    fn describes(&self) -> &'static str {
        "MIT Supercloud 2021/22: slurm-log.csv (Slurm's job table) and GPU samples of single jobs"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', LOG), (',', GPU_SAMPLES)]
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if is_log(head) || is_gpu_samples(head) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.basis = TimeBasis::Utc;
        options.zone_or(ZONE)?.name().clone_into(&mut trace.zone);
        let mut log = JobLog { first: trace.jobs.len(), ..JobLog::default() };
        for file in files {
            let head = file.head()?;
            if is_log(&head) {
                log.read(file, options, trace)?;
            } else if is_gpu_samples(&head) {
                read_gpu_samples(file, options, trace)?;
            } else {
                return Err(Error::format(
                    file.name(),
                    "neither Slurm's job table nor GPU samples",
                    "check the file's first line, or leave out --reader",
                ));
            }
        }
        log.settle(trace);
        Ok(())
    }
}

/// GPUs that a job reports, kept until all jobs are read.
#[derive(Debug)]
struct Evidence {
    /// GPUs in `gres_used`.
    used: Option<f64>,
    /// Numbers and amounts in `tres_alloc`, `None` if it is empty.
    tres: Option<Vec<(u32, f64)>>,
    nodes: Option<i64>,
}

impl Evidence {
    fn amount(&self, source: GpuSource) -> Option<f64> {
        let of = |wanted: &dyn Fn(u32) -> bool| {
            let tres = self.tres.as_ref()?;
            // An empty sum of reals is -0, hence not `sum`.
            Some(tres.iter().filter(|(id, _)| wanted(*id)).fold(0.0, |sum, (_, amount)| sum + amount))
        };
        match source {
            GpuSource::Id(gpu) => of(&|id| id == gpu),
            GpuSource::Published | GpuSource::Assumed => of(&|id| GPU_IDS.contains(&id)),
            GpuSource::AllSiteIds => of(&|id| id >= FIRST_SITE_ID),
        }
    }
}

/// Numbers of the GPUs in `tres_alloc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GpuSource {
    Id(u32),
    /// The published cluster's numbers, which agree with `gres_used`.
    Published,
    /// The published cluster's numbers, where `gres_used` says nothing.
    Assumed,
    AllSiteIds,
}

#[derive(Debug, Default)]
struct JobLog {
    /// The first job of this reader in the trace.
    first: usize,
    evidence: Vec<Evidence>,
    rows: BTreeSet<(String, Option<i64>, Option<i64>)>,
    times_seen: BTreeMap<String, u32>,
}

struct Columns {
    id: Option<usize>,
    array: Option<usize>,
    user: Option<usize>,
    account: Option<usize>,
    partition: Option<usize>,
    qos: Option<usize>,
    name: Option<usize>,
    submit: Option<usize>,
    eligible: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    limit: Option<usize>,
    nodes: Option<usize>,
    nodelist: Option<usize>,
    req_cpus: Option<usize>,
    tres: Option<usize>,
    gres: Option<usize>,
    state: Option<usize>,
    exit: Option<usize>,
}

impl JobLog {
    fn read(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut table = Delimited::open(file, b',', options.observer)?;
        let columns = Columns {
            id: Some(table.require("id_job")?),
            submit: Some(table.require("time_submit")?),
            start: Some(table.require("time_start")?),
            end: Some(table.require("time_end")?),
            tres: Some(table.require("tres_alloc")?),
            array: table.column("id_array_job"),
            user: table.column("id_user"),
            account: table.column("account"),
            partition: table.column("partition"),
            qos: table.column("id_qos"),
            name: table.column("name_job").or_else(|| table.column("job_name")),
            eligible: table.column("time_eligible"),
            limit: table.column("timelimit"),
            nodes: table.column("nodes_alloc"),
            nodelist: table.column("nodelist"),
            req_cpus: table.column("cpus_req"),
            gres: table.column("gres_used"),
            state: table.column("state_end").or_else(|| table.column("state")),
            exit: table.column("exit_code"),
        };
        while let Some(mut row) = table.next_row(&mut trace.ledger) {
            let Some(id) = row.text(columns.id) else {
                trace.ledger.quarantine(&row.audit, reason::NO_KEY, "id_job", row.raw());
                continue;
            };
            let Some(submit) = epoch(&mut row, columns.submit, "time_submit") else {
                trace.ledger.quarantine(&row.audit, reason::NO_SUBMIT, "time_submit", row.raw());
                continue;
            };
            let start = epoch(&mut row, columns.start, "time_start");
            if !self.rows.insert((id.to_owned(), Some(submit), start)) {
                trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "id_job", row.raw());
                continue;
            }
            let tres = row.text(columns.tres).map(|text| parse_tres(text, &mut row));
            let nodes = row.whole(columns.nodes, "nodes_alloc");
            let evidence = Evidence { used: gpus_in_gres(row.text(columns.gres)), tres, nodes };
            let mut job = columns.job(&mut row, &evidence);
            job.submit = Some(submit);
            job.start = start;
            // A requeued job has a row for each run; the later ones get a key of their own.
            let seen = self.times_seen.entry(id.to_owned()).and_modify(|seen| *seen += 1).or_insert(1);
            if *seen > 1 {
                job.job_key = Some(format!("{id}#{seen}").into());
                job.parent_job = Some(id.into());
            } else {
                job.job_key = Some(id.into());
            }
            if job.start.is_none() || evidence.nodes == Some(0) {
                forget_unstarted(&mut job);
            }
            check_job(&mut job, &mut row.audit);
            trace.jobs.push(job);
            self.evidence.push(evidence);
            trace.ledger.keep(row.audit);
        }
        table.finish(&mut trace.ledger);
        Ok(())
    }

    /// Decides where GPUs stand and writes them into the jobs.
    fn settle(&self, trace: &mut Trace) {
        if self.evidence.is_empty() {
            return;
        }
        let requeued: u32 = self.times_seen.values().map(|seen| seen - 1).sum();
        if requeued > 0 {
            trace.note(format!(
                "supercloud: {requeued} rows repeat a job id at another time (requeues); each is a job of its own here"
            ));
        }
        let source = gpu_source(&self.evidence);
        trace.note(match source {
            Some(GpuSource::Id(id)) => {
                format!("supercloud: GPUs are resource {id} of tres_alloc, as gres_used confirms")
            }
            Some(GpuSource::Published) => {
                "supercloud: GPUs are resources 1001 and 1002 of tres_alloc, as gres_used confirms".to_owned()
            }
            Some(GpuSource::Assumed) => "supercloud: GPUs are resources 1001 and 1002 of tres_alloc, as on the \
                                         published cluster; gres_used names none, so nothing in the file confirms it"
                .to_owned(),
            Some(GpuSource::AllSiteIds) => {
                "supercloud: GPUs are the site's own resources in tres_alloc together, as gres_used confirms".to_owned()
            }
            None => "supercloud: no resource number of tres_alloc agrees with gres_used, so GPUs are known only where \
                     gres_used names them"
                .to_owned(),
        });
        let mut any = false;
        for (ix, evidence) in (self.first..).zip(&self.evidence) {
            let gpus = source.and_then(|source| evidence.amount(source)).or(evidence.used);
            any |= gpus.is_some();
            trace.jobs.req_gpus.set(ix, gpus);
            trace.jobs.alloc_gpus.set(ix, gpus);
        }
        trace.counts_gpus = any;
    }
}

impl Columns {
    fn job<'r>(&self, row: &mut Record<'r>, evidence: &Evidence) -> JobRow<'r> {
        let code = row.whole(self.state, "state");
        let state = code.map_or(JobState::Unknown, |code| {
            state_of(code).unwrap_or_else(|| {
                row.audit.repair(reason::UNKNOWN_STATE, "state", &code.to_string());
                JobState::Unknown
            })
        });
        let end = epoch(row, self.end, "time_end");
        let unfinished = matches!(state, JobState::Running | JobState::Pending) && end.is_none();
        let limit_min = row.whole(self.limit, "timelimit").filter(|minutes| (1..NO_VALUE).contains(minutes));
        let cpus = evidence.tres.as_ref().and_then(|tres| tres.iter().find(|(id, _)| *id == 1)).map(|(_, cpus)| *cpus);
        let exit = row.whole(self.exit, "exit_code").filter(|code| (0..NO_VALUE).contains(code));
        JobRow {
            parent_job: row.text(self.array).filter(|id| *id != "0").map(Into::into),
            user: row.text(self.user).map(Into::into),
            account: row.text(self.account).map(Into::into),
            vc: row.text(self.partition).map(Into::into),
            qos: row.text(self.qos).map(Into::into),
            name: row.text(self.name).map(Into::into),
            state: Some(state.id().into()),
            reported_state: row.text(self.state).map(Into::into),
            eligible: epoch(row, self.eligible, "time_eligible"),
            end,
            censored: unfinished.then_some(true),
            req_cpus: row.amount(self.req_cpus, "cpus_req"),
            alloc_nodes: evidence.nodes,
            alloc_cpus: cpus,
            nodes_hostlist: row.text(self.nodelist).map(hostlist).filter(|nodes| !nodes.is_empty()).map(Into::into),
            time_limit_s: limit_min.map(|minutes| minutes as f64 * 60.0),
            // The high byte of a wait status is the exit code.
            exit_code: exit.map(|status| status >> 8),
            ..JobRow::default()
        }
    }
}

/// A time in epoch seconds; 0 is unset.
fn epoch(row: &mut Record<'_>, at: Option<usize>, name: &str) -> Option<i64> {
    row.moment(at, Moment::Seconds, name).filter(|ms| *ms != 0)
}

/// Slurm's job states by number; flags above the low byte are dropped.
fn state_of(code: i64) -> Option<JobState> {
    let state = match code & 0xff {
        0 => JobState::Pending,
        1 | 2 => JobState::Running,
        3 => JobState::Completed,
        4 => JobState::Cancelled,
        5 => JobState::Failed,
        6 | 10 => JobState::Timeout,
        7 | 9 => JobState::NodeFail,
        8 => JobState::Preempted,
        11 => JobState::OutOfMemory,
        _ => return None,
    };
    Some(state)
}

/// Reads `1=20,2=170000,4=1`; parts that are not so are noted.
fn parse_tres(text: &str, row: &mut Record<'_>) -> Vec<(u32, f64)> {
    let mut out = Vec::new();
    for part in text.trim_matches(['"', '\'']).split(',').filter(|part| !part.trim().is_empty()) {
        let pair = part.split_once('=').and_then(|(id, amount)| {
            let amount = amount.trim().parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
            Some((id.trim().parse::<u32>().ok()?, amount))
        });
        match pair {
            Some(pair) => out.push(pair),
            None => row.audit.repair(reason::NOT_A_NUMBER, "tres_alloc", part),
        }
    }
    out
}

/// GPUs in `gres_used` (`gpu:volta:2`, `gpu:2`, `gpu:tesla:1(IDX:0),craynetwork:1`): `None` if it names none.
fn gpus_in_gres(text: Option<&str>) -> Option<f64> {
    let mut sum = None;
    for part in text?.trim_matches(['"', '\'']).split(',') {
        let part = part.trim().trim_start_matches("gres/");
        let Some(rest) = part.strip_prefix("gpu").filter(|rest| rest.is_empty() || rest.starts_with(':')) else {
            continue;
        };
        let rest = rest.split('(').next().unwrap_or_default();
        let count = rest.rsplit(':').next().and_then(|count| count.parse::<u32>().ok());
        *sum.get_or_insert(0.0) += count.map_or(1.0, f64::from);
    }
    sum
}

/// Node names of `['a','b']` as `a,b`; other text as it is.
fn hostlist(text: &str) -> String {
    let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return text.to_owned();
    };
    inside.split(',').map(|name| name.trim().trim_matches(['\'', '"'])).collect::<Vec<_>>().join(",")
}

/// The resource that agrees with `gres_used` most often, if often enough; the published cluster's two win a tie, then a
/// site's own number.
fn gpu_source(evidence: &[Evidence]) -> Option<GpuSource> {
    let telling: Vec<(&Evidence, f64)> = evidence
        .iter()
        .filter(|one| one.tres.is_some())
        .filter_map(|one| one.used.filter(|used| *used > 0.0).map(|used| (one, used)))
        .collect();
    let published = |one: &Evidence| one.tres.iter().flatten().any(|(id, _)| GPU_IDS.contains(id));
    if telling.is_empty() {
        let silent = evidence.iter().all(|one| one.used.is_none());
        return (silent && evidence.iter().any(published)).then_some(GpuSource::Assumed);
    }
    // Both models are there, if not among the jobs that gres_used tells of: one number alone would miss the other.
    let both = GPU_IDS.iter().all(|gpu| evidence.iter().any(|one| one.tres.iter().flatten().any(|(id, _)| id == gpu)));
    let ids: BTreeSet<u32> = telling
        .iter()
        .flat_map(|(one, _)| one.tres.iter().flatten())
        .map(|(id, _)| *id)
        .filter(|id| *id == NODE_ID || *id >= FIRST_SITE_ID)
        .collect();
    let site = ids.iter().filter(|id| **id >= FIRST_SITE_ID).map(|id| GpuSource::Id(*id));
    let sum = ids.range(FIRST_SITE_ID..).nth(1).map(|_| GpuSource::AllSiteIds);
    let node = ids.contains(&NODE_ID).then_some(GpuSource::Id(NODE_ID));
    let mut best: Option<(usize, GpuSource)> = None;
    for source in both.then_some(GpuSource::Published).into_iter().chain(site).chain(sum).chain(node) {
        let same = |one: &Evidence, value: f64| one.amount(source).is_some_and(|amount| (amount - value).abs() < 1e-9);
        let agree = telling.iter().filter(|(one, used)| same(one, *used)).count();
        let could_be_nodes = source == GpuSource::Id(NODE_ID)
            && telling.iter().all(|(one, _)| one.nodes.is_none_or(|nodes| same(one, nodes as f64)));
        if could_be_nodes || (agree as f64) < AGREE * telling.len() as f64 {
            continue;
        }
        if best.is_none_or(|(most, _)| agree > most) {
            best = Some((agree, source));
        }
    }
    best.map(|(_, source)| source)
}

/// Reads the GPU samples of one job; the file's name begins with the job's id and may go on with the node's.
fn read_gpu_samples(file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
    let stem = file.stem();
    let (job, node) = job_and_node(&stem);
    let mut table = Delimited::open(file, b',', options.observer)?;
    let time_at = Some(table.require("timestamp")?);
    let gpu_at = Some(table.require("gpu_index")?);
    let util_at = Some(table.require("utilization_gpu_pct")?);
    let [mem_util_at, free_at, used_at, temp_at, power_at] =
        ["utilization_memory_pct", "memory_free_mib", "memory_used_mib", "temperature_gpu", "power_draw_w"]
            .map(|name| table.column(name));
    while let Some(mut row) = table.next_row(&mut trace.ledger) {
        let Some(ts) = row.moment(time_at, Moment::Seconds, "timestamp") else {
            trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "timestamp", row.raw());
            continue;
        };
        let util_ratio = row.percent(util_at, "utilization_gpu_pct");
        let mem_util_ratio = row.percent(mem_util_at, "utilization_memory_pct");
        let used = row.amount(used_at, "memory_used_MiB");
        let free = row.amount(free_at, "memory_free_MiB");
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: node.map(Into::into),
            gpu: row.text(gpu_at).map(Into::into),
            util_ratio,
            mem_util_ratio,
            mem_used_bytes: used.map(|mib| mib * MIB),
            mem_total_bytes: used.zip(free).map(|(used, free)| (used + free) * MIB),
            power_w: row.amount(power_at, "power_draw_W"),
            temp_c: row.number(temp_at, "temperature_gpu"),
            job_key: job.map(Into::into),
            ..GpuSampleRow::default()
        });
        trace.ledger.keep(row.audit);
    }
    table.finish(&mut trace.ledger);
    Ok(())
}

/// Job id and node of `4074251073298-r9189566-n911952.csv`.
fn job_and_node(stem: &str) -> (Option<&str>, Option<&str>) {
    let name = stem.strip_suffix(".csv").unwrap_or(stem);
    let (id, rest) = name.split_once('-').map_or((name, ""), |(id, rest)| (id, rest));
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    (is_id.then_some(id), Some(rest).filter(|rest| is_id && rest.starts_with('r')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job(used: Option<f64>, tres: &[(u32, f64)], nodes: i64) -> Evidence {
        Evidence { used, tres: Some(tres.to_vec()), nodes: Some(nodes) }
    }

    #[test]
    fn the_resource_that_agrees_with_gres_used_is_gpus() {
        // Two GPUs on one node: 4 is the nodes, 1002 the GPUs.
        let jobs = [job(Some(2.0), &[(1, 40.0), (4, 1.0), (1002, 2.0)], 1), job(None, &[(1, 8.0), (4, 2.0)], 2)];
        assert_eq!(gpu_source(&jobs), Some(GpuSource::Id(1002)));
        // Two models with a number each: only their sum agrees.
        let jobs = [job(Some(2.0), &[(4, 1.0), (1001, 2.0)], 1), job(Some(1.0), &[(4, 1.0), (1002, 1.0)], 1)];
        assert_eq!(gpu_source(&jobs), Some(GpuSource::Published));
        let jobs = [job(Some(2.0), &[(4, 1.0), (1005, 2.0)], 1), job(Some(1.0), &[(4, 1.0), (1006, 1.0)], 1)];
        assert_eq!(gpu_source(&jobs), Some(GpuSource::AllSiteIds));
        // gres_used tells of the first model only; the job of the second has a GPU all the same.
        let jobs = [job(Some(2.0), &[(1001, 2.0)], 1), job(None, &[(1002, 1.0)], 1)];
        assert_eq!(gpu_source(&jobs), Some(GpuSource::Published));
        // A site where 4 really is the GPUs: it differs from the nodes.
        let jobs = [job(Some(2.0), &[(4, 2.0)], 1), job(Some(1.0), &[(4, 1.0)], 1)];
        assert_eq!(gpu_source(&jobs), Some(GpuSource::Id(4)));
        // One GPU on one node each: 4 may as well be the nodes.
        assert_eq!(gpu_source(&[job(Some(1.0), &[(4, 1.0)], 1)]), None);
        // Nothing to test against: the published numbers, and never the nodes.
        assert_eq!(gpu_source(&[job(None, &[(4, 1.0), (1001, 1.0)], 1)]), Some(GpuSource::Assumed));
        assert_eq!(gpu_source(&[job(None, &[(4, 1.0), (1007, 1.0)], 1)]), None);
    }

    #[test]
    fn gres_texts_are_counted() {
        assert_eq!(gpus_in_gres(Some("gpu:volta:2")), Some(2.0));
        assert_eq!(gpus_in_gres(Some("gpu:1(IDX:0),gpu:tesla:3")), Some(4.0));
        assert_eq!(gpus_in_gres(Some("gpu")), Some(1.0));
        assert_eq!(gpus_in_gres(Some("gpumem:40,craynetwork:1")), None);
        assert_eq!(gpus_in_gres(None), None);
    }

    #[test]
    fn names_are_read() {
        assert_eq!(job_and_node("407-r9189566-n911952.csv"), (Some("407"), Some("r9189566-n911952")));
        assert_eq!(job_and_node("nvidia_smi.csv"), (None, None));
        assert_eq!(hostlist("['a-1', 'b-2']"), "a-1,b-2");
        assert_eq!(hostlist("n[01-02]"), "n[01-02]");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            gpus_in_gres(Some(&text));
            hostlist(&text);
            job_and_node(&text);
        }
    }
}
