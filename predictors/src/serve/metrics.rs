//! Counts and times of the server, written in the Prometheus text format (version 0.0.4).
//!
//! Every series is known at compile time (paths and statuses are closed sets), so no request can make a new one and memory stays flat.
//! Counting is one addition; writing is O(series).
//!
//! Latency runs from the end of the request's head to the answer's being ready, the reading of the body included and the writing of
//! the answer not.
//!
//! Worked example: requests of 0.3 ms and 0.7 ms give `…_bucket{le="0.0005"} 1`, `…_bucket{le="0.001"} 2` and `…_sum` 0.001.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A path that is served, or [`Route::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Predict,
    Share,
    Events,
    Filter,
    Prioritize,
    Healthz,
    Readyz,
    Metrics,
    Other,
}

impl Route {
    const ALL: [Self; 9] = [
        Self::Predict,
        Self::Share,
        Self::Events,
        Self::Filter,
        Self::Prioritize,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Other,
    ];

    /// The path, as it stands in a request.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Predict => "/v1/predict",
            Self::Share => "/v1/share",
            Self::Events => "/v1/events",
            Self::Filter => "/scheduler/filter",
            Self::Prioritize => "/scheduler/prioritize",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Metrics => "/metrics",
            Self::Other => "other",
        }
    }

    pub(super) fn new(path: &str) -> Self {
        Self::ALL.into_iter().find(|route| route.path() == path).unwrap_or(Self::Other)
    }
}

/// Statuses that are answered; the last stands for any other.
const STATUSES: [(u16, &str); 11] = [
    (200, "200"),
    (400, "400"),
    (401, "401"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (413, "413"),
    (500, "500"),
    (503, "503"),
    (0, "other"),
];

/// Upper edges of the latency buckets: seconds as written, and the same in nanoseconds.
const EDGES: [(&str, u64); 15] = [
    ("0.0001", 100_000),
    ("0.00025", 250_000),
    ("0.0005", 500_000),
    ("0.001", 1_000_000),
    ("0.002", 2_000_000),
    ("0.005", 5_000_000),
    ("0.01", 10_000_000),
    ("0.025", 25_000_000),
    ("0.05", 50_000_000),
    ("0.1", 100_000_000),
    ("0.25", 250_000_000),
    ("0.5", 500_000_000),
    ("1", 1_000_000_000),
    ("2.5", 2_500_000_000),
    ("10", 10_000_000_000),
];

/// A number that others may add to.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one path.
#[derive(Debug, Default)]
struct Requests {
    by_status: [Count; STATUSES.len()],
    /// Requests in the bucket alone (not cumulated); the last is beyond every edge.
    by_latency: [Count; EDGES.len() + 1],
    latency_ns: Count,
}

/// All that is counted.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: [Requests; Route::ALL.len()],
    pub(super) predictions: Count,
    pub(super) events_accepted: Count,
    pub(super) events_refused: Count,
    pub(super) retrains_ok: Count,
    pub(super) retrains_failed: Count,
    pub(super) journal_bytes: Count,
    pub(super) journal_commits: Count,
    pub(super) journal_failures: Count,
    pub(super) journal_torn: Count,
    pub(super) journal_corrupt: Count,
    pub(super) journal_repeated: Count,
    pub(super) journal_missing: Count,
    pub(super) journal_replayed: Count,
    pub(super) snapshots: Count,
    pub(super) snapshot_failures: Count,
    pub(super) connections: Count,
    pub(super) connections_refused: Count,
    pub(super) connections_displaced: Count,
    /// Whether the journal can take events no more.
    pub(super) journal_broken: AtomicBool,
    /// Whether the last events could not be kept; they may be the next time.
    pub(super) journal_refusing: AtomicBool,
}

/// Facts of the model in the metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    /// Seconds since it was trained, if that is known.
    pub(super) age_s: Option<f64>,
    /// Jobs that ended since.
    pub(super) ended_since_training: u64,
}

impl Metrics {
    pub(super) fn request(&self, route: Route, status: u16, latency: Duration) {
        let Some(requests) = self.requests.get(route as usize) else { return };
        let last = STATUSES.len() - 1;
        let status = STATUSES.iter().position(|(known, _)| *known == status).unwrap_or(last);
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = EDGES.iter().position(|(_, edge_ns)| latency_ns <= *edge_ns).unwrap_or(EDGES.len());
        if let (Some(status), Some(bucket)) = (requests.by_status.get(status), requests.by_latency.get(bucket)) {
            status.add(1);
            bucket.add(1);
            requests.latency_ns.add(latency_ns);
        }
    }

    /// All series as text.
    pub(super) fn text(&self, model: Model) -> String {
        let mut out = String::with_capacity(8 << 10);
        self.write(&mut out, model);
        out
    }

    fn write(&self, out: &mut String, model: Model) {
        // Writing to a String cannot fail.
        let routes = || Route::ALL.into_iter().zip(&self.requests);
        head(out, "tracecast_http_requests_total", "counter", "Requests answered, by path and status.");
        for (route, requests) in routes() {
            for ((_, status), count) in STATUSES.iter().zip(&requests.by_status).filter(|(_, count)| count.get() > 0) {
                let path = route.path();
                let _ = writeln!(
                    out,
                    "tracecast_http_requests_total{{path=\"{path}\",status=\"{status}\"}} {}",
                    count.get()
                );
            }
        }
        let name = "tracecast_http_request_duration_seconds";
        head(out, name, "histogram", "From the end of a request's head to its answer, seconds.");
        for (route, requests) in routes() {
            let path = route.path();
            let total: u64 = requests.by_latency.iter().map(Count::get).sum();
            if total == 0 {
                continue;
            }
            let mut upto = 0;
            for ((edge, _), count) in EDGES.iter().zip(&requests.by_latency) {
                upto += count.get();
                let _ = writeln!(out, "{name}_bucket{{path=\"{path}\",le=\"{edge}\"}} {upto}");
            }
            let _ = writeln!(out, "{name}_bucket{{path=\"{path}\",le=\"+Inf\"}} {total}");
            let _ = writeln!(out, "{name}_sum{{path=\"{path}\"}} {}", requests.latency_ns.get() as f64 / 1e9);
            let _ = writeln!(out, "{name}_count{{path=\"{path}\"}} {total}");
        }
        let counters = [
            ("predictions_total", "Jobs predicted.", &self.predictions),
            ("events_accepted_total", "Events learnt.", &self.events_accepted),
            ("events_refused_total", "Events kept in the journal but not learnt.", &self.events_refused),
            ("retrains_ok_total", "Trainings whose model was adopted.", &self.retrains_ok),
            ("retrains_failed_total", "Trainings that failed; the old model stayed.", &self.retrains_failed),
            ("journal_commits_total", "Times the journal was made durable.", &self.journal_commits),
            ("journal_failures_total", "Times the journal could not be written.", &self.journal_failures),
            ("journal_torn_total", "Torn last lines dropped at start.", &self.journal_torn),
            ("journal_corrupt_total", "Lines skipped at start as their checksum was wrong.", &self.journal_corrupt),
            ("journal_repeated_total", "Lines skipped at start as they were already known.", &self.journal_repeated),
            (
                "journal_missing_total",
                "Numbers that no line had at start: events that are lost.",
                &self.journal_missing,
            ),
            ("journal_replayed_total", "Events replayed at start.", &self.journal_replayed),
            ("snapshots_total", "Snapshots written.", &self.snapshots),
            ("snapshot_failures_total", "Snapshots that could not be written.", &self.snapshot_failures),
            ("connections_refused_total", "Connections refused as there were too many.", &self.connections_refused),
            (
                "connections_displaced_total",
                "Connections without the token closed to make room for others.",
                &self.connections_displaced,
            ),
        ];
        for (name, help, count) in counters {
            head(out, &format!("tracecast_{name}"), "counter", help);
            let _ = writeln!(out, "tracecast_{name} {}", count.get());
        }
        let gauges = [
            ("connections", "Connections open.", self.connections.get()),
            ("journal_bytes", "Size of the journal, bytes.", self.journal_bytes.get()),
            ("ended_since_training", "Jobs that ended since the model was trained.", model.ended_since_training),
            (
                "journal_broken",
                "1 if events are refused until a restart, as the disk failed.",
                u64::from(self.journal_broken.load(Ordering::Relaxed)),
            ),
        ];
        let refusing = u64::from(self.journal_refusing.load(Ordering::Relaxed));
        let refusing = ("journal_refusing", "1 while events cannot be kept, as on a full disk.", refusing);
        for (name, help, value) in gauges.into_iter().chain([refusing]) {
            head(out, &format!("tracecast_{name}"), "gauge", help);
            let _ = writeln!(out, "tracecast_{name} {value}");
        }
        if let Some(age_s) = model.age_s {
            head(out, "tracecast_model_age_seconds", "gauge", "Time since the model was trained, seconds.");
            let _ = writeln!(out, "tracecast_model_age_seconds {age_s}");
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cumulate_and_sums_add_up() {
        let metrics = Metrics::default();
        metrics.request(Route::Predict, 200, Duration::from_micros(300));
        metrics.request(Route::Predict, 200, Duration::from_micros(700));
        metrics.request(Route::new("/nowhere"), 418, Duration::from_secs(60));
        let text = metrics.text(Model { age_s: Some(1.5), ended_since_training: 7 });
        let lines: Vec<&str> = text.lines().collect();
        let wanted = [
            "tracecast_http_requests_total{path=\"/v1/predict\",status=\"200\"} 2",
            "tracecast_http_requests_total{path=\"other\",status=\"other\"} 1",
            "tracecast_http_request_duration_seconds_bucket{path=\"/v1/predict\",le=\"0.00025\"} 0",
            "tracecast_http_request_duration_seconds_bucket{path=\"/v1/predict\",le=\"0.0005\"} 1",
            "tracecast_http_request_duration_seconds_bucket{path=\"/v1/predict\",le=\"0.001\"} 2",
            "tracecast_http_request_duration_seconds_bucket{path=\"/v1/predict\",le=\"+Inf\"} 2",
            "tracecast_http_request_duration_seconds_sum{path=\"/v1/predict\"} 0.001",
            // A minute is beyond the last edge, 10 s.
            "tracecast_http_request_duration_seconds_bucket{path=\"other\",le=\"10\"} 0",
            "tracecast_http_request_duration_seconds_bucket{path=\"other\",le=\"+Inf\"} 1",
            "tracecast_ended_since_training 7",
            "tracecast_model_age_seconds 1.5",
        ];
        for line in wanted {
            assert!(lines.contains(&line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn every_series_is_declared_once() {
        let text = Metrics::default().text(Model { age_s: None, ended_since_training: 0 });
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(!text.contains("model_age"), "an unknown age is no number");
    }
}
