//! Slurm's own files: [`Conf`] takes one apart, [`SlurmFiles`] changes several together: keys of the whole cluster, and of partitions.
//!
//! A key of the whole cluster is set where it stands last; a new one goes into the file that names the cluster, else it is told that it could not be set. O(bytes) a change. Worked example: of
//! `slurm.conf` and `partitions.conf`, `PriorityTier` of a partition is set in the second, and `PreemptType`, which neither has, comes into the first.

mod conf;
mod gres;
pub mod hosts;

pub use conf::{Conf, ConfLine, ConfPair};
pub use gres::{Gres, NodeLine, check_gpus};

use super::own::{Changes, OwnFile, Patch, patch};

/// Slurm's files with the changes so far.
#[derive(Debug)]
pub struct SlurmFiles<'f> {
    /// Each file as it was, and as it is to be.
    pub files: Vec<(&'f OwnFile, Conf)>,
    changes: Changes,
}

impl<'f> SlurmFiles<'f> {
    /// Takes those of `files` that are Slurm's, unchanged.
    pub fn new(files: &'f [OwnFile]) -> Self {
        let files = files.iter().filter(|file| file.is_slurm());
        Self { files: files.map(|file| (file, Conf::read(&file.text))).collect(), changes: Changes::default() }
    }

    /// The patch; `about` is what it says first, and `steps` what has to be done beside it.
    pub fn patch(self, about: Vec<String>, steps: &str) -> Patch {
        let files = self.files.iter().map(|(file, conf)| ([file.path(), file.text.as_str()], conf.text().to_owned()));
        patch("slurm.patch", about, (&self.changes, steps), files)
    }

    /// The place of the file that says something.
    fn file(&self, says: impl Fn(&Conf) -> bool) -> Option<usize> {
        self.files.iter().position(|(_, conf)| says(conf))
    }

    /// The place of the file that has a partition.
    pub fn with_partition(&self, name: &str) -> Option<usize> {
        self.file(|conf| conf.partition(name).is_some())
    }

    /// The place of `gres.conf`, by what it says of GPUs.
    pub fn devices(&self) -> Option<usize> {
        self.file(|conf| {
            conf.values("Name").any(|name| name.eq_ignore_ascii_case("gpu"))
                || conf.values("AutoDetect").next().is_some()
        })
    }

    /// Tells of a change: in which file, of what, from which value to which, and why.
    pub fn tell(&mut self, file: usize, what: &str, (before, after): (Option<&str>, &str), why: &str) {
        let name = self.files.get(file).map_or("", |(file, _)| file.name.as_str());
        let before = before.unwrap_or("none");
        self.changes.made.push(format!("{name}: {what} {before} → {after}: {why}"));
    }

    /// Tells of what could not be changed, and why.
    pub fn leave(&mut self, what: String) {
        self.changes.left.push(what);
    }

    /// The value of a key of the whole cluster.
    pub fn global(&self, key: &str) -> Option<&str> {
        self.files.iter().rev().find_map(|(_, conf)| conf.setting(key))
    }

    /// Sets a key of the whole cluster.
    pub fn set(&mut self, key: &str, value: &str, why: &str) {
        if let Some(file) = self.files.iter().rposition(|(_, conf)| conf.setting(key).is_some()) {
            let Some((_, conf)) = self.files.get_mut(file) else { return };
            if conf.line_of(key).is_some_and(|line| line.is_divided) {
                return self
                    .leave(format!("{key}={value} ({why}): its value goes on in the next line, or is added to"));
            }
            let before = conf.setting(key).map(str::to_owned);
            if before.as_deref() != Some(value) {
                conf.set_setting(key, value, None);
                self.tell(file, key, (before.as_deref(), value), why);
            }
            return;
        }
        let names_cluster =
            |conf: &Conf| ["ClusterName", "SlurmctldHost"].iter().any(|key| conf.setting(key).is_some());
        let Some(file) = self.file(names_cluster) else {
            return self
                .leave(format!("{key}={value} ({why}): it belongs into slurm.conf, which is not among the files"));
        };
        if let Some((_, conf)) = self.files.get_mut(file) {
            conf.set_setting(key, value, None);
        }
        self.tell(file, key, (None, value), why);
    }

    /// Adds words to a list that a key of the whole cluster is, those that are not in it.
    pub fn add(&mut self, key: &str, words: &[&str], why: &str) {
        let now = self.global(key).unwrap_or_default().to_owned();
        let mut list: Vec<&str> = now.split(',').filter(|word| !word.is_empty()).collect();
        let has = |list: &[&str], word: &str| list.iter().any(|one| one.eq_ignore_ascii_case(word));
        // `safe` means limits, and more; `all` all but what jobs are refused for.
        let covered = |word: &str| word == "limits" && has(&list, "safe") || has(&list, "all");
        let missing: Vec<&str> = words.iter().copied().filter(|word| !has(&list, word) && !covered(word)).collect();
        if !missing.is_empty() {
            list.extend(missing);
            self.set(key, &list.join(","), why);
        }
    }

    /// Sets keys of a partition, each for a reason, with what the plan does to its jobs; whether it is written in a way that can be.
    pub fn set_partition(&mut self, file: usize, name: &str, keys: &[(&str, &str, &str)], effect: &str) -> bool {
        let remedy = "slurm-partitions.conf has what it should be";
        keys.iter().all(|(key, value, why)| {
            let (with, what) = ([("PartitionName", name)], format!("partition {name}"));
            self.set_in((file, &with, &what), (*key, value), &format!("{why}{effect}"), remedy)
        })
    }

    /// Sets a key of the first line of a file in which others have these values; `what` is that line, and `remedy` what to do where it cannot be changed. Whether it can be.
    pub fn set_in(
        &mut self,
        (file, with, what): (usize, &[(&str, &str)], &str),
        (key, value): (&str, &str),
        why: &str,
        remedy: &str,
    ) -> bool {
        let Some((own, conf)) = self.files.get_mut(file) else { return false };
        let Some(line) = conf.find(with) else { return false };
        if let Some(divided) = conf.lines().get(line).filter(|line| line.is_divided) {
            let at = format!("{}, line {}", own.name, divided.number);
            self.leave(format!("{what}: a value goes on in the next line, or is added to ({at}); {remedy}"));
            return false;
        }
        if let Some(before) = conf.set(line, key, value) {
            self.tell(file, &format!("{what}: {key}"), (before.as_deref(), value), why);
        }
        true
    }
}
