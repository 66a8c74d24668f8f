//! Names of orders and policies.
//!
//! Worked example: the default policy is "FIFO, skip, consolidated".

use tracecast_analytics::report::format;

use crate::policy::{Compat, Estimate, Order, Placement, Policy, Preemption, Scan};

impl Order {
    /// Returns the name for people.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::FewestGpus => "fewest GPUs first",
            Self::Sjf => "SJF",
            Self::Ljf => "LJF",
            Self::Srtf => "SRTF",
            Self::Qssf => "QSSF",
            Self::Aged(_) => "QSSF with ageing",
            Self::Alike(_) => "QSSF by jobs alike, aged by the longest wait",
            Self::Las => "LAS",
            Self::Tiresias(_) => "Tiresias (2D-LAS)",
            Self::Gittins => "Gittins index",
            Self::Wfp3 => "WFP3",
            Self::F1 => "F1",
            Self::Unicef => "UNICEF",
            Self::Multifactor(_) => "multifactor",
            Self::FairShare(_) => "fair share",
            Self::LongTerm => "long-term GPU-time fairness",
            Self::FinishTime => "finish-time fairness",
            Self::Score => "external score",
        }
    }
}

impl Policy {
    /// The policy in one line, for people.
    pub fn describe(&self) -> String {
        let order = match &self.order {
            Order::Aged(tau_ms) => format!("{} of {}", self.order.title(), format::duration(*tau_ms as f64 / 1e3)),
            Order::Alike(share) => format!("{} × {share}", self.order.title()),
            order => order.title().to_owned(),
        };
        let mut words = vec![order];
        words.push(
            match self.scan {
                Scan::Strict => "strict",
                Scan::Skip => "skip",
                Scan::Easy => "EASY backfill",
                Scan::Conservative => "conservative backfill",
                Scan::Slurm => "backfill as Slurm plans it",
                Scan::Kueue => "admission as Kueue's",
                Scan::Kai => "fair shares of queues as KAI's",
                Scan::Volcano => "what queues deserve as Volcano's",
            }
            .to_owned(),
        );
        words.push(match self.placement {
            Placement::Consolidate => "consolidated".to_owned(),
            Placement::FirstFit => "first fit".to_owned(),
            Placement::BestFit => "best fit".to_owned(),
            Placement::WorstFit => "worst fit".to_owned(),
            Placement::Spread => "spread".to_owned(),
            Placement::Random => "random nodes".to_owned(),
            Placement::Fragmentation => "least fragmentation".to_owned(),
            Placement::Buddy => "buddy cells".to_owned(),
            Placement::ANYWHERE => "anywhere".to_owned(),
            Placement::Locality(ms) => format!("local for {} s", ms / 1000),
        });
        if self.preemption == Preemption::Requeue {
            words.push("stopped jobs begin anew".to_owned());
        }
        if let Preemption::Checkpoint { one_ms, node_ms, many_ms } = self.preemption {
            let seconds = [one_ms, node_ms, many_ms].map(|ms| (ms as f64 / 1000.0).to_string()).join("/");
            words.push(format!("preemption at {seconds} s"));
        }
        if self.uses_durations() {
            words.push(
                match self.estimate {
                    Estimate::True => "durations known (oracle)",
                    Estimate::Requested => "durations by time limit",
                    Estimate::Predicted => "durations predicted",
                }
                .to_owned(),
            );
        }
        if let Some(ms) = self.interval_ms {
            words.push(format!("every {} s", ms as f64 / 1000.0));
        }
        if let Some(jobs) = self.most_looked_at() {
            words.push(format!("looking at {jobs} jobs"));
        }
        if let Some(ms) = self.farthest_ms() {
            words.push(format!("reserving {} ahead", format::duration(ms as f64 / 1000.0)));
        }
        if let Some(ms) = self.checkpoint_ms {
            words.push(format!("progress saved every {} s", ms as f64 / 1000.0));
        }
        if self.tenants_are_vcs {
            words.push("tenants are VCs".to_owned());
        }
        if self.compat == Compat::Helios {
            words.push("as the Helios simulator".to_owned());
        }
        words.join(", ")
    }
}
