//! Power and energy of nodes, from the sensors of their management controllers.
//!
//! Sensors overlap (`Sys Power` holds `CPU Power`), and some are shared: `Chassis Power` and `PSU Power` read the same on
//! every node of a chassis. So every sensor has its own distribution, and nodes are totalled over one sensor each, the
//! first of [`sensor::MAIN`] they have.
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: a node with `Sys Power` 400 W and `CPU Power` 150 W, and one with `Pwr Consumption` 300 W, in a chassis
//! that reads 1,000 W on both: 700 W.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Power;
use super::display::{covered, curve_chart, power_row, power_table};
use super::energy::{Energy, Metered, Meters, OverTime, PowerAt};
use crate::energy::meter::Devices;
use crate::facts::JobFacts;
use crate::report::Section;
use crate::report::format::{count, counted};
use crate::schema::{Table as _, sensor};
use crate::stats;
use crate::stats::ecdf::CurvePoint;

/// One kind of sensor on nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SensorPower {
    /// Name of the sensor; `null` where the source gives none.
    pub sensor: Option<String>,
    /// Whether the nodes of a chassis share the sensor, so that it must not be summed over nodes.
    pub shared: bool,
    /// Nodes for which it stands in the total.
    pub main_of_nodes: u64,
    /// Readings, with or without power.
    pub readings: u64,
    /// Power, watts, each reading of equal weight.
    pub power_w: stats::quantile::Summary,
    /// Share of the readings of at most so many watts.
    pub curve: Vec<CurvePoint>,
    /// Energy, summed over nodes; `null` for a shared sensor.
    pub energy: Option<Energy>,
}

/// Power and energy of nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodePower {
    /// Nodes with any power reading.
    pub nodes: u64,
    /// Power by sensor, in order of name.
    pub sensors: Vec<SensorPower>,
    /// Nodes by their main sensor; `null` if none has one.
    pub total: Option<Metered>,
    /// Nodes without a main sensor, which the total leaves out.
    pub nodes_without_main: u64,
    /// Power of all nodes together over time.
    pub over_time: Vec<PowerAt>,
}

impl NodePower {
    /// Power of the trace's node samples; `None` if none has power.
    pub(super) fn new(facts: &JobFacts<'_>, devices: &Devices) -> Option<Self> {
        let samples = &facts.trace.node_samples;
        let known = |ix: usize| samples.power_w.get(ix).is_some();
        let mut main: BTreeMap<Option<u32>, Option<usize>> = BTreeMap::new();
        for ix in (0..samples.len()).filter(|ix| known(*ix)) {
            let best = main.entry(samples.node.code(ix)).or_default();
            let rank = sensor::rank(samples.sensor.get(ix));
            *best = [*best, rank].into_iter().flatten().min();
        }
        if main.is_empty() {
            return None;
        }
        let mut order: Vec<u32> = (0..u32::try_from(samples.len()).unwrap_or(u32::MAX)).collect();
        let meter = |ix: u32| (samples.node.code(ix as usize), samples.sensor.code(ix as usize));
        order.sort_by_key(|ix| (meter(*ix), samples.ts.get(*ix as usize)));
        let is_main = |(node, sensor): (Option<u32>, Option<u32>)| {
            let best = main.get(&node).copied().flatten();
            best.is_some() && best == sensor::rank(sensor.and_then(|code| samples.sensor.name(code)))
        };
        let mut over = OverTime::new(
            order
                .iter()
                .filter(|ix| known(**ix as usize) && is_main(meter(**ix)))
                .filter_map(|ix| samples.ts.get(*ix as usize)),
        );
        let mut total = Meters::default();
        let mut sensors: BTreeMap<Option<&str>, (Meters, u64, u64)> = BTreeMap::new();
        let mut points: Vec<(i64, f64)> = Vec::new();
        for rows in order.chunk_by(|a, b| meter(*a) == meter(*b)) {
            let Some(first) = rows.first() else { continue };
            let sensor = samples.sensor.get(*first as usize);
            // Rows without a sensor may be of another metric altogether.
            let readings = rows.iter().filter(|ix| sensor.is_some() || known(**ix as usize)).count() as u64;
            if readings == 0 {
                continue;
            }
            let (meters, mains, all) = sensors.entry(sensor).or_default();
            *all += readings;
            let counts = is_main(meter(*first));
            points.clear();
            for ix in rows {
                let Some(watts) = samples.power_w.get(*ix as usize) else { continue };
                match samples.ts.get(*ix as usize) {
                    // Of two readings of one moment the first counts.
                    Some(ts) if points.last().is_some_and(|last| last.0 == ts) => {}
                    Some(ts) => points.push((ts, watts)),
                    None => {
                        meters.add_untimed(watts);
                        if counts {
                            total.add_untimed(watts);
                        }
                    }
                }
            }
            let integral = meters.add(&points);
            if counts {
                *mains += 1;
                total.add(&points);
                over.add(&points, &integral);
            }
        }
        Some(Self {
            nodes: main.len() as u64,
            nodes_without_main: main.values().filter(|best| best.is_none()).count() as u64,
            sensors: sensors
                .into_iter()
                .filter_map(|(sensor, (meters, main_of_nodes, readings))| {
                    let shared = sensor.is_some_and(sensor::is_shared);
                    let sensor = sensor.map(str::to_owned);
                    let Metered { power_w, curve, energy } = meters.finish()?;
                    let energy = Some(energy).filter(|_| !shared);
                    Some(SensorPower { sensor, shared, main_of_nodes, readings, power_w, curve, energy })
                })
                .collect(),
            total: total.finish_as(&devices.nodes),
            over_time: over.finish(),
        })
    }

    /// Tells it.
    pub(super) fn tell(&self, mut section: Section, power: &Power) -> Section {
        if let Some(total) = &self.total {
            section = section.with_chart(curve_chart(
                "node-power-cdf",
                "Share of the readings in which a node draws at most so much",
                &total.curve,
            ));
        }
        if self.over_time.iter().any(|point| point.power_w.is_some()) {
            section = section.with_chart(power.over_time(
                "node-power",
                "Power of all metered nodes together",
                &self.over_time,
            ));
        }
        let mut table = power_table("Power of nodes by sensor", "Sensor");
        if let Some(total) = &self.total {
            table.rows.push(power_row("nodes, main sensor".into(), &total.power_w, total.energy.known_kwh()));
        }
        for sensor in &self.sensors {
            let name = sensor.sensor.as_deref().unwrap_or("without a name");
            let name = if sensor.shared { format!("{name} (shared)") } else { name.to_owned() };
            let energy = sensor.energy.as_ref().and_then(Energy::known_kwh);
            table.rows.push(power_row(name.into(), &sensor.power_w, energy));
        }
        table.note = Some(
            "Sensors overlap, so their energies do not add up. A shared sensor reads the same on every node of a chassis \
             and is not summed."
                .to_owned(),
        );
        let mains: Vec<String> = self
            .sensors
            .iter()
            .filter(|sensor| sensor.main_of_nodes > 0)
            .map(|sensor| {
                format!("{} ({})", sensor.sensor.as_deref().unwrap_or("without a name"), count(sensor.main_of_nodes))
            })
            .collect();
        if !mains.is_empty() {
            section = section.with_definition(format!(
                "Nodes are totalled over one sensor each, the first it has of: {}. Here: {}.",
                sensor::MAIN.join(", "),
                mains.join(", ")
            ));
        }
        section.with_table(table)
    }

    /// Meters and time that the total rests on, in words.
    pub(super) fn covers(&self) -> String {
        let bridged = self.total.as_ref().map_or_else(String::new, |total| {
            covered(&total.energy, &format!("{} in the total", count(total.energy.meters)))
        });
        let without = match self.nodes_without_main {
            0 => String::new(),
            nodes => format!(
                " {}.",
                counted(
                    nodes,
                    "node has no sensor for the whole node and is not in the total",
                    "nodes have no sensor for the whole node and are not in the total"
                )
            ),
        };
        format!("{} with power readings{bridged}.{without}", counted(self.nodes, "node", "nodes"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::NodeSampleRow;

    #[test]
    fn a_node_is_totalled_over_its_main_sensor_and_shared_ones_are_not_summed() {
        let mut trace = Trace::default();
        for ts in [0, 60_000, 120_000] {
            for (node, sensor, watts) in [
                ("a", Some("Sys Power"), Some(400.0)),
                ("a", Some("CPU Power"), Some(150.0)),
                ("a", Some("Chassis Power"), Some(1_000.0)),
                ("b", Some("Pwr Consumption"), Some(300.0)),
                ("b", Some("Chassis Power"), Some(1_000.0)),
                ("c", Some("CPU Power"), Some(90.0)),
                ("d", Some("Sys Power"), None),
                ("d", None, None),
            ] {
                trace.node_samples.push(NodeSampleRow {
                    ts: Some(ts),
                    node: Some(node.into()),
                    sensor: sensor.map(Into::into),
                    power_w: watts,
                    ..NodeSampleRow::default()
                });
            }
        }
        let devices = crate::energy::meter::devices(&trace, &crate::energy::meter::Options::default()).unwrap();
        let nodes = NodePower::new(&JobFacts::new(&trace), &devices).unwrap();
        assert_eq!((nodes.nodes, nodes.nodes_without_main), (3, 1));
        let total = nodes.total.unwrap();
        // 700 W for 120 s are 84,000 J.
        assert!((total.energy.energy_kwh - 84_000.0 / 3.6e6).abs() < 1e-12);
        assert_eq!((total.power_w.count, total.power_w.mean, total.energy.meters), (6, 350.0, 2));
        assert!(nodes.over_time.iter().all(|point| point.power_w.is_some_and(|watts| (watts - 700.0).abs() < 1e-9)));
        let of: Vec<_> = nodes.sensors.iter().map(|s| (s.sensor.as_deref(), s.readings, s.energy.is_some())).collect();
        assert_eq!(
            of,
            [
                (Some("CPU Power"), 6, true),
                (Some("Chassis Power"), 6, false),
                (Some("Pwr Consumption"), 3, true),
                (Some("Sys Power"), 6, true)
            ]
        );
        assert_eq!(nodes.sensors.iter().map(|s| s.main_of_nodes).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }
}
