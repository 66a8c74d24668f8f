//! Policies as people write them: names of the switches, and files of scenarios.
//!
//! ```toml
//! [[scenario]]
//! name = "today"
//!
//! [[scenario]]
//! name = "backfill by limits"
//! scan = "easy"
//! estimate = "requested"
//! ```
//!
//! A scenario may have a `cluster` of its own, a cluster file; likewise a `quota` and `limits`, rules for the `topology`, and whether `hosts` count. Every other key but `name` has a default: FIFO, strict, consolidated, no preemption. Worked example: `multifactor:age=1000,max_age=7d`
//! weighs the age alone, which counts fully after a week.

use serde::{Deserialize, Serialize};
use toml::Spanned;
use tracecast_analytics::ingest::slurm;
use tracecast_analytics::time::{HOUR_MS, WEEK_MS};

use crate::error::{Error, Result, line_of};
use tracecast_sim::Weights;
use tracecast_sim::policy::{Compat, Estimate, Order, Placement, Policy, Preemption, Scan};

/// Bounds of Tiresias' queues if none are given, GPU-seconds.
const TIRESIAS_BOUNDS: [f64; 3] = [3_250.0, 7_200.0, 18_000.0];
/// Bound of the one queue of Tiresias in Lucid's simulator, GPU-seconds.
const LUCID_BOUND: f64 = 18_000.0;
/// Wait after which locality is given up if none is given, milliseconds.
const LOCALITY_MS: i64 = 150_000;

/// A policy as it is written down. All but the name may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Who is served first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How the queue is walked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<String>,
    /// Where jobs go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Whether running jobs may be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<String>,
    /// Which duration the scheduler knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// Decide only at multiples of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Jobs that the scans `conservative` and `slurm` look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// How far ahead the scans `conservative` and `slurm` reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How often jobs save their progress by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Between whom fairness is: `user` or `vc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<String>,
    /// Whose simulator is imitated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<String>,
    /// Seed of what is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// File of its nodes, from the folder of the scenarios on; those of all scenarios if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// File of the quotas of its queues, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// File of the limits by QOS, account and partition, likewise; `none` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
    /// Topology requests of the jobs, as rules; `none` for nothing, `as-recorded` for the jobs'
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Whether processors and memory count beside GPUs: `none` or `as-recorded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    scenario: Vec<Spanned<Scenario>>,
}

impl Scenario {
    /// A scenario of which only the order is given.
    pub fn of_order(order: &str) -> Self {
        Self { name: order.to_owned(), order: Some(order.to_owned()), ..Self::default() }
    }

    /// A policy in short: `ORDER`, `ORDER/SCAN` or `ORDER/SCAN/ESTIMATE`. What is not named is left open.
    ///
    /// # Errors
    /// If there are more parts than that.
    pub fn parse_short(text: &str) -> Result<Self> {
        let mut parts = text.split('/').map(|part| Some(part.trim().to_owned()).filter(|part| !part.is_empty()));
        let mut next = || parts.next().flatten();
        let short = Self { order: next(), scan: next(), estimate: next(), ..Self::default() };
        if parts.next().is_some() {
            return Err(malformed("policy", text, "write ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE"));
        }
        Ok(short)
    }

    /// This scenario, with what it leaves open taken from `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let text = |given: Option<String>, other: &Option<String>| given.or_else(|| other.clone());
        Self {
            name: self.name,
            order: text(self.order, &other.order),
            scan: text(self.scan, &other.scan),
            place: text(self.place, &other.place),
            preempt: text(self.preempt, &other.preempt),
            estimate: text(self.estimate, &other.estimate),
            interval: text(self.interval, &other.interval),
            depth: self.depth.or(other.depth),
            window: text(self.window, &other.window),
            checkpoint: text(self.checkpoint, &other.checkpoint),
            tenants: text(self.tenants, &other.tenants),
            compat: text(self.compat, &other.compat),
            seed: self.seed.or(other.seed),
            cluster: text(self.cluster, &other.cluster),
            quota: text(self.quota, &other.quota),
            limits: text(self.limits, &other.limits),
            topology: text(self.topology, &other.topology),
            hosts: text(self.hosts, &other.hosts),
        }
    }

    /// The policies of a list such as `fifo,sjf/easy,tiresias:3250,7200`, each as [`Scenario::parse_short`] has it and called what was written: a
    /// comma within the parameters of an order does not end it.
    ///
    /// # Errors
    /// Errors of [`Scenario::parse_short`].
    pub fn parse_list(list: &str) -> Result<Vec<Self>> {
        let mut orders: Vec<String> = Vec::new();
        for piece in list.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
            let name = piece.split([':', '/']).next().unwrap_or_default();
            match orders.last_mut() {
                Some(last) if last.contains(':') && !ORDERS.contains(&name) => {
                    last.push(',');
                    last.push_str(piece);
                }
                _ => orders.push(piece.to_owned()),
            }
        }
        orders.iter().map(|text| Ok(Self { name: text.clone(), ..Self::parse_short(text)? })).collect()
    }

    /// The scenarios of a file, `name` being what to call the file in messages.
    ///
    /// # Errors
    /// If the file is not TOML of this form, has no scenario, two of one name, or one that makes no policy.
    pub fn parse_file(name: &str, text: &str) -> Result<Vec<Self>> {
        let wrong = |at: usize, what: String| Error::File { file: name.to_owned(), line: line_of(text, at), what };
        let file: File = toml::from_str(text).map_err(|error| Error::toml(name, text, &error))?;
        if file.scenario.is_empty() {
            return Err(wrong(0, "there is no [[scenario]]".to_owned()));
        }
        let mut scenarios: Vec<Self> = Vec::with_capacity(file.scenario.len());
        for spanned in file.scenario {
            let (at, scenario) = (spanned.span().start, spanned.into_inner());
            if scenarios.iter().any(|other| other.name == scenario.name) {
                let what = format!("two scenarios are called `{}`; give each a name of its own", scenario.name);
                return Err(wrong(at, what));
            }
            if let Err(error) = scenario.policy(false) {
                return Err(wrong(at, format!("scenario `{}`: {error}", scenario.name)));
            }
            scenarios.push(scenario);
        }
        Ok(scenarios)
    }

    /// The policy it stands for; `predictions` says whether there are any.
    ///
    /// # Errors
    /// If a switch has no such position; the message lists those there are.
    pub fn policy(&self, predictions: bool) -> Result<Policy> {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        let compat = match given(&self.compat).as_str() {
            "" | "none" => Compat::None,
            "helios" => Compat::Helios,
            other => return Err(unknown("compat", other, &["none", "helios"])),
        };
        let order = parse_order(&given(&self.order), compat)?;
        let scan = match given(&self.scan).as_str() {
            "" => Scan::Strict,
            named => Scan::called(named).ok_or_else(|| unknown("scan", named, &SCANS))?,
        };
        let placement = parse_placement(&given(&self.place))?;
        let estimate = match given(&self.estimate).as_str() {
            "" if predictions
                && (matches!(order, Order::Qssf | Order::Aged(_) | Order::Alike(_)) || scan.backfills()) =>
            {
                Estimate::Predicted
            }
            "" | "true" => Estimate::True,
            "requested" => Estimate::Requested,
            "predicted" => Estimate::Predicted,
            other => return Err(unknown("estimate", other, &["true", "requested", "predicted"])),
        };
        let helios = compat == Compat::Helios;
        // That simulator has these orders with preemption only.
        let preemption = match (given(&self.preempt).as_str(), &order) {
            ("", Order::Srtf) if helios => Preemption::HELIOS,
            ("", Order::Tiresias(_)) if helios => Preemption::TIRESIAS,
            // Its queues say whether jobs are stopped; they lose what they did.
            ("", _) if scan.scheduler().is_some() => Preemption::Requeue,
            ("" | "never", _) => Preemption::Never,
            ("helios", _) => Preemption::HELIOS,
            ("tiresias", _) => Preemption::TIRESIAS,
            ("requeue", _) => Preemption::Requeue,
            (costs, _) => parse_costs(costs)?,
        };
        let interval_ms = match (&self.interval, &order) {
            (Some(text), _) => Some(parse_duration(text)?),
            (None, Order::Tiresias(_)) if helios => Some(60_000),
            (None, _) => None,
        };
        let tenants_are_vcs = match given(&self.tenants).as_str() {
            "" | "user" => false,
            "vc" => true,
            other => return Err(unknown("tenants", other, &["user", "vc"])),
        };
        Ok(Policy {
            order,
            scan,
            placement,
            preemption,
            estimate,
            interval_ms,
            depth: self.depth,
            window_ms: self.window.as_deref().map(parse_duration).transpose()?,
            checkpoint_ms: self.checkpoint.as_deref().map(parse_duration).transpose()?,
            tenants_are_vcs,
            seed: self.seed.unwrap_or(1),
            compat,
        })
    }
}

/// Default ageing time of an order by jobs alike, as a share of the longest wait.
const ALIKE_SHARE: f64 = 0.5;

/// Names of the orders.
pub const ORDERS: [&str; 19] = [
    "fifo",
    "fewest-gpus",
    "sjf",
    "ljf",
    "srtf",
    "qssf",
    "aged",
    "alike",
    "las",
    "tiresias",
    "gittins",
    "wfp3",
    "f1",
    "unicef",
    "multifactor",
    "fair-share",
    "long-term",
    "finish-time",
    "score",
];

/// Names of the scans, in the order of [`Scan::ALL`].
pub const SCANS: [&str; 8] = ["strict", "skip", "easy", "conservative", "slurm", "kueue", "kai", "volcano"];

/// Names of the placement rules.
pub const PLACEMENTS: [&str; 10] =
    ["consolidate", "first-fit", "best-fit", "worst-fit", "spread", "random", "fgd", "buddy", "locality", "anywhere"];

fn unknown(what: &'static str, found: &str, known: &'static [&'static str]) -> Error {
    Error::Unknown { what, found: found.to_owned(), known }
}

fn malformed(what: &'static str, found: &str, remedy: impl Into<String>) -> Error {
    Error::Malformed { what, found: found.to_owned(), remedy: remedy.into() }
}

fn parse_order(text: &str, compat: Compat) -> Result<Order> {
    let (name, parameters) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let plain = |order: Order| match parameters {
        None => Ok(order),
        Some(_) => Err(Error::policy(format!("the order `{name}` takes no parameters"))),
    };
    match name {
        "" | "fifo" => plain(Order::Fifo),
        "fewest-gpus" => plain(Order::FewestGpus),
        "sjf" => plain(Order::Sjf),
        "ljf" => plain(Order::Ljf),
        "srtf" => plain(Order::Srtf),
        "qssf" => plain(Order::Qssf),
        "aged" => Ok(Order::Aged(parameters.map_or(Ok(HOUR_MS), parse_duration)?)),
        "alike" => {
            let share = parameters.map_or(Ok(ALIKE_SHARE), |share| share.trim().parse());
            share.map(Order::Alike).map_err(|_| malformed("share of the longest wait", text, "write alike:0.5"))
        }
        "las" => plain(Order::Las),
        "gittins" => plain(Order::Gittins),
        "wfp3" => plain(Order::Wfp3),
        "f1" => plain(Order::F1),
        "unicef" => plain(Order::Unicef),
        "long-term" => plain(Order::LongTerm),
        "finish-time" => plain(Order::FinishTime),
        "score" => plain(Order::Score),
        "tiresias" => {
            let Some(list) = parameters else {
                let helios = compat == Compat::Helios;
                return Ok(Order::Tiresias(if helios { vec![LUCID_BOUND] } else { TIRESIAS_BOUNDS.to_vec() }));
            };
            let bounds: std::result::Result<Vec<f64>, _> = list.split(',').map(|bound| bound.trim().parse()).collect();
            let wrong = || malformed("list of GPU-seconds", list, "write tiresias:3250,7200,18000");
            bounds.map(Order::Tiresias).map_err(|_| wrong())
        }
        "fair-share" => Ok(Order::FairShare(parameters.map_or(Ok(WEEK_MS), parse_duration)?)),
        "multifactor" => parse_weights(parameters.unwrap_or_default()).map(Order::Multifactor),
        other => Err(unknown("order", other, &ORDERS)),
    }
}

fn parse_weights(text: &str) -> Result<Weights> {
    let mut weights = Weights::default();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let number = || {
            let parsed = value.parse::<f64>().ok().filter(|number| number.is_finite());
            parsed.ok_or_else(|| malformed("weight with a number", item, format!("write {name}=1000")))
        };
        match name {
            "age" => weights.age = number()?,
            "fair_share" => weights.fair_share = number()?,
            "size" => weights.size = number()?,
            "qos" => weights.qos = number()?,
            "favor_small" if value.is_empty() => weights.favor_small = true,
            "max_age" => weights.max_age_ms = parse_duration(value)?,
            "half_life" => weights.half_life_ms = parse_duration(value)?,
            other => {
                const KNOWN: [&str; 7] = ["age", "fair_share", "size", "qos", "favor_small", "max_age", "half_life"];
                return Err(unknown("weight of multifactor", other, &KNOWN));
            }
        }
    }
    Ok(weights)
}

fn parse_placement(text: &str) -> Result<Placement> {
    let (name, timeout) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    if timeout.is_some() && name != "locality" {
        return Err(Error::policy(format!("the placement `{name}` takes no parameters")));
    }
    Ok(match name {
        "" | "consolidate" => Placement::Consolidate,
        "first-fit" => Placement::FirstFit,
        "best-fit" => Placement::BestFit,
        "worst-fit" => Placement::WorstFit,
        "spread" => Placement::Spread,
        "random" => Placement::Random,
        "fgd" => Placement::Fragmentation,
        "buddy" => Placement::Buddy,
        "anywhere" => Placement::ANYWHERE,
        "locality" => Placement::Locality(timeout.map_or(Ok(LOCALITY_MS), parse_duration)?),
        other => return Err(unknown("placement", other, &PLACEMENTS)),
    })
}

fn parse_costs(text: &str) -> Result<Preemption> {
    let costs: Vec<&str> = text.split(',').map(str::trim).collect();
    let [one, node, many] = costs.as_slice() else {
        return Err(malformed(
            "preemption",
            text,
            "there are never, requeue, helios (7s,30s,60s), tiresias (40s,40s,60s), or three lengths of time such as 5s,20s,60s",
        ));
    };
    Ok(Preemption::Checkpoint {
        one_ms: parse_duration(one)?,
        node_ms: parse_duration(node)?,
        many_ms: parse_duration(many)?,
    })
}

/// A length of time such as `90s`, `10m`, `2h`, `7d`, `500ms`, or as Slurm writes it with hours or days, `12:00:00` and `1-00:00:00`; a bare number is seconds. In milliseconds.
///
/// # Errors
/// If it is none, or negative, or beyond a century.
pub fn parse_duration(text: &str) -> Result<i64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => Some(1.0),
        "" | "s" => Some(1e3),
        "m" | "min" => Some(60e3),
        "h" => Some(3_600e3),
        "d" => Some(86_400e3),
        _ => None,
    };
    // Two numbers with a colon are minutes to Slurm and hours to others.
    let clock = text.matches(':').count() == 2;
    let value = match clock {
        true => slurm::duration::seconds(text).map(|seconds| seconds * 1e3),
        false => number.trim().parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor),
    };
    match value {
        Some(ms) if (0.0..=3.2e12).contains(&ms) => Ok(ms.round() as i64),
        _ => Err(malformed("length of time", text, "write 90s, 10m, 2h, 7d or 1-00:00:00")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
