//! GPUs in what LSF jobs ask for.
//!
//! Two notations. A resource requirement (Administering IBM Spectrum LSF, "Usage string") has GPUs among what it reserves:
//! `select[...] rusage[mem=6000.00,ngpus_physical=2.00/host:gmodel=K80]`. A GPU requirement (`bsub(1)`, `-gpu`; `GPU_REQ` in
//! `lsb.queues(5)`) is a list of options: `num=2/task:mode=exclusive_process:gmodel=K80`. In both, a number is per host
//! unless `/task` or `/job` follows. Older versions name GPUs by mode: `ngpus_shared`, `ngpus_excl_p`, `ngpus_excl_t`.
//!
//! A compound or alternative requirement (`{...} + {...}`, `||`) says several things, of which one was given: its GPUs are
//! unknown. Worked number: `rusage[ngpus_physical=2.00]` of a job on 3 hosts is 6 GPUs. O(text).

/// Resources that are GPUs; the first of them that is named counts.
const GPUS: [&str; 5] = ["ngpus_physical", "ngpus_excl_p", "ngpus_excl_t", "ngpus_shared", "ngpus"];
/// Options of a GPU requirement.
const OPTIONS: [&str; 13] = [
    "num",
    "mode",
    "mps",
    "j_exclusive",
    "aff",
    "block",
    "gpack",
    "glink",
    "gvendor",
    "gmodel",
    "gtile",
    "gmem",
    "nvlink",
];

/// Unit that a number of GPUs is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Per {
    Host,
    Task,
    Job,
}

/// GPUs asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GpuRequest<'a> {
    pub(super) count: f64,
    pub(super) per: Per,
    pub(super) gpu_type: Option<&'a str>,
}

impl GpuRequest<'_> {
    /// GPUs of a job on so many hosts with so many tasks.
    pub(super) fn total(&self, hosts: Option<f64>, tasks: Option<f64>) -> Option<f64> {
        match self.per {
            _ if self.count == 0.0 => Some(0.0),
            Per::Host => hosts.map(|hosts| self.count * hosts),
            Per::Task => tasks.map(|tasks| self.count * tasks),
            Per::Job => Some(self.count),
        }
    }
}

/// GPUs in a resource requirement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked<'a> {
    /// No GPUs named.
    None,
    /// GPUs named.
    Some(GpuRequest<'a>),
    /// Several requirements, of which one was met.
    Several,
    /// GPUs named, and how many cannot be read.
    Unclear,
}

/// Reads the GPUs in a resource requirement.
pub(super) fn of_requirement(text: &str) -> Asked<'_> {
    if !GPUS.iter().any(|name| text.contains(name)) {
        return Asked::None;
    }
    if text.contains('{') {
        return Asked::Several;
    }
    let mut result: Option<(usize, GpuRequest<'_>)> = None;
    for section in text.split("rusage[").skip(1) {
        let Some((inside, _)) = section.split_once(']') else { continue };
        if inside.contains("||") && GPUS.iter().any(|name| inside.contains(name)) {
            return Asked::Several;
        }
        for usage in inside.split(',') {
            // `mem=4000:ngpus_physical=2`: what a colon parts may be resources of their own, or say more of the one before.
            let pairs = || usage.split(':').filter_map(|part| part.trim().split_once('='));
            let gpu_type = pairs().find(|(name, _)| *name == "gmodel").map(|(_, model)| model);
            for (name, value) in pairs() {
                let Some(rank) = GPUS.iter().position(|gpu| *gpu == name.trim()) else { continue };
                let Some((count, per)) = amount(value) else { return Asked::Unclear };
                if result.is_none_or(|(best, _)| rank < best) {
                    result = Some((rank, GpuRequest { count, per, gpu_type }));
                }
            }
        }
    }
    result.map_or(Asked::None, |(_, request)| Asked::Some(request))
}

/// Reads a GPU requirement, `None` if the text is none or does not say how many.
pub(super) fn of_gpu_option(text: &str) -> Option<GpuRequest<'_>> {
    let mut count = None;
    let mut gpu_type = None;
    for part in text.trim().split(':') {
        let (name, value) = part.split_once('=')?;
        if !OPTIONS.contains(&name.trim()) {
            return None;
        }
        match name.trim() {
            "num" => count = Some(amount(value)?),
            "gmodel" => gpu_type = Some(value),
            _ => {}
        }
    }
    let (count, per) = count?;
    Some(GpuRequest { count, per, gpu_type })
}

/// Reads the `-gpu` option in a job script or command.
pub(super) fn of_command(command: &str) -> Option<GpuRequest<'_>> {
    let (_, after) = command.split_once("-gpu ")?;
    let after = after.trim_start();
    let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
    let text = match quote {
        Some(quote) => after.get(1..)?.split(quote).next()?,
        None => after.split(|c: char| c.is_whitespace() || c == ';').next()?,
    };
    of_gpu_option(text)
}

/// A number and what it is of: `2.00/host`.
fn amount(text: &str) -> Option<(f64, Per)> {
    let (number, per) = match text.trim().split_once('/') {
        None => (text.trim(), Per::Host),
        Some((number, "host")) => (number, Per::Host),
        Some((number, "task")) => (number, Per::Task),
        Some((number, "job")) => (number, Per::Job),
        Some(_) => return None,
    };
    number.trim().parse().ok().filter(|count: &f64| (0.0..=1e9).contains(count)).map(|count| (count, per))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(text: &str) -> Option<(f64, Per, Option<&str>)> {
        match of_requirement(text) {
            Asked::Some(request) => Some((request.count, request.per, request.gpu_type)),
            _ => None,
        }
    }

    #[test]
    fn requirements_with_and_without_gpus() {
        let text = "select[((ngpus>0)) && (type == local)] order[r15s:pg] rusage[mem=6000.00,ngpus_physical=2.00] span[hosts=1] ";
        assert_eq!(asked(text), Some((2.0, Per::Host, None)));
        assert_eq!(asked("rusage[ngpus_physical=4/job:gmodel=K80]"), Some((4.0, Per::Job, Some("K80"))));
        assert_eq!(asked("rusage[ngpus_excl_p=1] rusage[ngpus_physical=2/task]"), Some((2.0, Per::Task, None)));
        assert_eq!(of_requirement("select[type == any] order[r15s:pg] "), Asked::None);
        // GPUs are selected by, and none is reserved.
        assert_eq!(of_requirement("select[ngpus>0] rusage[mem=5]"), Asked::None);
        assert_eq!(of_requirement("1*{rusage[ngpus_physical=2]} + 4*{rusage[ngpus_physical=1]}"), Asked::Several);
        assert_eq!(of_requirement("rusage[ngpus_physical=1||ngpus_physical=2]"), Asked::Several);
        assert_eq!(of_requirement("rusage[ngpus_physical=(2 1)]"), Asked::Unclear);
        let Asked::Some(asked) = of_requirement("rusage[mem=4000:ngpus_physical=2]") else {
            panic!("GPUs after a colon")
        };
        assert_eq!((asked.count, asked.gpu_type), (2.0, None));
    }

    #[test]
    fn gpu_options_and_scripts() {
        let request = of_gpu_option("num=2:mode=exclusive_process:gmodel=TeslaV100").unwrap();
        assert_eq!((request.count, request.per, request.gpu_type), (2.0, Per::Host, Some("TeslaV100")));
        assert_eq!(of_gpu_option("num=1/task").unwrap().per, Per::Task);
        for text in ["", "mode=shared", "num=x", "num=1:user=me", "2"] {
            assert_eq!(of_gpu_option(text), None, "{text}");
        }
        let script = "#!/bin/sh;#BSUB -n 4;#BSUB -gpu \"num=4:mode=shared\";python main.py";
        assert_eq!(of_command(script).unwrap().count, 4.0);
        assert_eq!(of_command("bsub -gpu num=2 sleep 9").unwrap().count, 2.0);
        assert_eq!(of_command("train --use-gpu yes"), None);
    }

    #[test]
    fn a_number_is_of_hosts_tasks_or_the_job() {
        let of = |per| GpuRequest { count: 2.0, per, gpu_type: None }.total(Some(3.0), Some(8.0));
        assert_eq!((of(Per::Host), of(Per::Task), of(Per::Job)), (Some(6.0), Some(16.0), Some(2.0)));
        let zero = GpuRequest { count: 0.0, per: Per::Host, gpu_type: None };
        assert_eq!(zero.total(None, None), Some(0.0));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z_0-9=\\[\\]{}|/:,\"' é-]{0,40}") {
            let _ = (of_requirement(&text), of_gpu_option(&text), of_command(&format!("-gpu {text}")));
            let _ = of_requirement(&format!("rusage[ngpus_physical={text}"));
        }
    }
}
