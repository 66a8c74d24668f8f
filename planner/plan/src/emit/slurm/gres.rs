//! GPUs of nodes in Slurm's files: `Gres` of a `NodeName` line taken apart, and the lines whose GPUs are of a type.
//!
//! O(bytes). Worked example: `gpu:a100:8(S:0,1),shard:16` are 8 GPUs of the type `a100` and 16 shards.

use std::collections::BTreeSet;

use tracecast_analytics::report::format;
use tracecast_replay::input::is_of_type;

use super::hosts::parts;
use super::{Conf, ConfLine, SlurmFiles};
use crate::emit::own::OwnFile;
use crate::error::{Error, Result};

/// A resource of a node: `gpu:a100:8(S:0-1)` is 8 of the type `a100`.
#[derive(Debug, PartialEq, Eq)]
pub struct Gres<'l> {
    /// The text as written.
    pub written: &'l str,
    /// Name of the resource, such as `gpu` or `shard`.
    pub name: &'l str,
    /// Type of the resource, if there is one.
    pub gpu_type: Option<&'l str>,
    /// How many there are.
    pub count: u32,
}

impl<'l> Gres<'l> {
    fn new(written: &'l str) -> Self {
        let bare = written.split('(').next().unwrap_or(written);
        let mut parts = bare.split(':');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.filter(|part| *part != "no_consume").collect();
        let number = rest.last().and_then(|last| last.parse().ok());
        // Without a number there is one.
        let typed = if number.is_some() { rest.split_last().map_or(&[][..], |(_, before)| before) } else { &rest[..] };
        Self { written, name, gpu_type: typed.first().copied(), count: number.unwrap_or(1) }
    }

    /// Parses a comma-separated list; commas within parentheses do not separate.
    pub fn list(text: &'l str) -> Vec<Self> {
        parts(text, ['(', ')']).filter(|part| !part.is_empty()).map(Self::new).collect()
    }

    /// Types of the GPUs of a list; empty of those that have none.
    pub fn gpu_types(text: &str) -> BTreeSet<String> {
        let gpus = Gres::list(text).into_iter().filter(Gres::is_gpu);
        gpus.map(|one| one.gpu_type.unwrap_or_default().to_owned()).collect()
    }

    /// Whether the resource is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.name.eq_ignore_ascii_case("gpu")
    }
}

/// A line of nodes that have GPUs of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLine {
    /// Index of the file.
    pub file: usize,
    /// The nodes, as they are written.
    pub nodes: String,
    /// Value of `Gres`, as written.
    pub gres: String,
    /// GPUs of each.
    pub gpus: u32,
}

impl NodeLine {
    /// The lines whose GPUs are of a type, or of none where no line names one. Those that cannot be changed for it are told.
    pub fn with_gpus(files: &mut SlurmFiles<'_>, gpu: &str) -> Vec<Self> {
        let mut lines: Vec<(usize, String, String)> = Vec::new();
        for (file, (_, conf)) in files.files.iter().enumerate() {
            let of = |line: &ConfLine| Some((file, line.get("NodeName")?.to_owned(), line.get("Gres")?.to_owned()));
            lines.extend(conf.lines().iter().filter_map(of));
        }
        let all: BTreeSet<String> = lines.iter().flat_map(|(_, _, gres)| Gres::gpu_types(gres)).collect();
        // GPUs without a type are the plan's where there are no others.
        let is_meant = |of: &String| (all.len() == 1 && of.is_empty()) || is_of_type(of, std::iter::empty(), gpu);
        let mut result = Vec::new();
        for (file, nodes, gres) in lines {
            let types = Gres::gpu_types(&gres);
            if !types.iter().any(is_meant) {
                if types.iter().any(String::is_empty) {
                    files.leave(format!("nodes {nodes}: their GPUs have no type, beside others that have one; name the type, or set {gres} by hand"));
                }
                continue;
            }
            if nodes.eq_ignore_ascii_case("default") {
                files.leave(format!("NodeName=DEFAULT: Gres={gres} holds for the lines below it that have none; give those a Gres of their own, or set it by hand"));
                continue;
            }
            if types.len() > 1 {
                let types: Vec<&str> = types.iter().map(String::as_str).collect();
                files.leave(format!("{nodes}: their GPUs are of several types ({})", types.join(", ")));
                continue;
            }
            let gpus = Gres::list(&gres)
                .iter()
                .filter(|one| one.is_gpu())
                .fold(0u32, |sum, one| sum.saturating_add(one.count));
            result.push(Self { file, nodes, gres, gpus });
        }
        result
    }
}

/// Checks that some of Slurm's files have nodes with GPUs, before a plan is made for them.
///
/// # Errors
/// If none has.
pub fn check_gpus(files: &[OwnFile]) -> Result<()> {
    let editing = SlurmFiles::new(files);
    let has_gpus = |conf: &Conf| {
        let nodes = conf.lines().iter().filter(|line| line.get("NodeName").is_some());
        nodes.filter_map(|line| line.get("Gres")).any(|gres| Gres::list(gres).iter().any(Gres::is_gpu))
    };
    if editing.files.is_empty() || editing.files.iter().any(|(_, conf)| has_gpus(conf)) {
        return Ok(());
    }
    let all: Vec<String> = editing
        .files
        .iter()
        .map(|(file, conf)| {
            format!("{} ({})", file.name, format::counted(conf.text().lines().count() as u64, "line", "lines"))
        })
        .collect();
    Err(Error::NotEmitted(format!(
        "no line of {} has NodeName and GPUs in its Gres, such as NodeName=n[1-4] Gres=gpu:a100:8; name the slurm.conf that has the nodes with GPUs, or the file that it includes for them",
        all.join(", ")
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_taken_apart() {
        let of = |text| -> Vec<(&str, Option<&str>, u32)> {
            Gres::list(text).iter().map(|one| (one.name, one.gpu_type, one.count)).collect()
        };
        assert_eq!(of("gpu:a100:8(S:0,1),shard:no_consume:16"), [("gpu", Some("a100"), 8), ("shard", None, 16)]);
        assert_eq!(of("gpu,gpu:2,gpu:a100"), [("gpu", None, 1), ("gpu", None, 2), ("gpu", Some("a100"), 1)]);
    }
}
