//! A log of faults: when which node was down.
//!
//! Two forms are read, told apart by their first sign:
//!
//! * **CSV** with a header `node,down_from,down_to`. Times are moments with an offset (`2024-03-30T12:00:00Z`) or seconds from the beginning of the log, all of one
//!   kind. An empty `down_to` is a node that is still down at the end.
//! * **JSON**, an array of events as InfiniteHBD published them: `node_id`, `event_time` (days from the beginning), `event_type` (`fault_start` or `fault_end`).
//!   A node may have several faults at once; it is down while any lasts. Of events at one moment, starts come first.
//!
//! The log lasts from its beginning (0 where times are counted, else the first moment) to its last moment. O(n log n).
//!
//! Worked number: a node with faults from day 1 to 3 and from 2 to 4 is down once, from day 1 to 4.

use std::collections::BTreeMap;

use serde::Deserialize;
use tracecast_analytics::time::{DAY_S, parse_with_offset};

use crate::error::{Error, Result, excerpt};

/// Most nodes that a log may watch.
pub const MOST_NODES: u32 = 10_000_000;

/// A node out of service, seconds from the beginning of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeDown {
    /// The node, numbered in the order of names.
    pub node: u32,
    /// Beginning of the outage.
    pub from_s: f64,
    /// End of the outage, at most the end of the log.
    pub to_s: f64,
}

/// When nodes were down.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultLog {
    /// Nodes that the log watches.
    pub nodes: u32,
    /// Nodes that the log names.
    pub named: u32,
    /// How long it lasts, seconds.
    pub length_s: f64,
    /// Stretches in which a node was down, by node and time; those of a node do not overlap.
    pub downs: Vec<NodeDown>,
}

#[derive(Debug, Deserialize)]
struct Event {
    node_id: String,
    event_time: f64,
    event_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    node: String,
    down_from: String,
    down_to: String,
}

/// A stretch as it was written: the node, from, to (`None` if it still lasts), seconds.
type Written = (String, f64, Option<f64>);

impl FaultLog {
    /// Reads the text of a file called `file`. `nodes` is how many nodes the log watches, those it does not name among them; those that it names if `None`.
    ///
    /// # Errors
    /// Names the line (of JSON, the event) and what would mend it.
    pub fn parse(file: &str, text: &str, nodes: Option<u32>) -> Result<Self> {
        let (written, begin) = if text.trim_start().starts_with('[') { events(file, text)? } else { rows(file, text)? };
        let wrong = |what: String| Error::file(file.to_owned(), 1, what);
        let mut by_node: BTreeMap<&str, Vec<(f64, Option<f64>)>> = BTreeMap::new();
        let mut end = begin;
        for (node, from, to) in &written {
            by_node.entry(node).or_default().push((*from, *to));
            end = end.max(*from).max(to.unwrap_or(*from));
        }
        if end <= begin {
            return Err(wrong("the log holds no fault, or no time passes in it; name a log with faults".to_owned()));
        }
        let named = u32::try_from(by_node.len()).unwrap_or(u32::MAX);
        let nodes = nodes.unwrap_or(named);
        if nodes > MOST_NODES {
            return Err(wrong(format!(
                "{nodes} nodes are more than the ten million that a log may watch; see --fault-nodes"
            )));
        }
        if nodes < named {
            return Err(wrong(format!("the log names {named} nodes, more than the {nodes} of --fault-nodes")));
        }
        let mut downs: Vec<NodeDown> = Vec::new();
        for (node, mut stretches) in (0u32..).zip(by_node.into_values()) {
            stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut of_node: Vec<NodeDown> = Vec::new();
            for (from, to) in stretches {
                let (from_s, to_s) = (from - begin, to.unwrap_or(end) - begin);
                match of_node.last_mut() {
                    Some(last) if from_s <= last.to_s => last.to_s = last.to_s.max(to_s),
                    _ => of_node.push(NodeDown { node, from_s, to_s }),
                }
            }
            downs.extend(of_node);
        }
        Ok(Self { nodes, named, length_s: end - begin, downs })
    }

    /// Changes of how many nodes are down within `window` (seconds): (from, to, down), without those of no length. O(n log n).
    pub fn down_at_once(&self, window: (f64, f64)) -> Vec<(f64, f64, u32)> {
        let (begin, end) = window;
        let mut changes: Vec<(f64, i64)> = Vec::new();
        for down in &self.downs {
            let (from, to) = (down.from_s.max(begin), down.to_s.min(end));
            if to > from {
                changes.extend([(from, 1), (to, -1)]);
            }
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut now, mut since, mut result) = (0i64, begin, Vec::new());
        for (at, change) in changes.into_iter().chain([(end, 0)]) {
            if at > since {
                result.push((since, at, u32::try_from(now).unwrap_or(0)));
                since = at;
            }
            now += change;
        }
        result
    }
}

/// Stretches of a JSON of events.
fn events(file: &str, text: &str) -> Result<(Vec<Written>, f64)> {
    let wrong = |line: u64, what: String| Error::file(file.to_owned(), line, what);
    let events: Vec<Event> =
        serde_json::from_str(text).map_err(|error| wrong(error.line() as u64, error.to_string()))?;
    let mut order: Vec<(f64, bool, usize, &str)> = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let said = |what: String| wrong(1, format!("event {} of node {}: {what}", at + 1, excerpt(&event.node_id)));
        let ends = match event.event_type.as_str() {
            "fault_start" => false,
            "fault_end" => true,
            other => return Err(said(format!("`{}` is no fault_start or fault_end", excerpt(other)))),
        };
        if !(0.0..=1e6).contains(&event.event_time) {
            return Err(said(format!("{} is no time in days", event.event_time)));
        }
        order.push((event.event_time * DAY_S, ends, at, &event.node_id));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    // Of each node: faults that last, and since when it is down.
    let mut open: BTreeMap<&str, (u32, f64)> = BTreeMap::new();
    let mut result = Vec::new();
    for (time, ends, at, node) in order {
        let (faults, since) = open.entry(node).or_insert((0, time));
        match (ends, *faults) {
            (false, 0) => (*faults, *since) = (1, time),
            (false, _) => *faults += 1,
            (true, 0) => {
                let what = format!("event {} of node {}: a fault ends that did not start", at + 1, excerpt(node));
                return Err(wrong(1, what));
            }
            (true, 1) => {
                *faults = 0;
                result.push((node.to_owned(), *since, Some(time)));
            }
            (true, _) => *faults -= 1,
        }
    }
    let lasting = open.into_iter().filter(|(_, (faults, _))| *faults > 0);
    result.extend(lasting.map(|(node, (_, since))| (node.to_owned(), since, None)));
    Ok((result, 0.0))
}

/// Stretches of a CSV.
fn rows(file: &str, text: &str) -> Result<(Vec<Written>, f64)> {
    let wrong = |line: u64, what: String| Error::file(file.to_owned(), line, what);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut result: Vec<Written> = Vec::new();
    let mut counted = None;
    for row in reader.deserialize::<Row>() {
        let row = row.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            wrong(line, format!("{error}; the header is node,down_from,down_to"))
        })?;
        // The header is the first line.
        let line = result.len() as u64 + 2;
        let mut time = |text: &str| -> Result<f64> {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e11).contains(seconds));
            let is_counted = seconds.is_some();
            let Some(value) = seconds.or_else(|| parse_with_offset(text).map(|ms| ms as f64 / 1e3)) else {
                let what = format!(
                    "`{}` is no time; write 2024-03-30T12:00:00Z, or seconds from the beginning",
                    excerpt(text)
                );
                return Err(wrong(line, what));
            };
            if *counted.get_or_insert(is_counted) != is_counted {
                return Err(wrong(
                    line,
                    "some times are moments and some are seconds; write all of one kind".to_owned(),
                ));
            }
            Ok(value)
        };
        let from = time(&row.down_from)?;
        let to = if row.down_to.is_empty() { None } else { Some(time(&row.down_to)?) };
        if to.is_some_and(|to| to < from) {
            return Err(wrong(line, format!("node {} is up again before it is down", excerpt(&row.node))));
        }
        result.push((row.node, from, to));
    }
    let first = result.iter().map(|(_, from, _)| *from).reduce(f64::min).unwrap_or(0.0);
    Ok((result, if counted == Some(false) { first } else { 0.0 }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let csv = "node,down_from,down_to\nb,86400,259200\na,0,86400\nb,172800,345600\nc,432000,\nd,864000,864000\n";
        let event = |node: &str, time: f64, kind: &str| {
            format!("{{\"node_id\":\"{node}\",\"event_time\":{time},\"event_type\":\"fault_{kind}\"}}")
        };
        let json = [
            event("b", 1.0, "start"),
            event("b", 2.0, "start"),
            event("b", 3.0, "end"),
            event("b", 4.0, "end"),
            event("a", 0.0, "start"),
            event("a", 1.0, "end"),
            event("c", 5.0, "start"),
            // At one moment, the end written first.
            event("d", 10.0, "end"),
            event("d", 10.0, "start"),
        ];
        let read = FaultLog::parse("f.csv", csv, Some(9)).unwrap();
        assert_eq!(read, FaultLog::parse("f.json", &format!("[{}]", json.join(",")), Some(9)).unwrap());
        assert_eq!((read.nodes, read.named, read.length_s), (9, 4, 10.0 * DAY_S));
        let downs: Vec<(u32, f64, f64)> =
            read.downs.iter().map(|down| (down.node, down.from_s / DAY_S, down.to_s / DAY_S)).collect();
        assert_eq!(downs, [(0, 0.0, 1.0), (1, 1.0, 4.0), (2, 5.0, 10.0), (3, 10.0, 10.0)]);
        let at_once: Vec<(f64, u32)> =
            read.down_at_once((0.0, read.length_s)).iter().map(|(from, _, down)| (from / DAY_S, *down)).collect();
        assert_eq!(at_once, [(0.0, 1), (1.0, 1), (4.0, 0), (5.0, 1)]);
        let moments = "node,down_from,down_to\na,2024-03-30T00:00:00Z,2024-03-31T00:00:00Z\nb,2024-03-30T12:00:00Z,\n";
        assert_eq!(FaultLog::parse("f.csv", moments, None).unwrap().length_s, DAY_S);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("node,down_from,down_to\n", "no fault"),
            ("node,down_from\na,1\n", "node,down_from,down_to"),
            ("node,down_from,down_to\na,1,2\na,x,3\n", "line 3: `x` is no time"),
            ("node,down_from,down_to\na,5,2\n", "up again before"),
            ("node,down_from,down_to\na,5,2024-03-31T00:00:00Z\n", "all of one kind"),
            ("[{\"node_id\":\"a\",\"event_time\":1,\"event_type\":\"fault_end\"}]", "did not start"),
            ("[{\"node_id\":\"a\",\"event_time\":1,\"event_type\":\"boom\"}]", "no fault_start"),
            ("[{\"node_id\":\"a\"}]", "line 1"),
        ] {
            let error = FaultLog::parse("f", text, None).unwrap_err().to_string();
            assert!(error.starts_with("f, line ") && error.contains(why), "{text}: {error}");
        }
        let one = "node,down_from,down_to\na,1,2\n";
        assert!(FaultLog::parse("f", one, Some(4_000_000_000)).unwrap_err().to_string().contains("ten million"));
        let two = "node,down_from,down_to\na,1,2\nb,1,2\n";
        assert!(FaultLog::parse("f", two, Some(1)).unwrap_err().to_string().contains("--fault-nodes"));
    }
}
