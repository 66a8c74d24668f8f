//! What a specification must fulfil, and the names in it resolved.
//!
//! Every refusal names the key, what was found and what to write instead. O(n) in the keys, and O(n^2) in VCs, which must
//! have names of their own. Worked number: of VCs of 4 and 2 nodes, the second can give one node away, not two.

use tracecast_analytics::time::{DAY_MS, Zone, parse_local};
use tracecast_analytics::{Error, Result};

use super::{Checked, ShareSpec, Spec, TelemetrySpec, VcSpec};
use crate::sim::{Estimate, Order};
use crate::synth::schedule::MAX_UNITS;

impl Spec {
    /// Checks that the specification makes sense.
    ///
    /// # Errors
    /// When it does not, with the key concerned.
    pub fn check(&self) -> Result<Checked> {
        let zone = Zone::named(&self.cluster.zone)?;
        let start_ms = parse_local(&self.cluster.start)
            .and_then(|local| zone.resolve(local))
            .map(|(ms, _)| ms)
            .ok_or_else(|| wrong("cluster.start", &self.cluster.start, "write a date as YYYY-MM-DD"))?;
        let end_ms = start_ms + i64::from(self.cluster.days) * DAY_MS;
        self.check_cluster()?;
        let (changes, least_nodes) = self.check_changes(start_ms)?;
        self.check_demand(&least_nodes)?;
        self.check_rest()?;
        let policy = self
            .scheduler
            .policy()
            .map_err(|error| wrong("scheduler", &error.to_string(), "write what `tracecast simulate` takes"))?;
        if matches!(policy.order, Order::Score | Order::Gittins) || policy.estimate == Estimate::Predicted {
            return Err(wrong(
                "scheduler",
                "a policy that needs a history, predictions or a file",
                "choose one that needs nothing but the jobs, such as `fifo`",
            ));
        }
        Ok(Checked { spec: self.clone(), zone, start_ms, end_ms, changes, policy, least_nodes })
    }

    fn check_cluster(&self) -> Result<()> {
        let cluster = &self.cluster;
        between_int("cluster.days", cluster.days, 1, 3_660)?;
        between_int("cluster.gpus_per_node", cluster.gpus_per_node, 1, MAX_UNITS)?;
        between_int("cluster.cpu_job_cores_per_node", cluster.cpu_job_cores_per_node, 1, MAX_UNITS)?;
        in_range("cluster.boot_s", cluster.boot_s, 0.0, 86_400.0)?;
        if self.vc.is_empty() {
            return Err(wrong("vc", "no VC", "give at least one [[vc]] with a name and nodes"));
        }
        for (ix, vc) in self.vc.iter().enumerate() {
            between_int("vc.nodes", vc.nodes, 1, 100_000)?;
            in_range("vc.load", vc.load, 0.0, 100.0)?;
            if self.vc.iter().take(ix).any(|other| other.name == vc.name) {
                return Err(wrong("vc.name", &vc.name, "give each VC a name of its own"));
            }
        }
        if self.vc.iter().all(|vc| vc.load <= 0.0) {
            return Err(wrong("vc.load", "no VC has any demand", "give at least one VC a load above 0"));
        }
        Ok(())
    }

    #[allow(clippy::type_complexity)]
    fn check_changes(&self, start_ms: i64) -> Result<(Vec<(i64, u32, u32, u32)>, Vec<u32>)> {
        let index = |name: &str| -> Result<u32> {
            let ix = self.vc.iter().position(|vc| vc.name == name);
            ix.and_then(|ix| u32::try_from(ix).ok()).ok_or_else(|| wrong("change", name, "name a VC that exists"))
        };
        let mut changes = Vec::new();
        for change in &self.change {
            in_range("change.day", change.day, 0.0, f64::from(self.cluster.days))?;
            let at_ms = start_ms + (change.day * DAY_MS as f64) as i64;
            changes.push((at_ms, index(&change.from)?, index(&change.to)?, change.nodes));
        }
        changes.sort_by_key(|(at_ms, ..)| *at_ms);
        // A node that is given may arrive late, so what a VC gets is not counted.
        let mut least: Vec<u32> = self.vc.iter().map(|vc| vc.nodes).collect();
        for (_, from, _, nodes) in &changes {
            if let Some(left) = least.get_mut(*from as usize) {
                if *nodes >= *left {
                    return Err(wrong("change.nodes", &nodes.to_string(), "leave the VC that gives at least one node"));
                }
                *left -= nodes;
            }
        }
        Ok((changes, least))
    }

    fn check_demand(&self, least_nodes: &[u32]) -> Result<()> {
        let users = &self.users;
        between_int("users.count", users.count, 1, 1_000_000)?;
        in_range("users.zipf", users.zipf, 0.0, 5.0)?;
        in_range("users.families", users.families, 1.0, 1_000.0)?;
        in_range("users.recurrence", users.recurrence, 0.0, 1.0)?;
        in_range("users.from_start", users.from_start, 0.0, 1.0)?;
        for class in &users.class {
            in_range("users.class.share", class.share, 0.0, 1.0)?;
            in_range("users.class.size_lean", class.size_lean, -5.0, 5.0)?;
            in_range("users.class.run_lean", class.run_lean, -10.0, 10.0)?;
        }
        let arrivals = &self.arrivals;
        let jobs = arrivals.jobs_per_day * f64::from(self.cluster.days);
        if !(1.0..=50e6).contains(&jobs) {
            let problem = format!("{jobs} jobs in all");
            return Err(wrong("arrivals.jobs_per_day", &problem, "ask for between 1 and 50 million jobs in all"));
        }
        in_range("arrivals.cpu_share", arrivals.cpu_share, 0.0, 1.0)?;
        in_range("arrivals.burst_share", arrivals.burst_share, 0.0, 1.0)?;
        in_range("arrivals.burst_mean", arrivals.burst_mean, 2.0, 1_000.0)?;
        for (key, values, count) in
            [("arrivals.hourly", &arrivals.hourly, 24), ("arrivals.weekly", &arrivals.weekly, 7)]
        {
            if values.len() != count
                || values.iter().any(|v| !v.is_finite() || *v < 0.0)
                || values.iter().sum::<f64>() <= 0.0
            {
                return Err(wrong(key, &format!("{values:?}"), &format!("give {count} rates, none below 0")));
            }
        }
        let widest = least_nodes.iter().zip(&self.vc).filter(|(_, vc)| vc.load > 0.0).map(|(nodes, _)| *nodes).max();
        let most = widest.unwrap_or(0) * self.cluster.gpus_per_node;
        check_shares("sizes.gpus", &self.sizes.gpus, most)?;
        check_shares("sizes.cores", &self.sizes.cores, self.cluster.cpu_job_cores_per_node)?;
        if let Some(mean) = self.sizes.mean_gpus {
            let sizes = self.sizes.gpus.iter().filter(|size| size.share > 0.0).map(|size| size.size);
            let (least, most) = (sizes.clone().min().unwrap_or(1), sizes.max().unwrap_or(1));
            in_range("sizes.mean_gpus", mean, f64::from(least), f64::from(most))?;
        }
        for (key, run) in [("gpu_runs", &self.gpu_runs), ("cpu_runs", &self.cpu_runs)] {
            in_range(&format!("{key}.median_s"), run.median_s, 0.5, 1e8)?;
            in_range(&format!("{key}.mean_s"), run.mean_s, run.median_s, run.max_s)?;
            in_range(&format!("{key}.max_s"), run.max_s, 1.0, 1e9)?;
            in_range(&format!("{key}.body_sigma"), run.body_sigma, 0.01, 10.0)?;
            in_range(&format!("{key}.tail_sigma"), run.tail_sigma, 0.01, 10.0)?;
            in_range(&format!("{key}.tail_share"), run.tail_share, 0.01, 0.45)?;
            if run.variance.iter().any(|part| !(0.0..=1e6).contains(part)) || run.variance.iter().sum::<f64>() <= 0.0 {
                return Err(wrong(
                    &format!("{key}.variance"),
                    &format!("{:?}", run.variance),
                    "give four parts, not all 0",
                ));
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<()> {
        for (key, states) in [("gpu_states", &self.gpu_states), ("cpu_states", &self.cpu_states)] {
            for (name, share) in [
                ("cancelled", states.cancelled),
                ("failed", states.failed),
                ("cancelled_time", states.cancelled_time.unwrap_or(0.0)),
                ("failed_time", states.failed_time.unwrap_or(0.0)),
                ("timeout", states.timeout),
                ("out_of_memory", states.out_of_memory),
            ] {
                in_range(&format!("{key}.{name}"), share, 0.0, 1.0)?;
            }
            in_range(&format!("{key}: cancelled + failed"), states.cancelled + states.failed, 0.0, 1.0)?;
            let times = states.cancelled_time.unwrap_or(0.0) + states.failed_time.unwrap_or(0.0);
            in_range(&format!("{key}: cancelled_time + failed_time"), times, 0.0, 1.0)?;
            in_range(&format!("{key}: timeout + out_of_memory"), states.timeout + states.out_of_memory, 0.0, 1.0)?;
        }
        if self.limits.menu_h.is_empty()
            || !self.limits.menu_h.is_sorted()
            || self.limits.menu_h.iter().any(|h| *h <= 0.0)
        {
            return Err(wrong("limits.menu_h", &format!("{:?}", self.limits.menu_h), "give rising hours above 0"));
        }
        in_range("limits.without", self.limits.without, 0.0, 1.0)?;
        in_range("limits.margin", self.limits.margin, 1.0, 100.0)?;
        in_range("failures.mtbf_days", self.failures.mtbf_days, 0.0, 1e6)?;
        in_range("failures.repair_h", self.failures.repair_h, 0.01, 10_000.0)?;
        in_range("failures.requeue", self.failures.requeue, 0.0, 1.0)?;
        if let Some(telemetry) = &self.telemetry {
            telemetry.check(&self.vc, self.cluster.days)?;
        }
        if let Some(carbon) = &self.carbon {
            in_range("carbon.mean_g_per_kwh", carbon.mean_g_per_kwh, 0.0, 5_000.0)?;
            in_range("carbon.daily", carbon.daily, 0.0, 1.0)?;
            in_range("carbon.yearly", carbon.yearly, 0.0, 1.0)?;
            in_range("carbon.noise", carbon.noise, 0.0, 1.0)?;
        }
        for price in &self.price {
            in_range("price.ondemand_usd_per_h", price.ondemand_usd_per_h, 0.0, 100_000.0)?;
            in_range("price.spot_ratio", price.spot_ratio.unwrap_or(1.0), 0.0, 1.0)?;
            in_range("price.changes_per_day", price.changes_per_day, 0.01, 1_440.0)?;
            in_range("price.up_h", price.up_h, 0.01, 100_000.0)?;
            in_range("price.down_h", price.down_h, 0.01, 100_000.0)?;
        }
        for target in &self.target {
            in_range("target.tolerance", target.tolerance, 0.0, f64::MAX)?;
        }
        Ok(())
    }
}

impl TelemetrySpec {
    fn check(&self, vcs: &[VcSpec], days: u32) -> Result<()> {
        between_int("telemetry.nodes", self.nodes, 1, vcs.iter().map(|vc| vc.nodes).sum())?;
        in_range("telemetry.first_day", self.first_day, 0.0, f64::from(days))?;
        in_range("telemetry.days", self.days, 0.0, f64::from(days) - self.first_day)?;
        between_int("telemetry.gap_s", self.gap_s, 1, 86_400)?;
        in_range("telemetry.idle_share", self.idle_share, 0.0, 1.0)?;
        in_range("telemetry.correlation", self.correlation, 0.0, 1.0)?;
        in_range("telemetry.between_jobs", self.between_jobs, 0.0, 1.0)?;
        in_range("telemetry.between_families", self.between_families, 0.0, 1.0)?;
        in_range("telemetry.node_base_w", self.node_base_w, 0.0, 1e6)?;
        in_range("telemetry.node_per_gpu_w", self.node_per_gpu_w, 0.0, 100.0)?;
        let points = &self.gpu_power_w;
        let ends = points.first().is_some_and(|q| q.p == 0.0) && points.last().is_some_and(|q| q.p == 1.0);
        let rising = points.is_sorted_by(|a, b| a.p < b.p && a.value <= b.value);
        if !ends || !rising || points.iter().any(|q| !(0.0..=1e5).contains(&q.value)) {
            return Err(wrong("telemetry.gpu_power_w", "points", "give rising points from p = 0 to p = 1, in watts"));
        }
        Ok(())
    }
}

fn check_shares(key: &str, shares: &[ShareSpec], most: u32) -> Result<()> {
    let total: f64 = shares.iter().map(|size| size.share).sum();
    if !total.is_finite() || total <= 0.0 || shares.iter().any(|size| size.share < 0.0) {
        return Err(wrong(key, &format!("shares that add up to {total}"), "give shares above 0"));
    }
    for size in shares {
        if size.size == 0 || size.size > most {
            let remedy = format!("ask for 1 to {most}, which is what the largest VC always has, or give it more nodes");
            return Err(wrong(key, &format!("size {}", size.size), &remedy));
        }
    }
    Ok(())
}

fn wrong(setting: &str, found: &str, remedy: &str) -> Error {
    Error::Setting { setting: setting.to_owned(), found: found.to_owned(), remedy: remedy.to_owned() }
}

fn in_range(setting: &str, value: f64, from: f64, to: f64) -> Result<()> {
    if value >= from && value <= to {
        return Ok(());
    }
    Err(wrong(setting, &value.to_string(), &format!("give a number from {from} to {to}")))
}

fn between_int(setting: &str, value: u32, from: u32, to: u32) -> Result<()> {
    in_range(setting, f64::from(value), f64::from(from), f64::from(to))
}
