//! Accounts and the users in them, from TOML or from what `sacctmgr show assoc` prints, and whom each job is charged to.
//!
//! ```toml
//! DefaultAccount = "nlp"           # of jobs that name none
//!
//! [[account]]
//! Name = "dept"                    # below root, which need not be there
//! GrpTRES = "gres/gpu=64"          # all jobs of dept and of the accounts below it
//!
//! [[account]]
//! Name = "nlp"
//! Parent = "dept"
//! GrpJobs = 40
//! MaxJobs = 8                      # of each user, unless the user's own association says otherwise
//!
//! [[association]]
//! Account = "nlp"
//! User = "ada"
//! Partition = "gpu"                # for jobs in this partition alone; left out: in all
//! MaxTRESPerJob = "gres/gpu=4"
//! MaxWall = "1-00:00:00"
//! ```
//!
//! An account or association may have a `Fairshare` (also called Share): its shares beside those of its siblings, 1 if it is left out, or `parent`; and `GrpTRESMins` and `GrpWall`. These go with how usage decays: see [`priority`](super::priority).
//!
//! A user without an association of the own gets one without limits, so that `MaxJobs` counts each user alone. A limit of -1 is none, and that of the account above holds, as in Slurm. O(rows × depth).
//!
//! Worked number: `sacctmgr show assoc tree -P` prints ` dept`, then `  nlp`: two blanks are one level below one, so nlp is below dept; where there is a column `ParentName`, that counts.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use super::value::{self, Tres};
use super::{Entry, Item, LISTED, LimitFile, Written};
use crate::error::Result;
use tracecast_sim::limit::{Association, Fairshare};

/// The account above all.
const ROOT: &str = "root";
/// How to export what says which account is below which.
const EXPORT: &str = "export with `sacctmgr show assoc tree format=cluster,account,parentname,user,partition,share,grpjobs,grptres,grptresmins,grptresrunmins,grpwall,maxjobs,maxtres,maxwall -P`";
/// Keys that are replayed, in small letters; names for the same stand beside each other.
const KEYS: [&[&str]; 14] = [
    &["name", "account"],
    &["parent", "parentname", "par name"],
    &["user"],
    &["partition"],
    &["cluster"],
    &["grptres"],
    &["grpjobs"],
    &["grptresrunmins"],
    &["grptresmins"],
    &["grpwall"],
    &["fairshare", "share"],
    &["maxjobs"],
    &["maxtres", "maxtrespj", "maxtresperjob"],
    &["maxwall", "maxwalldurationperjob"],
];
/// Keys that are known and not replayed.
const NOT_REPLAYED: [&str; 13] = [
    "grpjobsaccrue",
    "grpsubmit",
    "grpsubmitjobs",
    "maxjobsaccrue",
    "maxsubmit",
    "maxsubmitjobs",
    "maxtresmins",
    "maxtresminsperjob",
    "maxtrespernode",
    "maxtrespn",
    "minpriothresh",
    "minpriothreshold",
    "priority",
];
/// Keys that say nothing of limits.
const SAYS_NOTHING: [&str; 15] = [
    "qos",
    "qoslevel",
    "def qos",
    "defaultqos",
    "description",
    "descr",
    "organization",
    "org",
    "comment",
    "id",
    "lft",
    "rgt",
    "parentid",
    "lineage",
    "flags",
];

/// An account or a user in one, with amounts of everything jobs may compete for.
#[derive(Debug, Clone, Default)]
struct Limited {
    association: Association,
    group: Tres,
    group_time: Tres,
    used: Tres,
    job: Tres,
}

/// Names and limits of a row.
#[derive(Debug, Clone, Default)]
struct Row {
    line: u64,
    account: String,
    /// `None` without such a key or column, which is not the same as an empty one.
    parent: Option<String>,
    user: String,
    partition: String,
    cluster: String,
    indent: usize,
    limited: Limited,
}

/// Accounts and associations of a file, each behind the one above it.
#[derive(Debug, Clone, Default)]
pub(super) struct Accounts {
    all: Vec<Limited>,
    by_name: BTreeMap<String, u32>,
    /// By account, user and partition; without a partition: of all others.
    by_user: BTreeMap<(u32, String, Option<String>), u32>,
    /// Account of jobs that name none.
    default: Option<String>,
    /// Whether Slurm printed them, so that every user who may submit is there.
    is_printed: bool,
}

impl Accounts {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The account of jobs that name none; whether it is known.
    pub(super) fn set_default(&mut self, name: &str) -> bool {
        self.default = Some(name.to_owned());
        self.by_name.contains_key(name)
    }

    /// Reads the accounts and associations of a file.
    pub(super) fn read(file: &LimitFile, written: &Written, unheeded: &mut BTreeSet<String>) -> Result<Self> {
        let mut result = Self { is_printed: !written.strict, ..Self::default() };
        if written.accounts.is_empty() && written.associations.is_empty() {
            return Ok(result);
        }
        let row = |entry: &Entry, unheeded: &mut BTreeSet<String>| row(file, entry, written.strict, unheeded);
        let accounts = written.accounts.iter().map(|entry| row(entry, unheeded)).collect::<Result<Vec<_>>>()?;
        let users = written.associations.iter().map(|entry| row(entry, unheeded)).collect::<Result<Vec<_>>>()?;
        if written.strict {
            // A limit of one user is not to bind all, nor an association to move its account.
            let of_users = accounts.iter().find(|row| !row.user.is_empty() || !row.partition.is_empty());
            if let Some(row) = of_users {
                let what =
                    "an [[account]] has no User and no Partition; write an [[association]] with Account and User";
                return Err(file.wrong(row.line, what.to_owned()));
            }
            if let Some(row) = users.iter().find(|row| row.parent.is_some()) {
                let what = "an [[association]] has no Parent; write it into the [[account]]";
                return Err(file.wrong(row.line, what.to_owned()));
            }
        }
        let mut clusters = accounts.iter().chain(&users).map(|row| (row.line, &row.cluster));
        if let Some((_, first)) = clusters.next()
            && let Some((line, other)) = clusters.find(|(_, other)| *other != first)
        {
            let what = format!(
                "associations of the clusters {first} and {other}; export those of one, with `cluster={first}` behind `show assoc`"
            );
            return Err(file.wrong(line, what));
        }
        result.add_accounts(file, &accounts, written.strict)?;
        for row in users {
            result.add_user(file, row)?;
        }
        Ok(result)
    }

    fn add_accounts(&mut self, file: &LimitFile, rows: &[Row], strict: bool) -> Result<()> {
        let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
        for row in rows {
            if lines.insert(&row.account, row.line).is_some() {
                return Err(file.wrong(row.line, format!("the account {} is there twice", row.account)));
            }
        }
        let indented = rows.iter().any(|row| row.indent > 0);
        let mut parents: Vec<Option<String>> = Vec::with_capacity(rows.len());
        // Accounts that the next may be below, by indent.
        let mut open: Vec<(usize, &str)> = Vec::new();
        for row in rows {
            let given = row.parent.as_deref().filter(|parent| !parent.is_empty());
            while open.last().is_some_and(|(indent, _)| *indent >= row.indent) {
                open.pop();
            }
            let parent = match given {
                Some(_) if row.account == ROOT => {
                    return Err(file.wrong(row.line, "root is above all accounts; leave out its parent".to_owned()));
                }
                Some(parent) if parent != ROOT && !lines.contains_key(parent) => {
                    let what = format!(
                        "the account {} is below {parent}, which the file does not describe; add it, or correct the name",
                        row.account
                    );
                    return Err(file.wrong(row.line, what));
                }
                Some(parent) => Some(parent.to_owned()),
                None if row.account == ROOT => None,
                None if indented && row.parent.is_none() => {
                    Some(open.last().map_or_else(|| ROOT.to_owned(), |(_, name)| (*name).to_owned()))
                }
                None if !strict && row.parent.is_none() => {
                    let what = format!(
                        "nothing says which account {} is below: no `tree`, no ParentName; {EXPORT}",
                        row.account
                    );
                    return Err(file.wrong(row.line, what));
                }
                None => Some(ROOT.to_owned()),
            };
            open.push((row.indent, &row.account));
            parents.push(parent);
        }
        let mut waiting: Vec<(Row, Option<String>)> = rows.iter().cloned().zip(parents).collect();
        if !lines.contains_key(ROOT) {
            let root = Row { account: ROOT.to_owned(), ..Row::default() };
            waiting.insert(0, (root, None));
        }
        // Each behind the one above it, as written otherwise.
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut rest = Vec::new();
            for (row, parent) in waiting {
                let above = parent.as_ref().map(|parent| self.by_name.get(parent).copied());
                match above {
                    Some(None) => rest.push((row, parent)),
                    known => {
                        let name = row.account.clone();
                        let at = self.push(row.limited, name.clone(), known.flatten());
                        self.by_name.insert(name, at);
                    }
                }
            }
            if rest.len() == before {
                let names: Vec<&str> = rest.iter().take(LISTED).map(|(row, _)| row.account.as_str()).collect();
                let line = rest.first().map_or(1, |(row, _)| row.line);
                let what =
                    format!("accounts are below each other in a ring: {}; correct the parent of one", names.join(", "));
                return Err(file.wrong(line, what));
            }
            waiting = rest;
        }
        Ok(())
    }

    fn add_user(&mut self, file: &LimitFile, row: Row) -> Result<()> {
        let Row { line, account, user, partition, limited, .. } = row;
        if user.is_empty() {
            return Err(file.wrong(line, format!("an association of account {account} has no User")));
        }
        let Some(above) = self.by_name.get(&account).copied() else {
            let what = format!(
                "{user} is a user of the account {account}, which the file does not describe; add it, or correct the name"
            );
            return Err(file.wrong(line, what));
        };
        let partition = Some(partition).filter(|name| !name.is_empty());
        let key = (above, user, partition);
        if self.by_user.contains_key(&key) {
            let what = format!("the association of {} in {account} is there twice", key.1);
            return Err(file.wrong(line, what));
        }
        let name = match &key.2 {
            Some(partition) => format!("{account}/{}/{partition}", key.1),
            None => format!("{account}/{}", key.1),
        };
        let at = self.push_user(limited, name, above);
        self.by_user.insert(key, at);
        Ok(())
    }

    fn push(&mut self, mut limited: Limited, name: String, parent: Option<u32>) -> u32 {
        limited.association.name = name;
        limited.association.parent = parent;
        self.all.push(limited);
        (self.all.len() - 1) as u32
    }

    fn push_user(&mut self, mut limited: Limited, name: String, above: u32) -> u32 {
        limited.association.is_user = true;
        self.push(limited, name, Some(above))
    }

    /// Whether any has a limit of what was used.
    pub(super) fn spend(&self) -> bool {
        self.all.iter().any(|of| of.used != Tres::default() || of.association.used_wall_ms.is_some())
    }

    /// The association of a job of `account`, `user` and a partition; one without limits is added where there is none. `None` if the account is unknown.
    fn of_job(&mut self, account: &str, user: &str, partition: &str, added: &mut BTreeSet<u32>) -> Option<u32> {
        let above = self.by_name.get(account).copied()?;
        let mut key = (above, user.to_owned(), Some(partition.to_owned()));
        if let Some(at) = self.by_user.get(&key) {
            return Some(*at);
        }
        key.2 = None;
        if let Some(at) = self.by_user.get(&key) {
            return Some(*at);
        }
        let at = self.push_user(Limited::default(), format!("{account}/{user}"), above);
        self.by_user.insert(key, at);
        added.insert(at);
        Some(at)
    }

    /// All of them, without limits where these are not `enforced`: shares count all the same.
    fn associations(&self, resource: Resource, enforced: bool) -> Vec<Association> {
        let free = |of: &Association| Association {
            name: of.name.clone(),
            parent: of.parent,
            is_user: of.is_user,
            shares: of.shares,
            ..Association::default()
        };
        if !enforced {
            return self.all.iter().map(|limited| free(&limited.association)).collect();
        }
        let of = |limited: &Limited| Association {
            used_milli: limited.used.of(resource),
            group_milli: limited.group.of(resource),
            group_time_milli: limited.group_time.of(resource),
            job_milli: limited.job.of(resource),
            ..limited.association.clone()
        };
        self.all.iter().map(of).collect()
    }
}

/// Parses a `Fairshare`: a whole number, `parent`, or -1 for the default.
fn shares(text: &str) -> std::result::Result<Fairshare, String> {
    let small = text.trim().to_ascii_lowercase();
    if small == "-1" {
        return Ok(Fairshare::default());
    }
    let wrong = || format!("`{text}` is neither a whole number of 0 or more nor `parent`");
    if small == "parent" { Ok(Fairshare::Parent) } else { small.parse().map(Fairshare::Of).map_err(|_| wrong()) }
}

/// Reads a row from an entry.
fn row(file: &LimitFile, entry: &Entry, strict: bool, unheeded: &mut BTreeSet<String>) -> Result<Row> {
    let mut row = Row { line: entry.line, indent: entry.indent, ..Row::default() };
    for Item { line, key, value } in &entry.items {
        let wrong = |problem: String| file.wrong(*line, format!("{key}: {problem}"));
        let value = value.trim();
        let small = key.to_ascii_lowercase();
        let known = KEYS.iter().find(|known| known.contains(&small.as_str())).map(|known| known[0]);
        let limits = &mut row.limited;
        let tres = |unheeded: &mut BTreeSet<String>| Tres::parse(value, key, unheeded);
        match known {
            Some("name") => value.clone_into(&mut row.account),
            Some("parent") => row.parent = Some(value.to_owned()),
            Some("user") => value.clone_into(&mut row.user),
            Some("partition") => value.clone_into(&mut row.partition),
            Some("cluster") => value.clone_into(&mut row.cluster),
            _ if value.is_empty() || SAYS_NOTHING.contains(&small.as_str()) => {}
            Some("grptres") => limits.group = tres(unheeded).map_err(wrong)?,
            Some("grptresrunmins") => limits.group_time = tres(unheeded).map_err(wrong)?,
            Some("maxtres") => limits.job = tres(unheeded).map_err(wrong)?,
            Some("grptresmins") => limits.used = tres(unheeded).map_err(wrong)?,
            Some("grpwall") => limits.association.used_wall_ms = value::minutes(value).map_err(wrong)?,
            Some("fairshare") => limits.association.shares = shares(value).map_err(wrong)?,
            Some("grpjobs") => limits.association.group_jobs = value::whole(value).map_err(wrong)?,
            Some("maxjobs") => limits.association.jobs = value::whole(value).map_err(wrong)?,
            Some("maxwall") => limits.association.wall_ms = value::minutes(value).map_err(wrong)?,
            None if strict && !NOT_REPLAYED.contains(&small.as_str()) => {
                let known: Vec<&str> = KEYS.iter().map(|known| known[0]).filter(|known| *known != "cluster").collect();
                return Err(wrong(format!(
                    "an account or association has no such key; replayed are {}",
                    known.join(", ")
                )));
            }
            _ => {
                unheeded.insert(format!("{key} of accounts"));
            }
        }
    }
    if row.account.is_empty() {
        return Err(file.wrong(entry.line, "an account has no Name, or an association no Account".to_owned()));
    }
    Ok(row)
}

/// Associations, each behind the one above it, and that of each job.
pub(in crate::input) type Charged = (Vec<Association>, Vec<Option<u32>>);

impl LimitFile {
    /// Charges jobs (account, user, partition) to the accounts of the file, whose jobs compete for `resource`; `None` without accounts. Where Slurm enforces no limits they have none, but shares. What is assumed is added to `notes`.
    pub(in crate::input) fn charge<'t>(
        &self,
        resource: Resource,
        jobs: impl Iterator<Item = (Option<&'t str>, &'t str, &'t str)>,
        notes: &mut Vec<String>,
    ) -> Option<Charged> {
        if self.accounts.is_empty() {
            return None;
        }
        let mut accounts = self.accounts.clone();
        let (mut nameless, mut of_unknown, mut of_others) = (0u64, 0u64, 0u64);
        let mut unknown = BTreeSet::new();
        let mut added = BTreeSet::new();
        let of = |(account, user, partition): (Option<&'t str>, &'t str, &'t str)| {
            let named = account.filter(|name| !name.is_empty());
            let Some(account) = named.or(self.accounts.default.as_deref()) else {
                nameless += 1;
                return None;
            };
            let result = accounts.of_job(account, user, partition, &mut added);
            if result.is_none() {
                of_unknown += 1;
                unknown.insert(account.to_owned());
            }
            of_others += u64::from(result.is_some_and(|at| added.contains(&at)));
            result
        };
        let of_jobs = jobs.map(of).collect();
        if nameless > 0 {
            let jobs = format::counted(nameless, "job names", "jobs name");
            notes.push(format!(
                "**{jobs} no account**, and no limit of an account holds for these. Say which account they have in {}: DefaultAccount = \"NAME\" (without quotes, as the last line, in what sacctmgr prints).",
                self.file
            ));
        }
        if of_unknown > 0 {
            let list: Vec<String> = unknown.into_iter().take(LISTED).collect();
            let jobs = format::counted(of_unknown, "job has an account", "jobs have an account");
            notes.push(format!(
                "**{jobs} that {} does not describe**, and no limit of an account: {}.",
                self.file,
                list.join(", ")
            ));
        }
        if accounts.is_printed && of_others > 0 {
            let jobs = format::counted(of_others, "job is", "jobs are");
            notes.push(format!(
                "{jobs} of users without an association in {}; the limits of their accounts hold for these.",
                self.file
            ));
        }
        Some((accounts.associations(resource, self.unenforced.is_none()), of_jobs))
    }
}
