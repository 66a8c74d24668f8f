//! Limits by QOS, account and partition as Slurm's administrators have them: a file of their own, or what `sacctmgr` and `scontrol` print.
//!
//! ```toml
//! DefaultQOS = "normal"            # of jobs that name none
//! EnforcePartLimits = "ALL"        # jobs over the MaxTime of a partition are rejected, and not held
//! PreemptMode = "requeue"          # of QOSs that do not say; needed where a QOS has Preempt
//! RequeueDelay = "2m"              # from the stop of a job to when it may start again; the default
//!
//! [[qos]]
//! Name = "high"
//! Priority = 1000
//! MaxTRESPU = "gres/gpu=16"
//! Preempt = "low"
//!
//! [[qos]]
//! Name = "low"
//! GrpTRES = "gres/gpu=64"
//! GrpJobs = 40
//! MaxWall = "1-00:00:00"
//! Flags = "DenyOnLimit"
//! PreemptExemptTime = "10m"
//!
//! [[partition]]
//! PartitionName = "gpu"
//! QOS = "part-gpu"                 # or limits as a QOS has them, of the partition alone
//! MaxTime = "2-00:00:00"
//! ```
//!
//! Accounts and the users in them are `[[account]]` and `[[association]]`: see [`account`]. How usage is accounted and decays: see [`priority`].
//!
//! Keys are those of Slurm, in any case. Instead of TOML the text may be that of `sacctmgr show qos -P`, `sacctmgr show assoc tree -P`, `scontrol show partition`, `scontrol show config`, lines `PartitionName=…` of `slurm.conf`, or these one
//! after another. Where `AccountingStorageEnforce` has no `limits`, Slurm holds no job for a limit of a QOS or an account, and neither does the replay. What is known of Slurm and not replayed is said in a note; what is unknown in TOML is an error. O(bytes).
//!
//! Worked number: `GrpTRES=cpu=64,gres/gpu=16` limits jobs that compete for GPUs to 16 of them, and jobs that compete for processors to 64.

mod account;
mod bill;
mod priority;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod text;
mod value;

use std::collections::BTreeSet;

use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use crate::error::{Error, Result};
use account::Accounts;
use bill::Billing;
use priority::Priority;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::limit::{Accounting, Limits, Partition, Qos, Stopped};
use value::Tres;

/// From the stop of a job to when Slurm lets it start again, unless the file says otherwise.
const REQUEUE_MS: i64 = 120_000;
/// Names that a note lists.
const LISTED: usize = 5;
/// Keys of a QOS that are replayed, in small letters; the names that Slurm has for the same stand beside each other.
const QOS_KEYS: [&[&str]; 18] = [
    &["name"],
    &["priority"],
    &["grptres"],
    &["grpjobs"],
    &["grptresrunmins"],
    &["grptresmins"],
    &["grpwall"],
    &["maxtrespa", "maxtresperaccount"],
    &["maxjobspa", "maxjobsperaccount"],
    &["maxtrespu", "maxtresperuser"],
    &["maxjobspu", "maxjobsperuser"],
    &["maxtres", "maxtrespj", "maxtresperjob"],
    &["maxwall", "maxwalldurationperjob"],
    &["flags"],
    &["preempt"],
    &["preemptmode"],
    &["gracetime"],
    &["preemptexempttime"],
];
/// Keys of a QOS that are known and not replayed.
const NOT_REPLAYED: [&str; 24] = [
    "grpjobsaccrue",
    "grpsubmit",
    "grpsubmitjobs",
    "limitfactor",
    "maxjobsaccruepa",
    "maxjobsaccrueperaccount",
    "maxjobsaccruepu",
    "maxjobsaccrueperuser",
    "maxsubmit",
    "maxsubmitpa",
    "maxsubmitpu",
    "maxsubmitjobspa",
    "maxsubmitjobspu",
    "maxsubmitjobsperaccount",
    "maxsubmitjobsperuser",
    "maxtresmins",
    "maxtresminsperjob",
    "maxtrespernode",
    "minprio",
    "minpriothreshold",
    "mintres",
    "mintresperjob",
    "usagefactor",
    "usagethres",
];
/// Keys that say nothing of limits.
const SAYS_NOTHING: [&str; 4] = ["description", "descr", "id", "rawusage"];
/// Words of `AccountingStorageEnforce` that have limits enforced.
const ENFORCED: [&str; 3] = ["limits", "safe", "all"];
/// Flags of a QOS that are replayed.
const FLAGS: [&str; 4] = ["denyonlimit", "nodecay", "overpartqos", "partitiontimelimit"];
/// Words of `AccountingStorageEnforce` that let a job start only if it may end within its limits.
const SAFE: [&str; 2] = ["safe", "all"];

/// A key with its value, and where it stands.
#[derive(Debug, Clone)]
struct Item {
    line: u64,
    key: String,
    value: String,
}

/// A QOS, partition, account or association as written.
#[derive(Debug, Clone, Default)]
struct Entry {
    line: u64,
    items: Vec<Item>,
    /// Blanks before the account, in the table of associations.
    indent: usize,
}

/// Entries of a text, before they are understood.
#[derive(Debug, Clone, Default)]
struct Written {
    globals: Vec<Item>,
    qos: Vec<Entry>,
    partitions: Vec<Entry>,
    accounts: Vec<Entry>,
    associations: Vec<Entry>,
    /// Whether an unknown key is a mistake, and not the column of a later Slurm.
    strict: bool,
}

/// A QOS, with its amounts of everything jobs may compete for.
#[derive(Debug, Clone, Default)]
struct Rules {
    qos: Qos,
    group: Tres,
    group_time: Tres,
    used: Tres,
    account: Tres,
    user: Tres,
    job: Tres,
    /// Names of QOSs whose jobs its jobs stop.
    preempts: Vec<String>,
    line: u64,
    /// Preemption mode of the QOS itself, and not of the cluster.
    stopped: Option<Stopped>,
    exempt_ms: Option<i64>,
}

/// A partition.
#[derive(Debug, Clone, Default)]
struct PartitionEntry {
    name: String,
    line: u64,
    qos: Option<String>,
    /// Limits of its own.
    own: Option<Box<Rules>>,
    wall_ms: Option<i64>,
    billing: Option<Billing>,
}

/// A checked file of limits.
#[derive(Debug, Clone, Default)]
pub struct LimitFile {
    file: String,
    qos: Vec<Rules>,
    partitions: Vec<PartitionEntry>,
    accounts: Accounts,
    priority: Priority,
    /// Value of `AccountingStorageEnforce`, where that leaves the limits out.
    unenforced: Option<String>,
    default_qos: Option<u16>,
    deny_partition: bool,
    requeue_ms: i64,
    /// A mode for all that is not replayed, which matters only where a QOS is preempted: line, and what is wrong.
    mode_refused: Option<(u64, String)>,
    notes: Vec<String>,
}

impl LimitFile {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let written = text::read(file, text)?;
        let mut result = Self { file: file.to_owned(), requeue_ms: REQUEUE_MS, ..Self::default() };
        let mut unheeded: BTreeSet<String> = BTreeSet::new();
        for entry in &written.qos {
            let rules = result.rules(entry, "QOS", "name", written.strict, &mut unheeded)?;
            if result.qos.iter().any(|known| known.qos.name == rules.qos.name) {
                return Err(result.wrong(entry.line, format!("the QOS {} is there twice", rules.qos.name)));
            }
            result.qos.push(rules);
        }
        for entry in &written.partitions {
            result.partition(entry, written.strict, &mut unheeded)?;
        }
        result.accounts = Accounts::read(&result, &written, &mut unheeded)?;
        result.global(&written.globals)?;
        unheeded.extend(std::mem::take(&mut result.priority.unheeded));
        result.preemption()?;
        if result.qos.is_empty() && result.partitions.is_empty() && result.accounts.is_empty() {
            let what = "there is no [[qos]], no [[account]] and no [[partition]]; write them, or export with `sacctmgr show qos -P`, `sacctmgr show assoc tree -P` and `scontrol show partition`";
            return Err(result.wrong(1, what.to_owned()));
        }
        for partition in &result.partitions {
            if let Some(qos) = partition.qos.as_ref().filter(|name| result.index(name).is_none()) {
                let name = &partition.name;
                return Err(result.wrong(
                    partition.line,
                    format!("partition {name} has the QOS {qos}, which the file does not describe"),
                ));
            }
        }
        if !unheeded.is_empty() {
            let list: Vec<String> = unheeded.into_iter().collect();
            result.notes.push(format!("Not replayed of {file}: {}.", list.join(", ")));
        }
        Ok(result)
    }

    fn wrong(&self, line: u64, what: String) -> Error {
        Error::File { file: self.file.clone(), line, what }
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Whether it has QOSs.
    pub(super) fn has_qos(&self) -> bool {
        !self.qos.is_empty()
    }

    fn index(&self, name: &str) -> Option<u16> {
        self.qos.iter().position(|known| known.qos.name == name).and_then(|at| u16::try_from(at).ok())
    }

    /// The QOS of a job that names one, or none; `Err` if the file does not describe the one it names.
    pub(super) fn qos_of(&self, named: Option<&str>) -> std::result::Result<Option<u16>, ()> {
        match named {
            None => Ok(self.default_qos),
            Some(name) => self.index(name).map(Some).ok_or(()),
        }
    }

    /// Resolves who stops whom.
    fn preemption(&mut self) -> Result<()> {
        for at in 0..self.qos.len() {
            let (line, name) = (self.qos[at].line, self.qos[at].qos.name.clone());
            let mut preempts = Vec::new();
            for other in &self.qos[at].preempts {
                let Some(index) = self.index(other) else {
                    return Err(
                        self.wrong(line, format!("QOS {name} has Preempt={other}, which the file does not describe"))
                    );
                };
                preempts.push(index);
            }
            self.qos[at].qos.preempts = preempts;
        }
        let stops: Vec<usize> =
            self.qos.iter().flat_map(|rules| &rules.qos.preempts).map(|other| usize::from(*other)).collect();
        for at in stops {
            let rules = &self.qos[at];
            match rules.stopped {
                Some(stopped) => self.qos[at].qos.stopped = stopped,
                None => {
                    if let Some((line, what)) = &self.mode_refused {
                        return Err(self.wrong(*line, what.clone()));
                    }
                    let name = &rules.qos.name;
                    let what = format!(
                        "QOS {name} is preempted by another; give it a PreemptMode (requeue or cancel), or one to the whole file"
                    );
                    return Err(self.wrong(rules.line, what));
                }
            }
        }
        let qos = self.qos.iter().map(|rules| rules.qos.clone()).collect();
        Limits::new(qos, Vec::new()).map(|_| ()).map_err(|error| self.wrong(1, error.to_string()))
    }

    fn global(&mut self, items: &[Item]) -> Result<()> {
        for Item { line, key, value } in items {
            match key.to_ascii_lowercase().as_str() {
                "defaultqos" => match self.index(value) {
                    Some(at) => self.default_qos = Some(at),
                    None => {
                        return Err(
                            self.wrong(*line, format!("DefaultQOS is {value}, which the file does not describe"))
                        );
                    }
                },
                "defaultaccount" => {
                    if !self.accounts.set_default(value) {
                        let what = format!("DefaultAccount is {value}, which the file does not describe");
                        return Err(self.wrong(*line, what));
                    }
                }
                "accountingstorageenforce" => {
                    let small = value.to_ascii_lowercase();
                    let enforced = small.split(',').any(|word| ENFORCED.contains(&word.trim()));
                    self.unenforced = (!enforced).then(|| value.clone());
                    self.priority.accounting.safe = small.split(',').any(|word| SAFE.contains(&word.trim()));
                }
                "schedulerparameters" => {
                    if value.split(',').any(|word| word.trim().eq_ignore_ascii_case("assoc_limit_stop")) {
                        self.notes.push(format!(
                            "SchedulerParameters of {} has assoc_limit_stop, which is not replayed: a job over a limit lets others pass.",
                            self.file
                        ));
                    }
                }
                "enforcepartlimits" => match value.to_ascii_lowercase().as_str() {
                    "all" | "any" | "yes" => self.deny_partition = true,
                    "no" => self.deny_partition = false,
                    _ => {
                        return Err(
                            self.wrong(*line, format!("EnforcePartLimits is {value}; there are ALL, ANY and NO"))
                        );
                    }
                },
                "preemptmode" => {
                    let small = value.to_ascii_lowercase();
                    match value::mode(value) {
                        Ok(mode) => self.qos.iter_mut().for_each(|rules| rules.stopped = rules.stopped.or(mode)),
                        Err(what) if small.contains("suspend") || small.contains("gang") => {
                            self.mode_refused = Some((*line, what));
                        }
                        Err(what) => return Err(self.wrong(*line, what)),
                    }
                }
                "preemptexempttime" => {
                    let time = value::minutes(value).map_err(|what| self.wrong(*line, what))?;
                    let time = time.unwrap_or(0);
                    self.qos.iter_mut().for_each(|rules| rules.qos.exempt_ms = rules.exempt_ms.unwrap_or(time));
                }
                "preempttype" => {
                    if !value.eq_ignore_ascii_case("preempt/qos")
                        && self.qos.iter().any(|rules| !rules.preempts.is_empty())
                    {
                        self.qos.iter_mut().for_each(|rules| rules.preempts.clear());
                        self.notes
                            .push(format!("PreemptType is {value}, so no QOS of {} stops jobs of another.", self.file));
                    }
                }
                "requeuedelay" => {
                    let time = value::seconds(value).map_err(|what| self.wrong(*line, what))?;
                    self.requeue_ms = time.unwrap_or(0);
                }
                small => {
                    let taken = self.priority.take(small, value);
                    if taken.map_err(|what| self.wrong(*line, format!("{key}: {what}")))? {
                        continue;
                    }
                    let what = format!(
                        "there is no key `{key}` here; there are DefaultQOS, DefaultAccount, AccountingStorageEnforce, EnforcePartLimits, PreemptMode, PreemptExemptTime, RequeueDelay, the Priority… keys of slurm.conf, FairShareDampeningFactor, [[qos]], [[account]], [[association]] and [[partition]]"
                    );
                    return Err(self.wrong(*line, what));
                }
            }
        }
        Ok(())
    }

    /// The limits of an entry.
    fn rules(
        &self,
        entry: &Entry,
        what: &str,
        name_key: &str,
        strict: bool,
        unheeded: &mut BTreeSet<String>,
    ) -> Result<Rules> {
        let mut rules = Rules { line: entry.line, ..Rules::default() };
        for Item { line, key, value } in &entry.items {
            let wrong = |problem: String| self.wrong(*line, format!("{key}: {problem}"));
            let value = value.trim();
            let small = key.to_ascii_lowercase();
            if small == name_key {
                if value.is_empty() {
                    return Err(wrong("it is empty".to_owned()));
                }
                value.clone_into(&mut rules.qos.name);
                continue;
            }
            if value.is_empty() || SAYS_NOTHING.contains(&small.as_str()) {
                continue;
            }
            let tres = |unheeded: &mut BTreeSet<String>| Tres::parse(value, key, unheeded).map_err(wrong);
            match QOS_KEYS.iter().find(|known| known.contains(&small.as_str())).map(|known| known[0]) {
                Some("priority") => rules.qos.priority = value::whole(value).map_err(wrong)?.unwrap_or(0),
                Some("grptres") => rules.group = tres(unheeded)?,
                Some("grptresrunmins") => rules.group_time = tres(unheeded)?,
                Some("grptresmins") => rules.used = tres(unheeded)?,
                Some("grpwall") => rules.qos.used_wall_ms = value::minutes(value).map_err(wrong)?,
                Some("maxtrespa") => rules.account = tres(unheeded)?,
                Some("maxjobspa") => rules.qos.account_jobs = value::whole(value).map_err(wrong)?,
                Some("maxtrespu") => rules.user = tres(unheeded)?,
                Some("maxtres") => rules.job = tres(unheeded)?,
                Some("grpjobs") => rules.qos.group_jobs = value::whole(value).map_err(wrong)?,
                Some("maxjobspu") => rules.qos.user_jobs = value::whole(value).map_err(wrong)?,
                Some("maxwall") => rules.qos.wall_ms = value::minutes(value).map_err(wrong)?,
                Some("preempt") => {
                    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                    rules.preempts = names.map(str::to_owned).collect();
                }
                Some("preemptmode") => rules.stopped = value::mode(value).map_err(wrong)?,
                Some("gracetime") => rules.qos.grace_ms = value::seconds(value).map_err(wrong)?.unwrap_or(0),
                Some("preemptexempttime") => {
                    rules.exempt_ms = value::minutes(value).map_err(wrong)?;
                    rules.qos.exempt_ms = rules.exempt_ms.unwrap_or(0);
                }
                Some("flags") => {
                    for flag in value.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
                        match flag.to_ascii_lowercase().as_str() {
                            "denyonlimit" => rules.qos.deny = true,
                            "nodecay" => rules.qos.keeps_usage = true,
                            "overpartqos" => rules.qos.over_partition = true,
                            "partitiontimelimit" => rules.qos.over_partition_time = true,
                            _ if strict && !value::FLAGS_NOT_REPLAYED.contains(&flag.to_ascii_lowercase().as_str()) => {
                                return Err(wrong(format!(
                                    "there is no flag {flag}; replayed are {}",
                                    FLAGS.join(", ")
                                )));
                            }
                            _ => {
                                unheeded.insert(format!("the flag {flag}"));
                            }
                        }
                    }
                }
                _ if NOT_REPLAYED.contains(&small.as_str()) => {
                    if small != "usagefactor" || value.parse() != Ok(1.0) {
                        unheeded.insert(key.clone());
                    }
                }
                _ if strict => {
                    let known: Vec<&str> = QOS_KEYS.iter().map(|known| known[0]).collect();
                    return Err(wrong(format!("a {what} has no such key; replayed are {}", known.join(", "))));
                }
                _ => {
                    unheeded.insert(key.clone());
                }
            }
        }
        if rules.qos.name.is_empty() {
            return Err(self.wrong(entry.line, format!("a {what} has no {name_key}")));
        }
        Ok(rules)
    }

    fn partition(&mut self, entry: &Entry, strict: bool, unheeded: &mut BTreeSet<String>) -> Result<()> {
        let mut result = PartitionEntry { line: entry.line, ..PartitionEntry::default() };
        let mut rest = Entry { line: entry.line, ..Entry::default() };
        for item in &entry.items {
            match item.key.to_ascii_lowercase().as_str() {
                "qos" => result.qos = Some(item.value.clone()).filter(|name| !name.is_empty() && name != "N/A"),
                "maxtime" => {
                    let wall = value::minutes(&item.value);
                    result.wall_ms = wall.map_err(|what| self.wrong(item.line, format!("MaxTime: {what}")))?;
                }
                "tresbillingweights" => {
                    let billing = Billing::parse(&item.value, unheeded);
                    result.billing =
                        billing.map_err(|what| self.wrong(item.line, format!("TRESBillingWeights: {what}")))?;
                }
                // Of what Slurm says of a partition, all else is about nodes and access.
                "partitionname" | "name" => rest.items.push(Item { key: "partitionname".to_owned(), ..item.clone() }),
                _ if strict => rest.items.push(item.clone()),
                _ => {}
            }
        }
        let limited = rest.items.len() > 1;
        let is_of_jobs = |item: &&Item| {
            ["preempt", "preemptmode", "gracetime", "preemptexempttime", "priority"]
                .contains(&item.key.to_ascii_lowercase().as_str())
        };
        if let Some(item) = rest.items.iter().find(is_of_jobs) {
            return Err(
                self.wrong(item.line, format!("{}: it is of the QOS of a job, and not of a partition", item.key))
            );
        }
        let rules = self.rules(&rest, "partition", "partitionname", strict, unheeded)?;
        result.name.clone_from(&rules.qos.name);
        if self.partitions.iter().any(|known| known.name == result.name) {
            return Err(self.wrong(entry.line, format!("the partition {} is there twice", result.name)));
        }
        if limited {
            if result.qos.is_some() {
                let what = format!("partition {}: give it a QOS or limits of its own, not both", result.name);
                return Err(self.wrong(entry.line, what));
            }
            result.own = Some(Box::new(rules));
        }
        self.partitions.push(result);
        Ok(())
    }

    /// The limits of QOSs and partitions for the VCs of a cluster whose jobs compete for `resource`; what is assumed is added to `notes`. Those of accounts come with the jobs (`charge`).
    ///
    /// # Errors
    /// If there are too many QOSs.
    pub fn govern(&self, cluster: &Cluster, resource: Resource, notes: &mut Vec<String>) -> Result<Limits> {
        let unlimited = |of: &Qos| Qos {
            name: of.name.clone(),
            priority: of.priority,
            over_partition_time: of.over_partition_time,
            preempts: of.preempts.clone(),
            stopped: of.stopped,
            grace_ms: of.grace_ms,
            exempt_ms: of.exempt_ms,
            ..Qos::default()
        };
        let limited = |rules: &Rules| Qos {
            group_milli: rules.group.of(resource),
            group_time_milli: rules.group_time.of(resource),
            used_milli: rules.used.of(resource),
            account_milli: rules.account.of(resource),
            user_milli: rules.user.of(resource),
            job_milli: rules.job.of(resource),
            ..rules.qos.clone()
        };
        let amounts = |rules: &Rules| if self.unenforced.is_some() { unlimited(&rules.qos) } else { limited(rules) };
        let mut qos: Vec<Qos> = self.qos.iter().map(amounts).collect();
        let mut partitions = vec![Partition::default(); cluster.vcs.len()];
        let mut strangers = Vec::new();
        for entry in &self.partitions {
            let Some(at) = cluster.vcs.iter().position(|vc| vc.name == entry.name) else {
                strangers.push(entry.name.as_str());
                continue;
            };
            let own = entry.own.as_deref().map(|own| {
                let own = amounts(own);
                qos.push(Qos { name: format!("partition {}", entry.name), ..own });
                qos.len() - 1
            });
            let named = entry.qos.as_ref().and_then(|name| self.index(name));
            let whose = named.or(own.and_then(|at| u16::try_from(at).ok()));
            partitions[at] = Partition { qos: whose, wall_ms: entry.wall_ms, deny: self.deny_partition };
        }
        notes.push(format!("Limits by QOS, account and partition are those of {}.", self.file));
        if let Some(value) = &self.unenforced {
            notes.push(format!(
                "**AccountingStorageEnforce of {} is {value}, without limits**: Slurm holds no job for a limit of a QOS or an account then, and neither does the replay.",
                self.file
            ));
        }
        notes.extend(self.notes.iter().cloned());
        if !strangers.is_empty() {
            let named = format::names(&strangers, LISTED);
            notes.push(format!("No job is of these partitions of {}: {named}.", self.file));
        }
        let spends = |of: &Qos| of.used_milli.is_some() || of.used_wall_ms.is_some();
        if qos.iter().any(spends) || self.spends_by_account() {
            notes.push(self.note_of_usage());
        }
        notes.extend(self.priority.told(&self.file));
        Ok(Limits::new(qos, partitions)?.of(resource).requeued_after(self.requeue_ms).accounted(self.accounting())?)
    }

    /// Returns how usage is accounted.
    pub(super) fn accounting(&self) -> Accounting {
        let charges_ends = self.unenforced.is_none();
        Accounting { weights: self.priority.weights(), charges_ends, ..self.priority.accounting }
    }

    /// Whether accounts have limits of what was used, which Slurm enforces.
    fn spends_by_account(&self) -> bool {
        self.unenforced.is_none() && self.accounts.spend()
    }

    fn note_of_usage(&self) -> String {
        let killed = if self.priority.accounting.safe {
            ""
        } else {
            " Jobs that run when a limit is reached run on; Slurm stops them, as AccountingStorageEnforce has no `safe`."
        };
        format!(
            "GrpTRESMins and GrpWall of {}: what was used before the replay begins is taken for 0.{killed}",
            self.file
        )
    }
}
