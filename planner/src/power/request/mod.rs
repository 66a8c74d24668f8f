//! What a power plan is asked: which demand, which days, what things draw and are worth, and for what promise.
//!
//! A request is made by whoever has one (the command line, a report, a test), with all defaults in place; nothing here reads a file or prints.
//!
//! Worked example: [`PowerRequest::default`] on a trace of 28 days learns on the first 21 and evaluates on the last 7, in slots of ten minutes, at what
//! an idle node of the mean number of GPUs draws.

pub(in crate::power) mod given;
pub mod thinning;

use serde::Deserialize;
use tracecast_analytics::Trace;
use tracecast_analytics::audit::factors::Hourly;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::{self, DAY_MS, HOUR_MS, Written, Zone};
use tracecast_predictors::demand::gather::{self, Asked, GivenNodes};
use tracecast_predictors::demand::{Series, Unit};

use crate::error::{Error, Result};
use crate::power::forward::clock::Clock;
use crate::power::forward::saved::KEPT_DAYS;
use crate::power::rule::ces::Thresholds;
use crate::power::score::Worth;
use crate::power::score::constants::Constants;
use crate::power::score::service::Service;
use crate::power::score::tariff::Rates;
use crate::power::study::choice::LEAST_BLOCKS;
use crate::power::study::{self, Request};
use crate::replay::input::Site;
use crate::sim;
use thinning::Thinning;

/// Options of the window of the evaluation.
pub const EVALUATED: [&str; 2] = ["--eval-from", "--eval-to"];

/// Demand that is planned for.
#[derive(Debug, Clone, PartialEq)]
pub struct Demanded {
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Only these VCs, and the pool of them; empty: all.
    pub vcs: Vec<String>,
    /// Whether what waits counts, up to what there is.
    pub pending: bool,
    /// Whether a whole cluster at 0 between busy samples is idle, and not an outage of the counting.
    pub outages_are_idle: bool,
    /// GPUs of a node, where they are said.
    pub gpus_per_node: Option<f64>,
}

impl Default for Demanded {
    fn default() -> Self {
        Self { slot_ms: HOUR_MS / 6, vcs: Vec::new(), pending: false, outages_are_idle: false, gpus_per_node: None }
    }
}

/// What makes an hour of sleep worth more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weigh {
    /// Price of the hour.
    Price,
    /// Carbon intensity of the hour.
    Carbon,
    /// Nothing.
    Nothing,
}

/// Price and emissions of energy, hour by hour.
#[derive(Debug, Clone, Default)]
pub struct Hours {
    /// Money for a kWh.
    pub price: Option<Hourly>,
    /// Currency of the prices.
    pub currency: Option<String>,
    /// Grams of CO₂ for a kWh.
    pub carbon: Option<Hourly>,
}

impl Hours {
    /// What hours are weighed by: what was asked for, else prices, else carbon, as far as they are known.
    ///
    /// # Errors
    /// If they are to be weighed by what is not known.
    pub fn weighing(&self, request: Option<Weigh>) -> Result<Option<(&'static str, &Hourly)>> {
        let chosen = match request {
            Some(chosen) => chosen,
            None if self.price.is_some() => Weigh::Price,
            None if self.carbon.is_some() => Weigh::Carbon,
            None => Weigh::Nothing,
        };
        let missing = |what: &str| Error::Power(what.to_owned());
        Ok(match chosen {
            Weigh::Nothing => None,
            Weigh::Price => {
                let price = self.price.as_ref();
                Some(("price", price.ok_or_else(|| missing("to weigh by price, name hourly prices with --price"))?))
            }
            Weigh::Carbon => {
                let carbon = self.carbon.as_ref();
                let why = "to weigh by carbon, name its hourly intensity with --carbon";
                Some(("carbon", carbon.ok_or_else(|| missing(why))?))
            }
        })
    }

    /// Rates by slot of the series.
    pub(super) fn rates(by: Option<(&str, &Hourly)>, series: &Series) -> Rates {
        let Some((name, by)) = by else { return Rates::default() };
        let by_slot = (0..series.slots.len()).map(|slot| by.at(series.time_ms(slot)));
        Rates { by_slot: by_slot.collect(), are_money: name == "price" }
    }

    /// A rate by hour from `from_ms` to `to_ms`, for a replay.
    pub(super) fn by_hour(rate: &Hourly, from_ms: i64, to_ms: i64) -> (i64, Vec<Option<f64>>) {
        let first = from_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let hours = usize::try_from((to_ms - first) / HOUR_MS + 1).unwrap_or(0);
        let hours = (0..hours).map(|hour| rate.at(first + HOUR_MS * i64::try_from(hour).unwrap_or(0)));
        (first, hours.collect())
    }
}

/// Power of nodes, and prices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figures {
    /// Power of nodes.
    pub power: Constants,
    /// Prices of sleep, service and wear.
    pub worth: Worth,
    /// Currency of the prices, such as EUR. Without it no money is told, as a number without a unit
    /// is none.
    pub currency: Option<String>,
}

/// Figures as a TOML text says them, which may be in part: the tables `power` and `worth`, and `currency`.
#[derive(Debug, Clone, Default)]
pub struct SaidFigures {
    said: Figures,
    table: toml::Table,
}

impl SaidFigures {
    /// Reads a text; `name` is what messages call it.
    ///
    /// # Errors
    /// If it is no TOML, or says what is not known.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let wrong = |error: toml::de::Error| Error::Power(format!("read {name}: {error}"));
        Ok(Self { said: toml::from_str(text).map_err(wrong)?, table: toml::from_str(text).map_err(wrong)? })
    }

    /// Completed: what was not said follows from the GPUs of a node (`gpus_per_node`, or the mean of the nodes with GPUs, which are those of a cluster file
    /// if `given`, else those of the trace) and the power of an idle one. What the trace's own inventory records of power and boots goes before what is assumed, where no other nodes are named. And what is
    /// assumed of the GPUs of a node, and of how long boots and shutdowns take, a sentence each.
    ///
    /// # Errors
    /// If they cannot be.
    pub fn complete(
        &self,
        gpus_per_node: Option<f64>,
        trace: &Trace,
        given: Option<&GivenNodes>,
    ) -> Result<(Figures, Vec<String>)> {
        let wrong = |what: String| Err(Error::Power(what));
        let mut result = self.said.clone();
        let said = |part: &str, key: &str| self.table.get(part).is_some_and(|part| part.get(key).is_some());
        let of_file = said("worth", "gpus_per_node").then_some(result.worth.gpus_per_node);
        let named = gpus_per_node.or(of_file);
        if let Some(gpus) = named.filter(|gpus| !(1.0..=1024.0).contains(gpus) || gpus.fract() != 0.0) {
            return wrong(format!("a node of {gpus} GPUs cannot be; name a whole number from 1 to 1024"));
        }
        let sizes = NodeSizes::new(trace);
        let gpus = match (named, given, &sizes) {
            (Some(gpus), _, _) => gpus,
            (None, Some(given), _) => given.gpus_per_node,
            (None, None, Some(sizes)) => sizes.mean,
            (None, None, None) => result.worth.gpus_per_node,
        };
        let assumed = match (named, given, &sizes) {
            (Some(_), _, _) => None,
            (None, Some(given), _) => {
                let (least, most) = given.gpus_range;
                (least < most).then(|| mixed(gpus, &format!(" ({least} to {most})"), &given.of))
            }
            (None, None, Some(sizes)) => (sizes.least < sizes.most).then(|| {
                mixed(
                    gpus,
                    &format!(" ({} to {})", format::compact(sizes.least), format::compact(sizes.most)),
                    "the source",
                )
            }),
            (None, None, None) => Some(format!(
                "How many GPUs a node has is not recorded: {gpus:.0} are assumed. `--gpus-per-node` says otherwise."
            )),
        };
        result.worth.gpus_per_node = gpus;
        let own = named.is_none() && given.is_none();
        let nodes = &trace.nodes;
        let idle_w = recorded(trace, |row| nodes.idle_w.get(row)).filter(|_| own && !said("power", "idle_w"));
        let boot_s = recorded(trace, |row| nodes.boot_s.get(row)).filter(|_| own && !said("power", "boot_s"));
        let boot_j = recorded(trace, |row| nodes.boot_j.get(row)).filter(|_| own && !said("power", "boot_j"));
        let power = &mut result.power;
        power.boot_s = boot_s.unwrap_or(power.boot_s);
        if !said("power", "idle_w") {
            power.idle_w = idle_w.unwrap_or(Constants::of_mean_node(gpus).idle_w);
        }
        if !said("power", "boot_j") {
            power.boot_j = boot_j.unwrap_or(power.idle_w * power.boot_s);
        }
        if !said("power", "shutdown_j") {
            power.shutdown_j = power.idle_w * power.shutdown_s;
        }
        power.validate()?;
        if power.idle_w <= power.off_w || power.pue_marginal <= 0.0 {
            return wrong(format!(
                "a node that is off must draw less than an idle one ({} W, {} W), and pue_marginal must be above 0, or sleep saves nothing",
                power.off_w, power.idle_w
            ));
        }
        let Worth { price_kwh, wear_h, gpu_hour, .. } = result.worth;
        if !(price_kwh > 0.0 && price_kwh.is_finite())
            || [wear_h, gpu_hour].iter().any(|value| !(*value >= 0.0 && value.is_finite()))
        {
            return wrong("[worth]: price_kwh must be above 0, wear_h and gpu_hour not below".to_owned());
        }
        let (boot, shutdown) = (format::duration(result.power.boot_s), format::duration(result.power.shutdown_s));
        let inventory = [
            idle_w.map(|watts| format!("{} W idle", format::float(watts, 0))),
            boot_s.map(|_| format!("{boot} to boot")),
            boot_j.map(|joules| format!("{} kJ for that", format::float(joules / 1e3, 0))),
        ];
        let inventory: Vec<String> = inventory.into_iter().flatten().collect();
        let inventory = (!inventory.is_empty()).then(|| {
            format!("Of a node the source records, on average: {}. --constants says otherwise.", inventory.join(", "))
        });
        let changeover = match (said("power", "boot_s") || boot_s.is_some(), said("power", "shutdown_s")) {
            (true, true) => None,
            (true, false) => Some(format!(
                "How long a node takes to shut down is assumed: {shutdown}. `shutdown_s` of --constants says otherwise."
            )),
            (false, _) => Some(format!(
                "How long a node takes to boot and to shut down is assumed: {boot} and {shutdown}. `boot_s` and `shutdown_s` of --constants say otherwise."
            )),
        };
        Ok((result, assumed.into_iter().chain(inventory).chain(changeover).collect()))
    }
}

impl SaidFigures {
    /// Assumption on the prices that choose a rule where no service is asked for, a sentence;
    /// `None` if all were said.
    pub(super) fn prices_assumed(&self, figures: &Figures) -> Option<String> {
        let said = |key: &str| self.table.get("worth").is_some_and(|worth| worth.get(key).is_some());
        let currency = figures.currency.as_deref().unwrap_or("USD");
        let Worth { price_kwh, wear_h, gpu_hour, .. } = figures.worth;
        let prices = [
            ("gpu_hour", format!("{} {currency} for a GPU-hour that waits", format::compact(gpu_hour))),
            ("price_kwh", format!("{} {currency} a kWh", format::compact(price_kwh))),
            ("wear_h", format!("{} h of idle energy for the wear of a wake", format::compact(wear_h))),
        ];
        let assumed: Vec<String> = prices.into_iter().filter(|(key, _)| !said(key)).map(|(_, price)| price).collect();
        (!assumed.is_empty()).then(|| {
            format!(
                "What chooses the rule is assumed: {}. `[worth]` of --constants says otherwise; under --promise it chooses none.",
                assumed.join(", ")
            )
        })
    }
}

/// Mean of a column of the inventory over the nodes with GPUs, if at least half of them have it
/// above 0.
fn recorded(trace: &Trace, column: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let with_gpus = || (0..trace.nodes.len()).filter(|row| trace.nodes.gpus.get(*row).is_some_and(|gpus| gpus >= 1.0));
    let known: Vec<f64> = with_gpus().filter_map(column).filter(|value| *value > 0.0 && value.is_finite()).collect();
    let most = !known.is_empty() && 2 * known.len() >= with_gpus().count();
    most.then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Assumption where nodes differ in their GPUs.
fn mixed(mean: f64, range: &str, of: &str) -> String {
    format!(
        "The nodes of {of} differ in their GPUs{range}: each is taken for one of the mean, {}, in what it serves and draws. Which of them sleep is for whoever carries the plan out.",
        format::float(mean, 2)
    )
}

/// GPUs of the nodes of an inventory that have any.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NodeSizes {
    mean: f64,
    least: f64,
    most: f64,
}

impl NodeSizes {
    /// `None` where no node is known to have any.
    fn new(trace: &Trace) -> Option<Self> {
        let known = || trace.nodes.gpus.iter().flatten().filter(|gpus| (1.0..=1024.0).contains(gpus));
        let many = known().count();
        (many > 0).then(|| Self {
            mean: known().sum::<f64>() / many as f64,
            least: known().fold(f64::INFINITY, f64::min),
            most: known().fold(0.0, f64::max),
        })
    }
}

/// How jobs are run again under the plan.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The nodes.
    pub site: Site,
    /// How jobs are scheduled.
    pub policy: sim::Policy,
}

/// A power plan, as it is asked for.
#[derive(Debug, Clone, Default)]
pub struct PowerRequest {
    /// Demand that is planned for.
    pub demand: Demanded,
    /// Whether each VC is planned on nodes of its own, too.
    pub by_vc: bool,
    /// Learn from slots from here on; else from the beginning.
    pub fit_from: Option<Written>,
    /// Evaluate slots from here on; else the last quarter.
    pub eval_from: Option<Written>,
    /// Evaluate slots before this; else to the end.
    pub eval_to: Option<Written>,
    /// Slots that a boot takes, such as 0.5; else as the constants have it.
    pub boot_slots: Option<f64>,
    /// The service promised; else the cheapest is chosen.
    pub service: Option<Service>,
    /// CES's published thresholds; else those for Philly for Philly, and those for Earth.
    pub ces: Option<Thresholds>,
    /// Power of nodes, and prices.
    pub figures: SaidFigures,
    /// Price and emissions of energy.
    pub hours: Hours,
    /// What hours are weighed by.
    pub weigh: Option<Weigh>,
    /// Leave out rules that learn chances of demand.
    pub naive: bool,
    /// Run the jobs again.
    pub replay: Option<Replayed>,
    /// The nodes of the plan, as host names in order, each once, and the list as it was written.
    pub nodes: Option<(Vec<String>, String)>,
    /// Nodes that never sleep, in host list notation.
    pub canaries: Option<String>,
}

/// Demand in nodes: each VC, and all as one pool.
#[derive(Debug, Clone)]
pub struct Pools {
    /// VCs.
    pub vcs: Vec<Series>,
    /// All nodes.
    pub pool: Series,
    /// Assumptions.
    pub notes: Vec<String>,
    /// What has to be known before any number is believed: what is left out, and why.
    pub cautions: Vec<String>,
    /// Cautions after which no answer can be relied on.
    pub doubts: Vec<String>,
    /// Series whose capacity the source does not tell.
    pub totals_unknown: Vec<String>,
    /// Whether demand comes from jobs, and not from counts.
    pub from_jobs: bool,
}

impl Pools {
    /// Demand in nodes where the source counts them, else in GPUs of nodes of `gpus`; of as many nodes as are `given`, else as the source tells.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(trace: &Trace, request: &PowerRequest, gpus: f64, given: Option<GivenNodes>) -> Result<Self> {
        let (demanded, zone) = (&request.demand, Zone::named(&trace.zone)?);
        let first_ms = |at: &Option<Written>| at.as_ref().map(|at| at.first_ms(&zone)).transpose();
        let of_file = given.as_ref().map(|given| given.of.clone());
        let options = gather::GatherOptions {
            slot_ms: demanded.slot_ms,
            asked: if demanded.pending { Asked::WithPendingUpToTotal } else { Asked::InUse },
            gpus_per_node: Some(gpus),
            vcs: demanded.vcs.clone(),
            outages_are_idle: demanded.outages_are_idle,
            unit: (trace.activity.is_empty() && !trace.jobs.is_empty()).then_some(Unit::Nodes),
            nodes: given,
            // What rules look back on lies before what they are fitted on.
            from_ms: first_ms(&request.fit_from)?.map(|fit_ms| fit_ms.saturating_sub(KEPT_DAYS * DAY_MS)),
            before_ms: first_ms(&request.eval_from)?,
            ..gather::GatherOptions::default()
        };
        let gathered = gather::gather(trace, &options)?;
        let mut vcs: Vec<Series> = gathered.series.iter().map(|series| study::in_nodes(series, gpus)).collect();
        if demanded.pending {
            // What waits is in the peaks already; nobody is to count it again.
            vcs.iter_mut().flat_map(|series| &mut series.slots).for_each(|slot| slot.pending = 0.0);
        }
        let waits_known = vcs.iter().all(|series| series.counts_pending);
        let pool = vcs.pop().ok_or_else(|| Error::NothingToEvaluate("there is no demand to plan for".to_owned()))?;
        if pool.slots.iter().all(|slot| slot.peak <= 0.0 || slot.total <= 0.0) {
            return Err(Error::NothingToEvaluate(format!(
                "{}: no node or GPU is ever in use; a source that counts GPUs or nodes is needed",
                pool.name
            )));
        }
        let mut cautions = gathered.cautions;
        cautions.extend(of_file.and_then(|file| beyond(&pool, &file)));
        let mut notes = gathered.notes;
        if demanded.pending {
            notes.push("Jobs that wait count as demand, up to the nodes there are (--pending).".to_owned());
        } else if !waits_known {
            notes.push("What waits is not recorded, so whether jobs waited beside idle nodes is not known.".to_owned());
        }
        notes.retain(|note| !cautions.contains(note));
        let (totals_unknown, from_jobs) = (gathered.totals_unknown, gathered.from_jobs);
        Ok(Self { vcs, pool, notes, cautions, doubts: gathered.doubts, totals_unknown, from_jobs })
    }

    /// Ends where the record [thins out](Thinning), if jobs tell the demand and it does; if `whole`, it is only said.
    pub(super) fn without_tail(mut self, whole: bool, clock: &Clock) -> Self {
        let Some(tail) = Some(&self.pool).filter(|_| self.from_jobs).and_then(Thinning::new) else { return self };
        let from = clock.show(tail.from_ms);
        let seen = format!(
            "**The record thins out from {from} ({}) on**: in its last {} days {} nodes are in use on average, after {} on a usual day before. Jobs are likely to be missing there.",
            clock.name(),
            tail.days,
            format::float(tail.nodes, 0),
            format::float(tail.usual, 0)
        );
        if whole {
            self.cautions.push(format!(
                "{seen} The days that were asked for may hold them, which makes sleep look better than it is."
            ));
            return self;
        }
        for series in self.vcs.iter_mut().chain(std::iter::once(&mut self.pool)) {
            let kept = (tail.from_ms - series.start_ms).div_euclid(series.slot_ms.max(1)).max(0);
            series.slots.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        }
        self.vcs.retain(|series| !series.slots.is_empty());
        self.cautions.push(format!("{seen} The plan and its test end before them; `--eval-to` takes them in."));
        self
    }

    /// Whether the capacity of a series is not told.
    pub fn unknown(&self, name: &str) -> bool {
        self.totals_unknown.iter().any(|unknown| unknown == name)
    }
}

/// How often more was in use than the nodes of a file, a sentence; `None` if it never was.
fn beyond(pool: &Series, file: &str) -> Option<String> {
    let over = pool.slots.iter().filter(|slot| slot.peak > slot.total).count();
    let most = pool.slots.iter().map(|slot| slot.peak).fold(0.0, f64::max);
    (over > 0).then(|| {
        format!(
            "**In {} of the time more nodes were needed than {file} has** (up to {}): all its nodes count as needed then. The file may be of another time, or the jobs may have waited.",
            format::percent(over as f64 / pool.slots.len().max(1) as f64),
            format::float(most, 0)
        )
    })
}

/// Moments that are learned from and evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// Learned from here on, milliseconds since the epoch.
    pub fit_ms: i64,
    /// Evaluated from here on.
    pub from_ms: i64,
    /// End of the evaluation.
    pub to_ms: i64,
}

impl Days {
    /// The days that were asked for; by default the last quarter is evaluated.
    ///
    /// # Errors
    /// If nothing is left to learn from or to evaluate.
    pub fn new(request: &PowerRequest, series: &Series, zone: &Zone) -> Result<Self> {
        let end = series.time_ms(series.slots.len());
        let window = time::Window::new(EVALUATED, request.eval_from.as_ref(), request.eval_to.as_ref())?;
        let (eval_from, eval_to) = window.resolve(zone)?;
        let to_ms = eval_to.unwrap_or(end).min(end);
        let fit_from = request.fit_from.as_ref().map(|from| from.first_ms(zone)).transpose()?;
        let fit_ms = fit_from.unwrap_or(series.start_ms).max(series.start_ms);
        let quarter = to_ms - (to_ms - fit_ms) / 4;
        let from_ms = eval_from.unwrap_or(quarter);
        let span = || format!("the series goes from {}", zone.show_between(series.start_ms, end));
        let wrong = |what: &str| Err(Error::NothingToEvaluate(format!("{what}; {}", span())));
        if from_ms >= to_ms {
            return wrong("nothing is left to evaluate: --eval-from is not before the end of the evaluation");
        }
        if from_ms <= fit_ms {
            return wrong("nothing is left to learn from: --eval-from is not after the beginning of the learning");
        }
        Ok(Self { fit_ms, from_ms, to_ms })
    }

    /// The slots of a series to learn from and to evaluate.
    pub(super) fn request(&self, series: &Series, like: &Request) -> Request {
        let slot = |ms: i64| usize::try_from((ms - series.start_ms).div_euclid(series.slot_ms)).unwrap_or(0);
        let eval = slot(self.from_ms)..slot(self.to_ms).min(series.slots.len());
        Request { fit: slot(self.fit_ms)..eval.start, eval, ..like.clone() }
    }

    /// Whether there are days enough to choose on (the last third of the past) to leave a plain rule.
    pub(super) fn may_tell(&self, series: &Series) -> bool {
        let days = (self.from_ms - self.fit_ms.max(series.start_ms)) / 3 / DAY_MS;
        usize::try_from(days).unwrap_or(0) >= LEAST_BLOCKS
    }

    /// Slots learned from and evaluated.
    pub fn slots(&self, series: &Series) -> u64 {
        u64::try_from((self.to_ms - self.fit_ms) / series.slot_ms).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use tracecast_analytics::schema::NodeRow;

    use super::*;

    /// Nodes of 8 GPUs, of which so many have an idle power and a boot, and a node without GPUs.
    fn inventory(nodes: u32, known: u32) -> Trace {
        let mut trace = Trace::default();
        for node in 0..nodes {
            let of = |value: f64| (node < known).then_some(value + f64::from(node));
            let row = NodeRow { gpus: Some(8.0), idle_w: of(1500.0), boot_s: of(400.0), ..NodeRow::default() };
            trace.nodes.push(NodeRow { node: Some(node.to_string().into()), ..row });
        }
        trace.nodes.push(NodeRow {
            node: Some("login".into()),
            gpus: Some(0.0),
            idle_w: Some(90.0),
            ..NodeRow::default()
        });
        trace
    }

    #[test]
    fn what_the_source_records_of_nodes_goes_before_what_is_assumed() {
        let of = |text: &str, gpus: Option<f64>, trace: &Trace| {
            let (figures, told) = SaidFigures::parse("power.toml", text).unwrap().complete(gpus, trace, None).unwrap();
            ((figures.power.idle_w, figures.power.boot_s, figures.power.boot_j), told.join(" "))
        };
        // Two of four have it: the mean, and a boot at the power of an idle node.
        let (result, told) = of("", None, &inventory(4, 2));
        assert_eq!(result, (1500.5, 400.5, 1500.5 * 400.5));
        assert!(told.contains("the source records") && told.contains("shut down is assumed"), "{told}");
        // One of four is too few, and stated constants have priority.
        let (result, told) = of("", None, &inventory(4, 1));
        assert_eq!(result, (1240.0, 300.0, 372_000.0));
        assert!(!told.contains("the source records"), "{told}");
        assert_eq!(of("[power]\nidle_w = 1000\nboot_s = 60", None, &inventory(4, 4)).0, (1000.0, 60.0, 60_000.0));
        // Nodes that are named are others.
        assert_eq!(of("", Some(4.0), &inventory(4, 4)).0.0, 620.0);
    }
}
