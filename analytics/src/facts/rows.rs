//! Rows of tables for unit tests.

use crate::schema::{ActivityRow, CapacityRow, JobRow, NodeRow, PlacementRow};

/// A job of a VC: submitted, started and ended at so many seconds.
pub(crate) fn job(key: &str, vc: &str, gpus: f64, submit_s: i64, start_s: i64, end_s: i64) -> JobRow<'static> {
    JobRow {
        job_key: Some(key.to_owned().into()),
        vc: Some(vc.to_owned().into()),
        submit: Some(submit_s * 1_000),
        start: Some(start_s * 1_000),
        end: Some(end_s * 1_000),
        run_s: Some((end_s - start_s) as f64),
        req_gpus: Some(gpus),
        state: Some("completed".into()),
        ..JobRow::default()
    }
}

/// A VC's capacity from the beginning of the trace.
pub(crate) fn quota(vc: &str, gpus: f64) -> CapacityRow<'static> {
    CapacityRow {
        scope: Some("vc".into()),
        name: Some(vc.to_owned().into()),
        from: Some(0),
        gpus: Some(gpus),
        ..CapacityRow::default()
    }
}

/// A sample of a VC's activity: total, running, pending.
pub(crate) fn sample(vc: &str, ts_s: i64, total: f64, running: f64, pending: f64) -> ActivityRow<'static> {
    ActivityRow {
        scope: Some("vc".into()),
        name: Some(vc.to_owned().into()),
        ts: Some(ts_s * 1_000),
        gpus_total: Some(total),
        gpus_running: Some(running),
        gpus_pending: Some(pending),
        ..ActivityRow::default()
    }
}

/// A node.
pub(crate) fn node(name: &'static str, gpus: f64) -> NodeRow<'static> {
    NodeRow { node: Some(name.into()), gpus: Some(gpus), ..NodeRow::default() }
}

/// A job's first attempt on a node.
pub(crate) fn place(key: &'static str, node: &'static str, gpus: Option<f64>) -> PlacementRow<'static> {
    PlacementRow {
        job_key: Some(key.into()),
        attempt: Some(1),
        node: Some(node.into()),
        gpus,
        ..PlacementRow::default()
    }
}
