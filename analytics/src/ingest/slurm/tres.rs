//! Trackable resources: `billing=10,cpu=10,gres/gpu=2,gres/gpu:a100=2,mem=320.5G,node=2`.
//!
//! GPUs are counted as Slurm means them: `gres/gpu` is the total where it is present, and `gres/gpu:type` entries are
//! parts of it, never added to it; without it the total is the sum of the types. `gres/gpumem` and `gres/gpuutil` are
//! not GPUs. `gres/shard` and `gres/shard:type` are parts of GPUs: how many a GPU holds is not in the record
//! ([`Tres::settle_shards`]). A type `(null)` is none. A MIG profile is a type like any other (`gres/gpu:a100_3g.20gb`), one slice counting one.
//! The database's own form names resources by number (1 CPU, 2 memory in MiB, 3 energy, 4 node, 5 billing); numbers
//! from 1001 are the site's own and say nothing without its table.
//!
//! A column of a fixed width cuts the list, and an amount may be no number. GPUs are then unknown, never 0, unless the entry `gres/gpu` stands whole
//! before the cut. O(text). Worked number: `billing=8,cpu=8,gre+` has 8 cores and an unknown number of GPUs; `gres/gpu=4,me+` has 4.

use super::mem::{bytes, whole};
use crate::ingest::field::{self, MIB};
use crate::quality::{Reason, RowAudit, reason};

/// A resource whose amount makes no sense.
const BAD_TRES: Reason = Reason {
    id: "bad_tres",
    what: "the amount of a resource cannot be read; it is set to unknown",
    remedy: "check the column in the source",
};
/// Counts of GPUs that do not agree.
const TRES_CONTRADICT: Reason = Reason {
    id: "gpu_counts_contradict",
    what: "gres/gpu and the sum of its types (gres/gpu:a100 …) differ; gres/gpu is counted",
    remedy: "list all types of GPUs or none in AccountingStorageTRES, beside gres/gpu",
};

/// Resources of a job or step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tres {
    /// CPU cores.
    pub cpus: Option<f64>,
    /// Memory, bytes.
    pub mem_bytes: Option<i64>,
    /// Energy, joules; one of the sentinels where the plugin had nothing.
    pub energy_j: Option<f64>,
    /// Nodes.
    pub nodes: Option<i64>,
    /// The entry `gres/gpu`.
    pub any_gpus: Option<f64>,
    /// The entries `gres/gpu:type`, in the order written; the type is empty where it is `(null)`.
    pub typed_gpus: Vec<(String, f64)>,
    /// The entry `gres/shard`.
    any_shards: Option<f64>,
    /// The entries `gres/shard:type`, in the order written.
    typed_shards: Vec<(String, f64)>,
    /// Whether there are shards, and nobody said how many a GPU holds.
    unsettled_shards: bool,
    /// Whether resources are named by number and some number is the site's own: then GPUs may hide there.
    pub site_numbers: bool,
    /// The first entry whose amount cannot be read.
    pub unreadable: Option<String>,
    /// Whether the list ends in the middle: in a `+`, a comma, a name without an amount.
    pub cut: bool,
    /// Whether an entry names GPUs whose amount cannot be read.
    pub unreadable_gpus: bool,
}

impl Tres {
    /// Reads a list of resources. An entry we do not know is passed over; one whose amount makes no sense is noted in
    /// [`Tres::unreadable`].
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let last = text.rsplit(',').next().unwrap_or_default();
        let whole = last.split_once('=').is_some_and(|(_, amount)| !amount.trim().is_empty() && !amount.ends_with('+'));
        let mut tres = Self { cut: !text.is_empty() && !whole, ..Self::default() };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if !entry.split_once('=').is_some_and(|(name, amount)| tres.enter(name.trim(), amount.trim())) {
                tres.unreadable_gpus |= names_gpus(entry);
                tres.unreadable.get_or_insert_with(|| entry.to_owned());
            }
        }
        tres
    }

    /// Notes one resource; `false` if its amount cannot be read.
    fn enter(&mut self, name: &str, amount: &str) -> bool {
        let count = || amount.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        match name {
            "cpu" | "1" => self.cpus = count(),
            "mem" | "2" => self.mem_bytes = bytes(amount, MIB).and_then(whole),
            "energy" | "3" => self.energy_j = amount.parse().ok(),
            "node" | "4" => self.nodes = amount.parse().ok(),
            "gres/gpu" => self.any_gpus = count(),
            _ => {
                if let Some(kind) = name.strip_prefix("gres/gpu:") {
                    let Some(count) = count() else { return false };
                    self.add_typed(kind, count);
                } else if let Some(kind) = name.strip_prefix("gres/shard") {
                    let Some(count) = count() else { return false };
                    self.add_shards(kind, count);
                } else if name.parse::<u64>().is_ok_and(|number| number >= 1_001) {
                    self.site_numbers = true;
                }
                return true;
            }
        }
        match name {
            "cpu" | "1" => self.cpus.is_some(),
            "mem" | "2" => self.mem_bytes.is_some(),
            "energy" | "3" => self.energy_j.is_some(),
            "node" | "4" => self.nodes.is_some(),
            _ => self.any_gpus.is_some(),
        }
    }

    /// Adds `count` GPUs of a type.
    pub(super) fn add_typed(&mut self, kind: &str, count: f64) {
        let kind = field::text(Some(kind)).unwrap_or_default();
        match self.typed_gpus.iter_mut().find(|(have, _)| have == kind) {
            Some((_, total)) => *total += count,
            None => self.typed_gpus.push((kind.to_owned(), count)),
        }
    }

    /// Adds `count` shards of the entry `shard` (an empty `kind`) or `shard:type` (a colon and the type).
    pub(super) fn add_shards(&mut self, kind: &str, count: f64) {
        match kind.strip_prefix(':') {
            Some(kind) => self.typed_shards.push((kind.to_owned(), count)),
            None if kind.is_empty() => self.any_shards = Some(count),
            // Another resource whose name begins so.
            None => {}
        }
    }

    /// Shards, as GPUs are counted: the generic entry, else the sum of the types.
    pub fn shards(&self) -> f64 {
        self.any_shards.unwrap_or_else(|| self.typed_shards.iter().map(|(_, count)| count).sum())
    }

    /// Takes shards for parts of GPUs, of which a GPU holds so many. Where that is not known, the number of GPUs is unknown. Whether there were any; a list with whole GPUs is left as it is.
    ///
    /// Worked number: 3 shards where a GPU holds 4 are 0.75 GPUs.
    pub fn settle_shards(&mut self, per_gpu: Option<u32>) -> bool {
        let shards = self.shards();
        if shards <= 0.0 || self.gpus().is_some_and(|gpus| gpus > 0.0) {
            return false;
        }
        self.any_gpus = per_gpu.map(|per_gpu| shards / f64::from(per_gpu.max(1)));
        self.unsettled_shards = per_gpu.is_none();
        true
    }

    /// Says that a list without GPUs may hide shards, as the job asked for some.
    pub(super) fn may_hide_shards(&mut self) {
        self.unsettled_shards |= self.any_gpus.is_none() && self.typed_gpus.is_empty();
    }

    /// Whether the list may have named GPUs that cannot be read: then a list without GPUs is no list of 0 GPUs.
    pub fn hides_gpus(&self) -> bool {
        self.any_gpus.is_none() && (self.site_numbers || self.cut || self.unreadable_gpus || self.unsettled_shards)
    }

    /// GPUs, `None` if no entry names any or some cannot be read.
    pub fn gpus(&self) -> Option<f64> {
        let parts_missing = self.cut || self.unreadable_gpus;
        if self.any_gpus.is_some() || self.typed_gpus.is_empty() || parts_missing {
            return self.any_gpus;
        }
        Some(self.typed_gpus.iter().map(|(_, count)| count).sum())
    }

    /// GPU types, each once, joined by `+` where there are several.
    pub fn gpu_type(&self) -> Option<String> {
        let mut types: Vec<&str> = Vec::new();
        for (kind, _) in self.typed_gpus.iter().chain(&self.typed_shards).filter(|(_, count)| *count > 0.0) {
            // Shards are of the GPUs that stand beside them.
            if !kind.is_empty() && !types.contains(&kind.as_str()) {
                types.push(kind);
            }
        }
        (!types.is_empty()).then(|| types.join("+"))
    }
}

/// Notes what of the list in `column` cannot be read.
pub(super) fn note(tres: &Tres, column: &str, row: &mut RowAudit<'_>) {
    let entry = tres.unreadable.as_deref().unwrap_or(",");
    match (tres.cut, column) {
        (true, "reqtres") => row.repair(reason::CUT_REQ_TRES, column, entry),
        (true, _) => row.repair(reason::CUT_ALLOC_TRES, column, entry),
        (false, _) if tres.unreadable.is_some() => row.repair(BAD_TRES, column, entry),
        (false, _) => {}
    }
    let typed: f64 = tres.typed_gpus.iter().map(|(_, count)| count).sum();
    if let Some(any) = tres.any_gpus.filter(|any| !tres.typed_gpus.is_empty() && *any != typed && !tres.cut) {
        row.repair(TRES_CONTRADICT, column, &format!("gres/gpu={any}, by type {typed}"));
    }
}

/// Whether an entry is about a number of GPUs.
fn names_gpus(entry: &str) -> bool {
    let name = entry.split('=').next().unwrap_or_default().trim();
    name == "gres/gpu" || name.starts_with("gres/gpu:")
}

/// Resources that a step used (`TRESUsageInTot`, `TRESUsageInAve`), as far as GPUs are concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TresUsage {
    /// `gres/gpuutil`, percent, summed over the step's GPUs in `Tot`.
    pub gpu_util_percent: Option<f64>,
    /// `gres/gpumem`, bytes.
    pub gpu_mem_bytes: Option<f64>,
}

impl TresUsage {
    /// Reads a usage list; what is not about GPUs, or not a number, is passed over.
    pub fn parse(text: &str) -> Self {
        let mut usage = Self::default();
        for (name, amount) in text.split(',').filter_map(|entry| entry.split_once('=')) {
            match name.trim() {
                "gres/gpuutil" => usage.gpu_util_percent = bytes(amount, 1.0),
                "gres/gpumem" => usage.gpu_mem_bytes = bytes(amount, 1.0),
                _ => {}
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_generic_entry_is_the_total_and_types_are_its_parts() {
        let both = Tres::parse("cpu=10,mem=100G,node=1,billing=10,gres/gpu=1,gres/gpu:a100=1");
        assert_eq!((both.gpus(), both.gpu_type().as_deref()), (Some(1.0), Some("a100")));
        let two = Tres::parse("gres/gpu:a100=2,gres/gpu:v100=1");
        assert_eq!((two.gpus(), two.gpu_type().as_deref()), (Some(3.0), Some("a100+v100")));
        let mig = Tres::parse("gres/gpu:a100_3g.20gb=1");
        assert_eq!((mig.gpus(), mig.gpu_type().as_deref()), (Some(1.0), Some("a100_3g.20gb")));
    }

    #[test]
    fn a_type_that_is_null_is_none_and_counts() {
        for (text, gpus, kind) in [
            ("gres/gpu:(null)=4", Some(4.0), None),
            ("gres/gpu=4,gres/gpu:(null)=4", Some(4.0), None),
            ("gres/gpu:(null)=1,gres/gpu:a100=2", Some(3.0), Some("a100")),
            // How many is not said.
            ("cpu=8,gres/gpu:(null)", None, None),
            ("cpu=8,gres/gpu:(null)=(null),node=1", None, None),
        ] {
            let tres = Tres::parse(text);
            assert_eq!((tres.gpus(), tres.gpu_type().as_deref()), (gpus, kind), "{text}");
            assert_eq!(tres.hides_gpus(), gpus.is_none(), "{text}");
        }
    }

    #[test]
    fn counts_that_contradict_each_other_are_told() {
        let told = |text: &str| {
            let mut row = RowAudit::new("f", 1);
            note(&Tres::parse(text), "alloctres", &mut row);
            let mut ledger = crate::quality::Ledger::default();
            ledger.keep(row);
            (Tres::parse(text).gpus(), ledger.count("gpu_counts_contradict"))
        };
        assert_eq!(told("gres/gpu=4,gres/gpu:a100=2"), (Some(4.0), 1));
        assert_eq!(told("gres/gpu=2,gres/gpu:a100=2,gres/gpu:v100=1"), (Some(2.0), 1));
        assert_eq!(told("gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1"), (Some(3.0), 0));
        assert_eq!(told("gres/gpu:a100=2"), (Some(2.0), 0));
    }

    #[test]
    fn what_only_looks_like_a_gpu_is_none() {
        let tres = Tres::parse("cpu=1,gres/gpumem=40777023488,gres/gpuutil=100,gres/shard=8,gres/gpu_other=4");
        assert_eq!((tres.gpus(), tres.gpu_type(), tres.unreadable), (None, None, None));
        assert_eq!(Tres::parse("gres/gpu=0").gpus(), Some(0.0));
    }

    /// A shard is a part of a GPU; a job on one was once read as a job without GPUs.
    #[test]
    fn shards_are_parts_of_gpus_where_it_is_known_how_many_a_gpu_holds() {
        for (text, per_gpu, gpus, kind) in [
            ("cpu=4,gres/shard=3", Some(4), Some(0.75), None),
            ("cpu=4,gres/shard:a100=2", Some(4), Some(0.5), Some("a100")),
            // The generic entry is the total.
            ("cpu=4,gres/shard=2,gres/shard:a100=2", Some(8), Some(0.25), Some("a100")),
            ("cpu=4,gres/gpu=0,gres/shard=2", Some(2), Some(1.0), None),
            // Whole GPUs, of which the shards are part.
            ("cpu=4,gres/gpu=1,gres/shard=4", Some(8), Some(1.0), None),
            // Found by a newcomer: GPUs of the type `a100+a100`.
            ("gres/gpu=1,gres/gpu:a100=1,gres/shard:a100=3", Some(8), Some(1.0), Some("a100")),
            ("gres/gpu=1,gres/gpu:v100=1,gres/shard:a100=1,gres/shard:a100=2", Some(8), Some(1.0), Some("v100+a100")),
            ("cpu=4,gres/shard=3", None, None, None),
            ("cpu=4,gres/shard=0", None, None, None),
        ] {
            let mut tres = Tres::parse(text);
            let result = tres.settle_shards(per_gpu);
            assert_eq!((tres.gpus(), tres.gpu_type().as_deref()), (gpus, kind), "{text}");
            let shards = !text.contains("gpu=1") && !text.contains("shard=0");
            assert_eq!((result, tres.hides_gpus()), (shards, shards && per_gpu.is_none()), "{text}");
        }
        assert_eq!(Tres::parse("gres/shard=many").unreadable.as_deref(), Some("gres/shard=many"));
        let mut other = Tres::parse("gres/shardlike=4");
        assert!(!other.settle_shards(Some(4)) && other.gpus().is_none());
    }

    #[test]
    fn numbers_follow_slurms_enum_and_site_numbers_are_unknown() {
        // 170,000 MiB.
        let tres = Tres::parse("1=20,2=170000,4=1,5=20,1001=4");
        assert_eq!((tres.cpus, tres.nodes, tres.mem_bytes), (Some(20.0), Some(1), Some(170_000 * 1_048_576)));
        assert_eq!((tres.gpus(), tres.site_numbers), (None, true));
    }

    #[test]
    fn an_amount_that_makes_no_sense_is_named() {
        let tres = Tres::parse("cpu=4,mem=lots,gres/gpu=2");
        assert_eq!((tres.gpus(), tres.mem_bytes, tres.unreadable.as_deref()), (Some(2.0), None, Some("mem=lots")));
        assert_eq!(Tres::parse("gres/gpu:a100=-1").unreadable.as_deref(), Some("gres/gpu:a100=-1"));
    }

    /// GPUs of a cut list are unknown; such lists were once read as 0 GPUs.
    #[test]
    fn gpus_of_a_cut_or_unreadable_list_are_unknown_and_not_none() {
        for text in [
            "billing=8,cpu=8,gre+",
            "billing=8,cpu=8,gres/g",
            "billing=8,cpu=8,gres/gpu=",
            "billing=8,cpu=8,gres/gpu=4+",
            "billing=8,cpu=8,",
            "billing=8,cpu=8+",
            "cpu=8,gres/gpu=four",
            "cpu=8,gres/gpu:a100=-1",
            "cpu=8,gres/gpu:a100=-1,gres/gpu:v100=2",
            "cpu=8,gres/gpu:a100=2,gres/gpu:v1+",
        ] {
            let tres = Tres::parse(text);
            assert_eq!((tres.gpus(), tres.hides_gpus()), (None, true), "{text}");
        }
        for (text, gpus) in [
            ("gres/gpu=4,me+", Some(4.0)),
            ("gres/gpu=4,gres/gpu:a100=x", Some(4.0)),
            ("cpu=4,mem=lots", None),
            ("cpu=4", None),
            ("", None),
        ] {
            let tres = Tres::parse(text);
            assert_eq!((tres.gpus(), tres.hides_gpus()), (gpus, false), "{text}");
        }
        assert!(Tres::parse("cpu=8,gre+").cut && !Tres::parse("cpu=8,gres/gpu=four").cut);
    }

    #[test]
    fn usage_is_read_with_and_without_units() {
        let usage = TresUsage::parse("cpu=00:56:24,energy=0,gres/gpumem=36266M,gres/gpuutil=200,mem=1");
        assert_eq!(usage.gpu_util_percent, Some(200.0));
        assert_eq!(usage.gpu_mem_bytes, Some(36_266.0 * 1_048_576.0));
    }

    proptest! {
        #[test]
        fn any_text_gives_no_negative_gpus(text in "[a-z/=:,0-9.é-]{0,40}") {
            prop_assert!(Tres::parse(&text).gpus().is_none_or(|gpus| gpus >= 0.0));
        }
    }
}
