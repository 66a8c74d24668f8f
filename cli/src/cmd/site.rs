//! `--site`: nodes, and the rules under which jobs run, from one file and from single words.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tracecast_planner::replay::input::{Hosts, LimitFile, QuotaFile, RULES, Site, TopologyRules};

use crate::args::duration;
use crate::exit::Usage;
use crate::{output, source};

/// Value of a rule that names no file.
const NONE: &str = "none";

/// Rules of the scheduler, which plans heed as `simulate` does.
pub(crate) const SCHEDULER: [&str; 7] = ["checkpoint", "compat", "depth", "hosts", "interval", "tenants", "window"];

/// Nodes of the site, and its rules.
#[derive(Debug, Clone, Args)]
pub(crate) struct SiteArguments {
    /// Site file (TOML) with nodes and rules, or one rule as KEY=VALUE; may be repeated [default: as the trace records]
    ///
    /// `tracecast cluster SOURCE` writes such a file with the nodes that the trace records, or infers them, and `tracecast schema site --example`
    /// prints one with comments. What is typed replaces the `site` of tracecast.toml. The rules stand in its table `[rules]`:
    ///   quota       quotas of queues: objects of Kueue, KAI or Volcano (YAML or JSON), whose scheduling is then replayed; or none
    ///   limits      limits by QOS, account and partition as Slurm has them: TOML, or what sacctmgr and scontrol print; or none
    ///   topology    what jobs ask of the topology where the trace does not say: required:LEVEL, preferred:LEVEL or
    ///               unconstrained, from so many GPUs on, such as required:rack:16; none; as-recorded
    ///   gangs       whether a gang gets as many nodes as it had in the record: as-recorded, or by-rule (the placement rule decides)
    ///   hosts       whether processors and memory count beside GPUs: none or as-recorded
    ///   interval    time between two scheduling decisions, such as 60s; a decision after every event if left out
    ///   depth       number of waiting jobs that --scan conservative and slurm look at (bf_max_job_test)
    ///   window      how far ahead they reserve, such as 1d (bf_window)
    ///   checkpoint  run time between two checkpoints of a job, such as 1h
    ///   tenants     tenants between whom fair orders share: user or vc
    ///   compat      published simulator to imitate: none or helios
    #[arg(long, value_name = "TOML|KEY=VALUE", verbatim_doc_comment, help_heading = "Jobs and nodes")]
    pub(crate) site: Vec<String>,
}

/// Nodes and rules that a command runs with.
#[derive(Debug, Clone, Default)]
pub(crate) struct SiteInput {
    /// The file that lists nodes, and its content.
    nodes: Option<(PathBuf, Site)>,
    rules: BTreeMap<String, String>,
    /// Names of the rules that were typed.
    typed: BTreeSet<String>,
    /// Waiting jobs that a decision looks at.
    pub(crate) depth: Option<u32>,
    /// Whether processors and memory count.
    pub(crate) hosts: Hosts,
    /// True if a gang gets as many nodes as it had in the record.
    pub(crate) gangs_as_recorded: bool,
}

impl SiteArguments {
    /// Reads the file that is named, if one is. Words come before what the file says.
    pub(crate) fn read(&self) -> Result<SiteInput> {
        let mut input = SiteInput::default();
        let rule = |word: &str| {
            let (key, value) = word.split_once('=')?;
            RULES.contains(&key).then(|| (key.to_owned(), value.to_owned()))
        };
        for path in self.site.iter().filter(|word| rule(word).is_none()).map(PathBuf::from) {
            if let Some((key, _)) = path.to_str().and_then(|word| word.split_once('=')).filter(|_| !path.exists()) {
                let what =
                    format!("--site {}: there is no rule `{key}`; there are {}", path.display(), RULES.join(", "));
                return Err(Usage(what).into());
            }
            let site = source::site(&path)?;
            for (key, value) in site.rules() {
                // Files are beside the file that names them.
                let beside = matches!(key, "quota" | "limits") && value != NONE;
                let value = match path.parent().filter(|_| beside) {
                    Some(folder) => folder.join(value).display().to_string(),
                    None => value,
                };
                input.rules.insert(key.to_owned(), value);
            }
            if site.has_nodes()
                && let Some((other, _)) = input.nodes.replace((path.clone(), site))
            {
                let what = format!("--site: {} and {} both list nodes; name one", other.display(), path.display());
                return Err(Usage(what).into());
            }
        }
        for (key, value) in self.site.iter().filter_map(|word| rule(word)) {
            input.typed.insert(key.clone());
            input.rules.insert(key, value);
        }
        for key in ["interval", "window", "checkpoint"] {
            if let Some(text) = input.rules.get(key) {
                duration(text).map_err(|error| Usage(format!("--site {key}: {error}")))?;
            }
        }
        input.depth = input.parsed("depth")?;
        input.hosts = input.parsed("hosts")?.unwrap_or(Hosts::Usual);
        input.gangs_as_recorded = match input.rules.get("gangs").map(String::as_str) {
            None | Some("by-rule") => false,
            Some("as-recorded") => true,
            Some(other) => {
                return Err(Usage(format!("--site gangs={other}: write as-recorded or by-rule")).into());
            }
        };
        Ok(input)
    }
}

impl SiteInput {
    /// Value of a rule.
    pub(crate) fn rule(&self, key: &str) -> Option<String> {
        self.rules.get(key).cloned()
    }

    /// File that a rule names.
    pub(crate) fn file(&self, key: &str) -> Option<PathBuf> {
        self.rules.get(key).filter(|file| *file != NONE).map(PathBuf::from)
    }

    /// True if the rule was typed, and not read from a file.
    pub(crate) fn is_typed(&self, key: &str) -> bool {
        self.typed.contains(key)
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<Option<T>> {
        let value = self.rules.get(key).map(|text| text.parse());
        Ok(value.transpose().map_err(|error| Usage(format!("--site {key}: {error}")))?)
    }

    /// Warns of typed rules that the command does not heed; `heeded` are those that it does. One
    /// site file serves every command, so rules of a file are no reason to warn.
    pub(crate) fn warn_of_others(&self, heeded: &[&str]) {
        let others: Vec<&str> = self.typed.iter().map(String::as_str).filter(|key| !heeded.contains(key)).collect();
        if !others.is_empty() {
            output::warn(&format!("--site: this command does not heed {}; `simulate` does", others.join(" and ")));
        }
    }

    /// The nodes of the file.
    pub(crate) fn site(&self) -> Option<&Site> {
        self.nodes.as_ref().map(|(_, site)| site)
    }

    /// The file that lists nodes.
    pub(crate) fn nodes_file(&self) -> Option<&Path> {
        self.nodes.as_ref().map(|(path, _)| path.as_path())
    }
}

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
    /// Phrase for how these files differ from `usual`, empty if they do not.
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

    /// Reads the files, but for the one that `input` has read.
    pub(super) fn read(&self, input: &SiteInput, quotas: &mut QuotaFiles) -> Result<SiteRead> {
        let limits = |path: &PathBuf| -> Result<Arc<LimitFile>> {
            Ok(Arc::new(LimitFile::parse(&path.display().to_string(), &source::text(path)?)?))
        };
        let rules = |text: &String| -> Result<Arc<TopologyRules>> {
            TopologyRules::parse(text).map(Arc::new).map_err(|error| Usage(format!("--site topology: {error}")).into())
        };
        Ok(SiteRead {
            site: match &self.cluster {
                Some(path) if input.nodes_file() == Some(path) => input.site().cloned(),
                other => other.as_deref().map(source::site).transpose()?,
            },
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

/// Contents of [`SiteFiles`].
pub(super) struct SiteRead {
    pub(super) site: Option<Site>,
    pub(super) quotas: Option<Arc<QuotaFile>>,
    pub(super) limits: Option<Arc<LimitFile>>,
    pub(super) topology: Arc<TopologyRules>,
    pub(super) hosts: Hosts,
}

/// Files of quotas, each read once: they may hold all objects of a cluster, and several scenarios
/// may name one.
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
