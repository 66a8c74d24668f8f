//! GPUs of nodes in Slurm's files: `Gres` of a `NodeName` line taken apart, and the lines whose GPUs are of a type.
//!
//! O(bytes). Worked example: `gpu:a100:8(S:0,1),shard:16` are 8 GPUs of the type `a100` and 16 shards.

use std::collections::BTreeSet;

use super::SlurmFiles;
use crate::replay::input::is_of_type;

/// A resource of a node: `gpu:a100:8(S:0-1)` is 8 of the type `a100`.
#[derive(Debug, PartialEq)]
pub(crate) struct Gres<'l> {
    /// As it is written.
    pub(crate) written: &'l str,
    pub(crate) name: &'l str,
    pub(crate) gpu_type: Option<&'l str>,
    pub(crate) count: u32,
}

impl<'l> Gres<'l> {
    fn of(written: &'l str) -> Self {
        let bare = written.split('(').next().unwrap_or(written);
        let mut parts = bare.split(':');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.filter(|part| *part != "no_consume").collect();
        let number = rest.last().and_then(|last| last.parse().ok());
        // Without a number there is one.
        let typed = if number.is_some() { rest.split_last().map_or(&[][..], |(_, before)| before) } else { &rest[..] };
        Self { written, name, gpu_type: typed.first().copied(), count: number.unwrap_or(1) }
    }

    /// Those of a list, in whose parentheses a comma may stand.
    pub(crate) fn list(text: &'l str) -> Vec<Self> {
        let mut depth = 0;
        let parts = text.split(|letter| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            letter == ',' && depth == 0
        });
        parts.filter(|part| !part.is_empty()).map(Self::of).collect()
    }

    /// Types of the GPUs of a list; empty of those that have none.
    pub(crate) fn gpu_types(text: &str) -> BTreeSet<String> {
        let gpus = Gres::list(text).into_iter().filter(Gres::is_gpu);
        gpus.map(|one| one.gpu_type.unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn is_gpu(&self) -> bool {
        self.name.eq_ignore_ascii_case("gpu")
    }
}

/// A line of nodes that have GPUs of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLine {
    /// Its file.
    pub(crate) file: usize,
    /// The nodes, as they are written.
    pub(crate) nodes: String,
    /// Their `Gres`, as it is written.
    pub(crate) gres: String,
    /// GPUs of each.
    pub(crate) gpus: u32,
}

impl NodeLine {
    /// The lines whose GPUs are of a type, or of none where no line names one. Those that cannot be changed for it are told.
    pub(crate) fn with_gpus(files: &mut SlurmFiles<'_>, gpu: &str) -> Vec<Self> {
        let mut lines: Vec<(usize, String, String)> = Vec::new();
        for (file, (_, conf)) in files.files.iter().enumerate() {
            let of = |line| Some((file, conf.get(line, "NodeName")?.to_owned(), conf.get(line, "Gres")?.to_owned()));
            lines.extend(conf.lines().iter().filter_map(of));
        }
        let all: BTreeSet<String> = lines.iter().flat_map(|(_, _, gres)| Gres::gpu_types(gres)).collect();
        // GPUs without a type are the plan's where there are no others.
        let is_meant = |of: &String| (all.len() == 1 && of.is_empty()) || is_of_type(of, std::iter::empty(), gpu);
        let mut found = Vec::new();
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
            found.push(Self { file, nodes, gres, gpus });
        }
        found
    }
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
