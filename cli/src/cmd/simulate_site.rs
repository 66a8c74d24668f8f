//! Where the replays of `tracecast simulate` run: files that name nodes, quotas and limits, and what jobs ask of the topology.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use tracecast_planner::replay::input::{Hosts, LimitFile, QuotaFile, Site, TopologyRules};

use crate::exit::Usage;
use crate::source;

/// Files that say where the jobs of scenarios run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SiteFiles {
    pub(super) cluster: Option<PathBuf>,
    pub(super) quota: Option<PathBuf>,
    pub(super) limits: Option<PathBuf>,
    /// Rules, or `none`; nothing where what jobs asked themselves counts alone.
    pub(super) topology: Option<String>,
    pub(super) hosts: Hosts,
}

impl SiteFiles {
    /// What is said of scenarios that have these, where the others have those of `usual`.
    pub(super) fn phrase(&self, usual: &Self) -> String {
        let nodes = self.cluster.as_ref().filter(|_| self.cluster != usual.cluster);
        let quotas = self.quota.as_ref().filter(|_| self.quota != usual.quota);
        let limits = self.limits.as_ref().filter(|_| self.limits != usual.limits);
        let of = [("on the nodes of", nodes), ("within the quotas of", quotas), ("under the limits of", limits)];
        let mut said: Vec<String> =
            of.iter().filter_map(|(what, path)| Some(format!("{what} {}", (*path)?.display()))).collect();
        if self.limits.is_none() && usual.limits.is_some() {
            said.push("without limits".to_owned());
        }
        if self.topology != usual.topology {
            said.push(match &self.topology {
                Some(rules) if rules == "none" => "asking nothing of the topology".to_owned(),
                Some(rules) => match rules.strip_prefix("none,") {
                    Some(rules) => format!("asking for {}, whatever jobs asked themselves", rules.trim()),
                    None => format!("asking for {rules}"),
                },
                None => "asking of the topology what jobs asked themselves".to_owned(),
            });
        }
        if self.hosts != usual.hosts {
            said.push(match self.hosts {
                Hosts::Ignored => "with GPUs alone".to_owned(),
                Hosts::Usual | Hosts::AsRecorded => "with processors and memory beside GPUs".to_owned(),
            });
        }
        said.join(" and ")
    }

    /// What the files say.
    pub(super) fn read(&self, quotas: &mut QuotaFiles) -> Result<SiteRead> {
        let limits = |path: &PathBuf| -> Result<Arc<LimitFile>> {
            Ok(Arc::new(LimitFile::parse(&path.display().to_string(), &source::text(path)?)?))
        };
        let rules = |text: &String| -> Result<Arc<TopologyRules>> {
            TopologyRules::parse(text).map(Arc::new).map_err(|error| Usage(format!("--topology: {error}")).into())
        };
        Ok(SiteRead {
            site: self.cluster.as_deref().map(source::site).transpose()?,
            quotas: self.quota.as_deref().map(|path| quotas.read(path)).transpose()?,
            topology: match &self.topology {
                Some(text) => rules(text)?,
                None => Arc::new(TopologyRules::as_recorded()),
            },
            limits: self.limits.as_ref().map(limits).transpose()?,
            hosts: self.hosts,
        })
    }
}

/// What they say.
pub(super) struct SiteRead {
    pub(super) site: Option<Site>,
    pub(super) quotas: Option<Arc<QuotaFile>>,
    pub(super) limits: Option<Arc<LimitFile>>,
    pub(super) topology: Arc<TopologyRules>,
    pub(super) hosts: Hosts,
}

/// Files of quotas, each read once: they may hold all objects of a cluster, and several scenarios may name one.
#[derive(Default)]
pub(super) struct QuotaFiles(BTreeMap<PathBuf, Arc<QuotaFile>>);

impl QuotaFiles {
    fn read(&mut self, path: &Path) -> Result<Arc<QuotaFile>> {
        if let Some(known) = self.0.get(path) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(QuotaFile::parse(&path.display().to_string(), &source::text(path)?)?);
        self.0.insert(path.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// The scan under which the quotas of a file hold.
    pub(super) fn scan_of(&mut self, path: &Path) -> Result<Option<String>> {
        Ok(self.read(path)?.scan().scheduler().map(str::to_owned))
    }
}
