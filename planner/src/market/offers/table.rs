//! Instances of tables of prices beside those of an offers file.
//!
//! What the file says of an instance goes first. It means an instance of a table if it has its name; or if it has its instance type, GPUs and GPU type, in every zone of every cloud that it does not tell apart by `zone` and `provider`.
//! Such instances of the tables are left out, with a count. Two instances never have one name: the later takes a longer one.
//!
//! O(instances of the tables × instances of the file). Worked example: a table has `p3.2xlarge` in two zones, as `p3.2xlarge` and as `p3.2xlarge 1xV100 us-east-1b`. A file with `name = "p3.2xlarge"`, one GPU and no zone stands in place
//! of both, one with `zone = "us-east-1a"` in place of the first.

use std::collections::BTreeSet;

use tracecast_analytics::report::format;

use super::{InstanceOffer, Offers};

/// An instance of a table of prices, and other names of its GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedOffer {
    /// The instance.
    pub offer: InstanceOffer,
    /// What jobs may call its GPUs as well.
    pub also: Vec<String>,
    /// Longer names, for where its name is taken.
    pub longer: Vec<String>,
}

/// The instances of tables of prices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListedOffers {
    /// The instances, in the order of the tables.
    pub offers: Vec<ListedOffer>,
    /// What was left out, and what stands together, as clauses that begin small.
    pub notes: Vec<String>,
}

/// A name of a GPU in small letters, with dashes where others write blanks.
pub(in super::super) fn plain_name(gpu: &str) -> String {
    gpu.replace(' ', "-").to_ascii_lowercase()
}

/// Whether two are told to be other than each other.
fn differ(one: Option<&String>, other: Option<&String>) -> bool {
    one.zip(other).is_some_and(|(one, other)| !one.eq_ignore_ascii_case(other))
}

impl ListedOffer {
    /// Whether an instance of a file, whose GPUs have these names, is this one.
    fn is_meant(&self, by: &InstanceOffer, names: &[String]) -> bool {
        let is_elsewhere = differ(by.zone.as_ref(), self.offer.zone.as_ref())
            || differ(by.provider.as_ref(), self.offer.provider.as_ref());
        let written = by.instance_type.as_ref().unwrap_or(&by.name);
        let is_type = self.offer.instance_type.as_ref() == Some(written) && self.offer.gpus == by.gpus;
        let mut gpus = std::iter::once(&self.offer.gpu).chain(&self.also);
        let is_gpu = gpus.any(|gpu| names.iter().any(|name| plain_name(name) == plain_name(gpu)));
        !is_elsewhere && (by.name == self.offer.name || is_type && is_gpu)
    }

    /// The first of its names that is free.
    fn free_name(&self, taken: &BTreeSet<String>) -> String {
        let names = std::iter::once(&self.offer.name).chain(&self.longer);
        let longest = self.longer.last().unwrap_or(&self.offer.name);
        let numbered = (2..=taken.len() + 2).map(|number| format!("{longest} ({number})"));
        names.cloned().chain(numbered).find(|name| !taken.contains(name)).unwrap_or_else(|| longest.clone())
    }
}

impl Offers {
    /// Puts the instances of tables behind those of the file.
    pub(super) fn add(&mut self, listed: &ListedOffers) {
        let of_file: Vec<(InstanceOffer, Vec<String>)> = self
            .instances
            .iter()
            .enumerate()
            .filter_map(|(at, offer)| {
                let pool = self.pools.iter().find(|pool| pool.instances.contains(&at))?;
                Some((offer.clone(), pool.names.clone()))
            })
            .collect();
        let mut taken: BTreeSet<String> = of_file.iter().map(|(offer, _)| offer.name.clone()).collect();
        taken.extend(self.owned.iter().map(|node| node.name.clone()));
        let (mut meant, mut left_out): (BTreeSet<String>, u64) = (BTreeSet::new(), 0);
        for entry in &listed.offers {
            let by = of_file.iter().position(|(offer, names)| entry.is_meant(offer, names));
            if let Some(offer) = by.and_then(|at| self.instances.get_mut(at)) {
                left_out += 1;
                meant.insert(offer.name.clone());
                // What the file does not say of it, the table does.
                if offer.name == entry.offer.name && offer.instance_type.as_ref() == Some(&offer.name) {
                    offer.instance_type.clone_from(&entry.offer.instance_type);
                }
                if offer.provider.is_none() {
                    offer.provider.clone_from(&entry.offer.provider);
                }
                continue;
            }
            let name = entry.free_name(&taken);
            taken.insert(name.clone());
            let at = self.instances.len();
            self.instances.push(InstanceOffer { name, ..entry.offer.clone() });
            // What a table calls the same GPUs is one pool with that of the file.
            let called: Vec<String> =
                std::iter::once(&entry.offer.gpu).chain(&entry.also).map(|name| plain_name(name)).collect();
            let known = self.pools.iter().find(|pool| called.contains(&plain_name(&pool.gpu)));
            let known = known.map(|pool| pool.gpu.clone());
            let pool = self.pool(known.as_ref().unwrap_or(&entry.offer.gpu));
            pool.instances.push(at);
            for name in std::iter::once(&entry.offer.gpu).chain(&entry.also) {
                if !pool.names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    pool.names.push(name.clone());
                }
            }
        }
        self.notes.clone_from(&listed.notes);
        if left_out > 0 {
            let count = format::counted(left_out, "instance", "instances");
            let names: Vec<&str> = meant.iter().map(String::as_str).collect();
            self.notes.push(format!(
                "left out: {count} of the tables that {} describes itself ({})",
                self.file,
                names.join(", ")
            ));
        }
    }
}
