//! The workload of a trace: which jobs are replayed, and what the scheduler is told of them.
//!
//! See [`super`] for what counts. O(n log n). Worked example: a window that begins at noon, a job that ran from 11:50 to 12:10 and one
//! submitted at 11:55 that started at 12:05: time 0 is noon, the first runs with 10 min left, the second waits since −5 min.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::{Capacity, JobFacts, MOST_LEFT_OUT};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::{Resource, Table};

use super::failure;
use super::host::{self, Hosts};
use super::kept::{Kept, NO_GPU, keep};
use super::limit::LimitFile;
use super::near::{self, TopologyRules};
use super::options::Options;
use super::quota::QuotaFile;
use super::recorded;
use super::site::{INFERRED, Site};
use crate::error::{Error, Result};
use tracecast_sim::cluster::{Cluster, Vc};
use tracecast_sim::policy::Scan;
use tracecast_sim::topology::Topology;
use tracecast_sim::workload::{Shape, UNKNOWN_USER, Warm, Workload};

/// VCs that are named in a note.
const LISTED: usize = 5;
/// VCs that are named where one of them was meant.
const MANY: usize = 20;

/// Share of the jobs, or of their time, from which a plan begins with what it leaves out.
const WORTH_A_CAUTION: f64 = 0.01;

/// Name that jobs without a VC are listed under.
const NO_VC: &str = "no VC";

/// Jobs that are left out, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// Why.
    pub reason: String,
    /// How many.
    pub jobs: usize,
    /// An example of such a job.
    pub example: String,
}

/// A workload with what it came from.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The jobs.
    pub workload: Workload,
    /// The resource that jobs compete for, which the workload and the cluster call GPUs.
    pub resource: Resource,
    /// The nodes.
    pub cluster: Cluster,
    /// The nodes as the trace has them, where `cluster` are others and the same VCs are known there: what the recorded policy had.
    pub recorded_cluster: Option<Cluster>,
    /// The part of the cluster that comes from files, such as `the nodes of site.toml`; `None` if
    /// all is the trace's.
    pub given: Option<String>,
    /// Row of each job in the trace.
    pub rows: Vec<u32>,
    /// Identifier of each job.
    pub keys: Vec<String>,
    /// When each job started on the real cluster, milliseconds from time 0.
    pub recorded_start_ms: Vec<Option<i64>>,
    /// Whether the topology requests are the jobs' own, and no rule's: the recorded policy had
    /// them, too.
    pub asked_themselves: bool,
    /// Jobs that are not replayed.
    pub excluded: Vec<Excluded>,
    /// Reasons not to trust a plan on these jobs, in words: jobs that held the cluster and are not
    /// replayed, nodes that nobody has checked.
    pub cautions: Vec<String>,
    /// Assumptions, in words.
    pub notes: Vec<String>,
    /// Assumptions about the nodes, which a plan that rests on them has to name.
    pub assumed: Vec<String>,
    /// Sentence that the sizes are of another time than the jobs; `None` where they are not. How
    /// many nodes there are is then not known, so that no plan may take any away.
    pub of_another_time: Option<String>,
}

impl Loaded {
    /// The nodes that the record was made on, as far as is known: the trace's own, else those that are replayed.
    pub fn nodes_of_record(&self) -> &Cluster {
        self.recorded_cluster.as_ref().unwrap_or(&self.cluster)
    }

    /// True if the record was made under what jobs ask of the topology: they asked themselves, on
    /// the nodes that are replayed.
    pub fn asks_in_record(&self) -> bool {
        self.asked_themselves && self.recorded_cluster.is_none()
    }

    /// Returns the sentence that says which figures are of the trace's nodes and which of other
    /// replayed ones, for answers that compare a replay with the record. `None` where they are the
    /// same.
    pub fn against_record(&self) -> Option<String> {
        self.recorded_cluster.as_ref()?;
        let given = self.given.as_deref().unwrap_or("other nodes");
        Some(format!(
            "How well the replay repeats what happened (jobs compared, their mean wait, starts met within a minute) is told of the recorded policy on the trace's own nodes. All other figures are of {given}."
        ))
    }
}

/// Jobs that ran on the cluster and are not replayed, as they have no VC there.
#[derive(Default)]
struct Placeless {
    jobs: u64,
    gpu_s: f64,
    /// By reason.
    why: BTreeMap<&'static str, u64>,
}

impl Placeless {
    fn count(&mut self, reason: &'static str, job: &Kept) {
        self.jobs += 1;
        self.gpu_s += gpu_s(job);
        *self.why.entry(reason).or_default() += 1;
    }

    /// Returns the sentence on the jobs left out, and whether a plan has to begin with it: they are
    /// a hundredth of the jobs or of the GPU time, or more.
    fn told(&self, kept: &[Kept], resource: Resource) -> Option<(bool, String)> {
        let kept_s: f64 = kept.iter().map(gpu_s).sum();
        let all = self.jobs + kept.len() as u64;
        let time = if self.gpu_s > 0.0 { self.gpu_s / (self.gpu_s + kept_s) } else { 0.0 };
        let many = time.max(self.jobs as f64 / all.max(1) as f64) >= WORTH_A_CAUTION;
        let why: Vec<String> =
            self.why.iter().map(|(reason, jobs)| format!("{reason} ({})", format::count(*jobs))).collect();
        (self.jobs > 0).then(|| {
            let (left, all) = (format::count(self.jobs), format::counted(all, "job", "jobs"));
            let (of, why) = (resource.many(), why.join(", "));
            let told = if time > MOST_LEFT_OUT {
                format!(
                    "**What follows is of {} of the time of {of} alone**: {left} of {all} are left out ({why}), as if they had held nothing. It says little of the whole cluster: find out first whether the jobs and the nodes are of one cluster.",
                    format::percent(1.0 - time)
                )
            } else {
                format!(
                    "**{left} of {all} are left out, with {} of the time of {of}**: {why}. What follows is of the others alone, as if these had held nothing.",
                    format::percent(time)
                )
            };
            (many, told)
        })
    }
}

/// Time of GPUs, or of what jobs compete for, that a job held.
fn gpu_s(job: &Kept) -> f64 {
    job.shape.as_gpus() * job.run_ms as f64 / 1000.0
}

#[derive(Default)]
struct Reasons(BTreeMap<&'static str, (usize, String)>);

impl Reasons {
    fn count(&mut self, reason: &'static str, key: &str) {
        let entry = self.0.entry(reason).or_insert_with(|| (0, key.to_owned()));
        entry.0 += 1;
    }

    fn jobs(&self, reason: &str) -> u64 {
        self.0.get(reason).map_or(0, |result| result.0 as u64)
    }
}

/// Makes the workload and the cluster of `trace`; the cluster is that of `site`, else the trace's own.
///
/// # Errors
/// If no job is left, or nothing says how large the cluster is.
pub fn load(trace: &Trace, site: Option<&Site>, options: &Options) -> Result<Loaded> {
    let facts = JobFacts::new(trace);
    let mut reasons = Reasons::default();
    let mut rounded = 0usize;
    let resource = options.resource.unwrap_or_else(|| Resource::of_jobs(&trace.jobs));
    // Who compares with the Helios simulator compares GPUs.
    let wanted = if options.whole_seconds && options.hosts == Hosts::Usual { Hosts::Ignored } else { options.hosts };
    let wanted = if resource == Resource::Gpus { wanted } else { Hosts::Ignored };
    let known_vcs = vcs_of(trace);
    // Under quotas the VCs of jobs are queues, and a file of nodes may name others. One VC takes jobs that name none, however few others name one.
    let some_unnamed = || (0..trace.jobs.len()).any(|row| trace.jobs.vc.get(row).is_none());
    let takes_them = |site: &Site| site.names(&[]).len() == 1 && some_unnamed();
    let names_vcs = options.quotas.is_none() && trace.jobs.vc.distinct() > 0;
    if let Some(site) = site.filter(|site| names_vcs && !takes_them(site)) {
        site.fits(&known_vcs)?;
    }
    let mut names = site.map_or_else(|| known_vcs.clone(), |site| site.names(&known_vcs));
    // Where all VCs share everything, a job of none competes like any other.
    let shared = resource != Resource::Gpus && site.is_none() && names.len() > 1;
    if shared && some_unnamed() {
        names.push(NO_VC.to_owned());
    }
    // VCs with nodes, and VCs that jobs may be of: under quotas of queues not the same.
    let with_nodes = names.clone();
    if let Some(quotas) = &options.quotas {
        names = quotas.names();
    }
    // A cluster of one VC takes jobs that name none, but where VCs are asked for by name.
    let nameless = match names.as_slice() {
        _ if options.vcs.is_some() => None,
        [only] => Some(only.clone()),
        [.., last] if shared && last == NO_VC => Some(NO_VC.to_owned()),
        _ => None,
    };
    // What a queue is called, and why a job of no VC that is there is left out.
    let (queue, no_place) = match options.quotas.as_ref().map(|quotas| quotas.scan()) {
        Some(Scan::Kai | Scan::Volcano) => {
            ("queue that runs jobs", "the VC is no queue of the quotas, or one above others")
        }
        Some(_) => ("ClusterQueue", "the VC is no ClusterQueue of the quotas"),
        None => ("VC", "the VC is not in the cluster"),
    };
    let is_unknown = |vc: &&String| !known_vcs.contains(vc) && !names.contains(vc);
    if let Some(unknown) = options.vcs.as_ref().and_then(|wanted| wanted.iter().find(is_unknown)) {
        let known = format::names(&known_vcs, MANY);
        return Err(Error::NoJobs(format!("no job is of the VC `{unknown}`; the VCs of the jobs are {known}")));
    }
    let mut kept: Vec<Kept> = Vec::new();
    let mut placeless = Placeless::default();
    let record_end_ms = facts.record_end.unwrap_or(i64::MIN);
    let cut_short = failure::cut_short(trace, record_end_ms);
    for row in 0..trace.jobs.len() {
        let key = trace.jobs.job_key.get(row).unwrap_or_default();
        let job = keep(&facts, row, (options, resource), cut_short.get(key).copied(), &mut rounded).and_then(|job| {
            let named = trace.jobs.vc.get(row).map(str::to_owned);
            // With no VC anywhere, and a file that names one, that is the cluster.
            let Some(vc) = named.or_else(|| nameless.clone()) else {
                placeless.count("the VC is unknown", &job);
                return Err("the VC is unknown");
            };
            if !names.contains(&vc) {
                placeless.count(no_place, &job);
                return Err(no_place);
            }
            if options.vcs.as_ref().is_some_and(|wanted| !wanted.contains(&vc)) {
                return Err("of another VC than asked for");
            }
            Ok(Kept { vc, ..job })
        });
        match job {
            Ok(job) => kept.push(job),
            Err(reason) => reasons.count(reason, key),
        }
    }
    kept.sort_by_key(|job| job.submit_ms);
    let Some(first) = kept.first().map(|job| job.submit_ms) else {
        return Err(Error::NoJobs(format!("no job is left to replay: {}", in_words(&reasons))));
    };
    let without: Vec<&str> = match &options.quotas {
        Some(_) => known_vcs.iter().filter(|vc| !names.contains(vc)).map(String::as_str).take(LISTED).collect(),
        None => Vec::new(),
    };
    // Time 0.
    let there_before = options.from_ms.filter(|from| first < *from);
    let origin_ms = there_before.unwrap_or(if options.whole_seconds { first.div_euclid(1000) * 1000 } else { first });
    let horizon_ms = kept.iter().map(|job| job.submit_ms.saturating_add(job.run_ms)).max().unwrap_or(0) - origin_ms;
    let ground = Ground { trace, site, options, resource, names: &with_nodes, origin_ms, horizon_ms };
    let (mut cluster, mut notes) = ground.cluster(&kept, wanted != Hosts::Ignored)?;
    let index: BTreeMap<&str, u16> = (0u16..).zip(&cluster.vcs).map(|(at, vc)| (vc.name.as_str(), at)).collect();
    let of_none = if site.is_none() { recorded::without_gpus(trace) } else { BTreeSet::new() };
    kept.retain(|job| {
        let known = index.contains_key(job.vc.as_str());
        if !known {
            let is_none = of_none.contains(job.vc.as_str());
            let reason = if is_none { "the VC has 0 GPUs in the record" } else { "the size of the VC is unknown" };
            placeless.count(reason, job);
            reasons.count(reason, trace.jobs.job_key.get(job.row as usize).unwrap_or_default());
        }
        known
    });
    if kept.is_empty() {
        return Err(Error::NoJobs(format!("no job is left to replay: {}", in_words(&reasons))));
    }
    let vc = |job: &Kept| index.get(job.vc.as_str()).copied().unwrap_or(0);
    let asking = |job: &Kept| host::Asking { row: job.row as usize, vc: vc(job), shape: job.shape };
    let mut asking: Vec<host::Asking> = kept.iter().map(asking).collect();
    let mut recorded_cluster = ground.own(&cluster, &kept, wanted != Hosts::Ignored)?;
    let nodes = host::Nodes { cluster: &cluster, own: recorded_cluster.as_ref(), of_file: site.is_some() };
    let mut of_hosts = Vec::new();
    let decide = host::settle(trace, &mut asking, nodes, wanted, &mut of_hosts);
    let has_hosts = cluster.has_hosts() || recorded_cluster.as_ref().is_some_and(Cluster::has_hosts);
    if has_hosts && !decide {
        // The nodes of GPUs alone, numbered as these are.
        (cluster, notes) = ground.cluster(&kept, false)?;
        recorded_cluster = ground.own(&cluster, &kept, false)?;
    }
    for (job, of) in kept.iter_mut().zip(asking) {
        job.shape = of.shape;
    }
    if !without.is_empty() {
        notes.insert(
            0,
            format!(
                "**No {queue} is called {}**: {} of these VCs are left out, so that waits are of the others alone. Letters in either case differ.",
                without.join(", "),
                format::counted(reasons.jobs(no_place), "job", "jobs")
            ),
        );
    }
    if let (Some(_), Some(wanted)) = (&options.quotas, &options.vcs) {
        notes.insert(
            0,
            format!(
                "**Only jobs of {} are replayed, on the nodes of all queues**: the jobs of the others take none of them, so waits are shorter than they were.",
                wanted.join(", ")
            ),
        );
    }
    if options.whole_seconds {
        notes.push("Times are cut to whole seconds, and nothing runs or waits at the beginning.".to_owned());
    }
    if options.gangs_as_recorded {
        notes.push("Jobs get as many nodes as they had, where that is recorded.".to_owned());
    }
    if rounded > 0 {
        let ask = format::counted(rounded as u64, "job asks", "jobs ask");
        notes.push(format!("{ask} for more than one GPU but no whole number; they get the next whole one."));
    }
    notes.extend(of_hosts);
    if decide && reasons.jobs(NO_GPU) > 0 {
        let jobs = format::counted(reasons.jobs(NO_GPU), "job without a GPU is", "jobs without a GPU are");
        notes.push(format!("{jobs} not replayed, so that what these held of nodes with GPUs counts as free."));
    }
    if resource != Resource::Gpus {
        notes.insert(0, format!("Jobs compete for {} here; --resource says otherwise.", resource.many()));
    }
    let unfinished = kept.iter().filter(|job| job.unfinished).count();
    if unfinished > 0 {
        let ran = format::counted(unfinished as u64, "job", "jobs");
        notes.push(format!(
            "Still running when the record was taken: {ran}, held in the replay for as long as is known and not counted."
        ));
    }
    let mut cautions: Vec<String> = Vec::new();
    match placeless.told(&kept, resource) {
        Some((true, told)) => cautions.push(told),
        Some((false, told)) => notes.push(told),
        None => (),
    }
    // Of a plan the sizes are the ground, so it begins with what is wrong with them; elsewhere a note says so.
    let is_recorded = site.is_none() && resource == Resource::Gpus;
    let of_another_time = Some(trace).filter(|_| is_recorded).and_then(Capacity::of_another_time);
    cautions.extend(of_another_time.clone());
    let assumed = Some(trace).filter(|_| is_recorded).and_then(recorded::gpus_assumed);
    let assumed: Vec<String> = assumed.map(|assumed| format!("{assumed} --site says otherwise.")).into_iter().collect();
    notes.extend(assumed.iter().cloned());
    cautions.extend(site.filter(|site| site.is_inferred()).map(|site| {
        format!(
            "**The nodes of {0} are a guess**: its head says that they were inferred from the jobs, so what is said of nodes and waits is of the guess. Correct them, and take the word {INFERRED} out of the file.",
            site.file()
        )
    }));
    notes.retain(|note| !cautions.contains(note));
    let nodes = site.map(|site| format!("the nodes of {}", site.file()));
    let quotas = options.quotas.as_ref().map(|_| "the quotas of a file".to_owned());
    let given: Vec<String> = [nodes, quotas].into_iter().flatten().collect();
    let given = (!given.is_empty()).then(|| given.join(" and "));
    let mut loaded = Loaded {
        resource,
        cluster,
        recorded_cluster,
        given,
        notes,
        cautions,
        assumed,
        of_another_time,
        ..Loaded::default()
    };
    loaded.workload.origin_ms = origin_ms;
    fill(&mut loaded, trace, &facts, &kept, options, there_before);
    if let Some(quotas) = &options.quotas {
        prioritise(&mut loaded, trace, quotas);
    }
    // Under Kueue jobs are placed by the topology that all flavors of their queue name, whether they ask or not.
    let is_near = |vc: &Vc| options.quotas.as_ref().is_some_and(|quotas| quotas.is_near(&vc.name, resource));
    let implied: Vec<bool> = loaded.cluster.vcs.iter().map(is_near).collect();
    near(&mut loaded, trace, options.topology.as_deref(), &implied)?;
    if let Some(limits) = &options.limits {
        limit(&mut loaded, trace, limits)?;
    }
    loaded.excluded = reasons
        .0
        .into_iter()
        .map(|(reason, (jobs, example))| Excluded { reason: reason.to_owned(), jobs, example })
        .collect();
    Ok(loaded)
}

/// Sources of the nodes of a replay.
struct Ground<'a> {
    trace: &'a Trace,
    site: Option<&'a Site>,
    options: &'a Options,
    resource: Resource,
    /// VCs that may have nodes.
    names: &'a [String],
    origin_ms: i64,
    horizon_ms: i64,
}

impl Ground<'_> {
    /// The nodes that are replayed, with processors and memory if `hosts`, and what was assumed of them.
    fn cluster(&self, kept: &[Kept], hosts: bool) -> Result<(Cluster, Vec<String>)> {
        let (options, resource) = (self.options, self.resource);
        let (cluster, mut notes) = match self.site {
            Some(site) => {
                // A VC that the file names is there without a job, too: a team may come to use it.
                let named = if options.vcs.is_none() || !site.takes_all() { site.names(&[]) } else { Vec::new() };
                let has_jobs: BTreeSet<&str> = kept.iter().map(|job| job.vc.as_str()).collect();
                let is_there = |name: &&String| {
                    options.quotas.is_some() || named.contains(name) || has_jobs.contains(name.as_str())
                };
                let names: Vec<String> = self.names.iter().filter(is_there).cloned().collect();
                let mut cluster = site.build(&names, self.origin_ms, self.horizon_ms.saturating_mul(2))?;
                if !hosts {
                    host::forget(&mut cluster);
                }
                (cluster, vec![format!("The cluster is that of {}.", site.file())])
            }
            None => {
                let quotas = options.quotas.as_deref();
                let result = recorded::cluster(self.trace, self.names, self.origin_ms, resource, quotas, hosts)?;
                let Some(result) = result else { return Err(Error::ClusterNotRecorded(resource)) };
                let notes = [result.in_words()].into_iter().chain(Capacity::assumption(self.trace)).collect();
                (result.cluster, notes)
            }
        };
        let cluster = match &options.quotas {
            Some(quotas) => quotas.govern(&cluster, resource, self.origin_ms, &mut notes)?,
            None => cluster,
        };
        Ok((cluster, notes))
    }

    /// The trace's own nodes, where `cluster` are others.
    fn own(&self, cluster: &Cluster, kept: &[Kept], hosts: bool) -> Result<Option<Cluster>> {
        if self.site.is_none() && self.options.quotas.is_none() {
            return Ok(None);
        }
        let wants = |job: &Kept| self.trace.jobs.gpu_type.get(job.row as usize).map(str::to_owned);
        let wanted = kept.iter().filter_map(wants).any(|wanted| cluster.gpu_types.contains(&wanted));
        recorded::own(self.trace, cluster, self.origin_ms, self.resource, (wanted, hosts))
    }
}

/// Gives each job what it asks of the topology, by itself or by rules.
fn near(loaded: &mut Loaded, trace: &Trace, rules: Option<&TopologyRules>, implied: &[bool]) -> Result<()> {
    if rules.is_none_or(TopologyRules::is_none) {
        loaded.cluster.topology = loaded.cluster.topology.take().map(Topology::unfollowed);
    }
    let none = TopologyRules::none();
    let rules = rules.unwrap_or(&none);
    let of = |row: &u32| {
        let row = *row as usize;
        near::Said { topology: trace.jobs.topology.get(row), pods: trace.jobs.pods.get(row) }
    };
    let said: Vec<near::Said<'_>> = loaded.rows.iter().map(of).collect();
    let notes = near::ask(&mut loaded.workload, &loaded.cluster, rules, &said, implied)?;
    loaded.notes.extend(notes);
    loaded.asked_themselves = rules.is_as_recorded() && said.iter().any(|said| said.topology.is_some());
    Ok(())
}

/// Gives each job the priority of its class.
fn prioritise(loaded: &mut Loaded, trace: &Trace, quotas: &QuotaFile) {
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    let usual = quotas.usual_priority();
    loaded.notes.extend(quotas.users_unknown(&loaded.workload.users, loaded.resource));
    let of = |row: &u32| {
        let Some(class) = trace.jobs.qos.get(*row as usize) else { return usual };
        quotas.priority(class).unwrap_or_else(|| {
            unknown.insert(class.to_owned());
            usual
        })
    };
    loaded.workload.priority = loaded.rows.iter().map(of).collect();
    if quotas.ranks() && loaded.workload.priority.iter().all(|priority| *priority == usual) {
        loaded.notes.push(format!(
            "No job names a priority class that {} gives a value, so all have priority {usual}.",
            quotas.file()
        ));
    }
    if !unknown.is_empty() {
        let list: Vec<String> = unknown.into_iter().take(5).collect();
        loaded.notes.push(format!(
            "{} has no value for these priority classes of jobs, which count as {usual}: {}.",
            quotas.file(),
            list.join(", ")
        ));
    }
}

/// Puts the cluster under limits, and says which QOS each job has.
fn limit(loaded: &mut Loaded, trace: &Trace, file: &LimitFile) -> Result<()> {
    let mut assumed = Vec::new();
    loaded.cluster.limits = Some(file.govern(&loaded.cluster, loaded.resource, &mut assumed)?);
    let mut of_accounts = Vec::new();
    let workload = &loaded.workload;
    let charged = (0..).zip(&loaded.rows).map(|(job, row): (usize, &u32)| {
        let user = workload.user.get(job).and_then(|user| workload.users.get(*user as usize));
        let vc = workload.vc.get(job).and_then(|vc| loaded.cluster.vcs.get(usize::from(*vc)));
        let (user, vc) = (user.map_or("", String::as_str), vc.map_or("", |vc| vc.name.as_str()));
        (trace.jobs.account.get(*row as usize), user, vc)
    });
    if let Some((associations, of_jobs)) = file.charge(loaded.resource, charged, &mut of_accounts) {
        loaded.workload.association = of_jobs;
        let limits = loaded.cluster.limits.take().unwrap_or_default();
        loaded.cluster.limits = Some(limits.under(associations)?.accounted(file.accounting())?);
        let billed = (0..).zip(&loaded.rows).map(|(job, row): (usize, &u32)| {
            let vc = loaded.workload.vc.get(job).and_then(|vc| loaded.cluster.vcs.get(usize::from(*vc)));
            let row = *row as usize;
            let cpus = trace.jobs.alloc_cpus.get(row).or_else(|| trace.jobs.req_cpus.get(row));
            (vc.map_or("", |vc| vc.name.as_str()), loaded.workload.shape_of(job).as_gpus(), cpus)
        });
        loaded.workload.charge = file.bill(loaded.resource, billed, &mut of_accounts);
    }
    if let Some(before) = &mut loaded.recorded_cluster {
        // What was is held against these limits, too.
        before.limits.clone_from(&loaded.cluster.limits);
    }
    let (mut unknown, mut of_unknown, mut without) = (BTreeSet::new(), 0u64, 0u64);
    let mut of = |row: &u32| {
        let named = trace.jobs.qos.get(*row as usize).filter(|name| !name.is_empty());
        match file.qos_of(named) {
            Ok(result) => {
                without += u64::from(result.is_none());
                result
            }
            Err(()) => {
                of_unknown += 1;
                unknown.extend(named.map(str::to_owned));
                None
            }
        }
    };
    loaded.workload.qos = loaded.rows.iter().map(&mut of).collect();
    if without > 0 && file.has_qos() {
        let jobs = format::counted(without, "job names", "jobs name");
        assumed.push(format!(
            "{jobs} no QOS, so only the limits of partitions and accounts hold for these. Say which QOS they have in {}: DefaultQOS = \"NAME\" (without quotes, as the last line, in what sacctmgr prints).",
            file.file()
        ));
    }
    if of_unknown > 0 {
        let list: Vec<String> = unknown.into_iter().take(LISTED).collect();
        let jobs = format::counted(of_unknown, "job has a QOS", "jobs have a QOS");
        assumed.push(format!(
            "**{jobs} that {} does not describe**, and no limit of a QOS: {}.",
            file.file(),
            list.join(", ")
        ));
    }
    assumed.extend(of_accounts);
    let limited = loaded.workload.requested_ms.iter().filter(|limit| limit.is_none()).count() as u64;
    let walls = loaded.cluster.limits.as_ref().is_some_and(|limits| {
        limits.qos().iter().any(|qos| qos.wall_ms.is_some() || qos.group_time_milli.is_some())
            || limits.associations().iter().any(|of| of.wall_ms.is_some() || of.group_time_milli.is_some())
            || limits.partitions().iter().any(|of| of.wall_ms.is_some())
    });
    if walls && limited > 0 {
        let jobs = format::counted(limited, "job has no recorded time limit", "jobs have no recorded time limit");
        assumed.push(format!("{jobs}, and MaxWall, MaxTime and GrpTRESRunMins do not keep these from starting."));
    }
    let of_users = loaded.cluster.limits.as_ref().is_some_and(|limits| {
        limits.qos().iter().any(|qos| qos.user_milli.is_some() || qos.user_jobs.is_some())
            || limits.associations().iter().any(|of| of.jobs.is_some())
    });
    let nobody = loaded.rows.iter().filter(|row| trace.jobs.user.get(**row as usize).is_none()).count() as u64;
    if of_users && nobody > 0 {
        let jobs = format::counted(nobody, "job names", "jobs name");
        assumed.push(format!(
            "**{jobs} no user**, and those of a VC count as one user's under MaxTRESPU, MaxJobsPU and MaxJobs: what they wait for these limits says little."
        ));
    }
    loaded.notes.extend(assumed);
    Ok(())
}

/// Names of the VCs of jobs with GPUs, in order of name.
pub(super) fn vcs_of(trace: &Trace) -> Vec<String> {
    let mut names: Vec<String> =
        (0..trace.jobs.vc.distinct() as u32).filter_map(|code| trace.jobs.vc.name(code).map(str::to_owned)).collect();
    names.sort();
    if names.is_empty() {
        // A source without VCs is one.
        names.push("all".to_owned());
    }
    names
}

/// Fills the columns; `kept` is in order of submission.
fn fill(
    loaded: &mut Loaded,
    trace: &Trace,
    facts: &JobFacts<'_>,
    kept: &[Kept],
    options: &Options,
    there_before: Option<i64>,
) {
    let jobs = &trace.jobs;
    let index: BTreeMap<String, u16> =
        (0u16..).zip(&loaded.cluster.vcs).map(|(at, vc)| (vc.name.clone(), at)).collect();
    let workload = &mut loaded.workload;
    let origin_ms = workload.origin_ms;
    workload.gpu_types.clone_from(&loaded.cluster.gpu_types);
    let mut shapes: BTreeMap<Shape, u16> = BTreeMap::new();
    let mut users: BTreeMap<String, u32> = BTreeMap::new();
    let mut starts: Vec<(i64, u32)> = Vec::new();
    for job in kept {
        let row = job.row as usize;
        let mut shape = job.shape;
        let wanted = jobs.gpu_type.get(row);
        shape.gpu_type = workload.gpu_types.iter().position(|known| Some(known.as_str()) == wanted).map(|at| at as u16);
        let next = workload.shapes.len() as u16;
        let shape_at = *shapes.entry(shape).or_insert(next);
        if shape_at == next {
            workload.shapes.push(shape);
        }
        let user = jobs.user.get(row).map_or_else(|| format!("{UNKNOWN_USER}{}", job.vc), str::to_owned);
        let next = workload.users.len() as u32;
        let user_at = *users.entry(user).or_insert_with_key(|name| {
            workload.users.push(name.clone());
            next
        });
        let at = workload.len() as u32;
        let start = jobs.start.get(row);
        let mut run_ms = job.run_ms;
        if let (Some(from), Some(start)) = (there_before, start)
            && start < from
        {
            let last = facts.record_end.filter(|_| job.unfinished);
            let end = jobs.end.get(row).or(last).unwrap_or(from);
            run_ms = (end - from).max(0).min(run_ms.max(0));
            starts.push((start - origin_ms, at));
        }
        if job.unfinished {
            workload.unfinished.push(at);
        }
        workload.submit_ms.push(job.submit_ms - origin_ms);
        workload.run_ms.push(run_ms);
        workload
            .requested_ms
            .push(jobs.time_limit_s.get(row).filter(|s| (0.0..1e12).contains(s)).map(|s| (s * 1000.0) as i64));
        workload.predicted_s.push(None);
        workload.shape.push(shape_at);
        workload.vc.push(index.get(&job.vc).copied().unwrap_or(0));
        workload.user.push(user_at);
        loaded.rows.push(job.row);
        loaded.keys.push(jobs.job_key.get(row).unwrap_or_default().to_owned());
        loaded.recorded_start_ms.push(start.map(|start| start - origin_ms));
    }
    starts.sort_unstable();
    workload.warm = starts.into_iter().map(|(start_ms, job)| Warm { job, start_ms }).collect();
    if let Some(from) = options.from_ms {
        let ended = (0..jobs.len()).filter(|row| jobs.end.get(*row).is_some_and(|end| end < from));
        workload.history_gpu_s = ended.filter_map(|row| facts.gpu_s(row)).filter(|gpu_s| *gpu_s > 0.0).collect();
    }
}

fn in_words(reasons: &Reasons) -> String {
    if reasons.0.is_empty() {
        return "there are none".to_owned();
    }
    let list: Vec<String> = reasons
        .0
        .iter()
        .map(|(reason, (jobs, example))| {
            format!("{reason} ({}, such as {example})", format::counted(*jobs as u64, "job", "jobs"))
        })
        .collect();
    list.join("; ")
}
