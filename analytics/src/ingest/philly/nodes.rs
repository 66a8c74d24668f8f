//! The node sequence: how many of Philly's nodes were active, minute by minute (`time, active, total`).
//!
//! Times carry no zone and are Pacific: changes in the count follow starts and ends of large jobs in the job log, whose
//! clock is UTC, 7 h behind before 2017-11-05 and 8 h after. In the hour that happened twice that day the file has each
//! minute once; the first is taken, and each such row is noted. O(rows).

use crate::error::Result;
use crate::ingest::delimited::Delimited;
use crate::ingest::field::Moment;
use crate::ingest::options::ReadOptions;
use crate::ingest::reader::{Confidence, Reader};
use crate::ingest::source::{Head, SourceFile};
use crate::quality::reason;
use crate::schema::{ActivityRow, Table};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// Reads the node sequence.
pub(crate) struct PhillyNodes;

impl Reader for PhillyNodes {
    fn id(&self) -> &'static str {
        "philly-nodes"
    }

    fn describes(&self) -> &'static str {
        "Microsoft Philly 2017: active and total nodes by the minute (CSV)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let header: Vec<String> =
            head.first_line().split(',').map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect();
        if header != ["time", "active", "total"] {
            Confidence::No
        } else if head.name.contains("philly") {
            Confidence::Sure
        } else {
            Confidence::Maybe
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or(super::ZONE)?;
        if trace.jobs.is_empty() {
            trace.basis = TimeBasis::Local;
        }
        zone.name().clone_into(&mut trace.zone);
        trace.note(
            "philly-nodes: the times carry no zone and are read as the cluster's local time; node counts move with the \
             job log, which is UTC, only if so read",
        );
        for file in files {
            let mut table = Delimited::open(file, b',', options.observer)?;
            let time_at = Some(table.require("time")?);
            let active_at = Some(table.require("active")?);
            let total_at = Some(table.require("total")?);
            while let Some(mut row) = table.next_row(&mut trace.ledger) {
                let Some(ts) = row.moment(time_at, Moment::Local(&zone), "time") else {
                    trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "time", row.raw());
                    continue;
                };
                let nodes_active = row.amount(active_at, "active");
                let nodes_total = row.amount(total_at, "total");
                trace.activity.push(ActivityRow {
                    scope: Some("cluster".into()),
                    name: Some(super::CLUSTER.into()),
                    ts: Some(ts),
                    nodes_active,
                    nodes_total,
                    ..ActivityRow::default()
                });
                trace.ledger.keep(row.audit);
            }
            table.finish(&mut trace.ledger);
        }
        Ok(())
    }
}
