//! The official trace's files, told apart by their columns: job log, machine lists, VC sizes, utilisation.

use super::inventory::Inventory;
use super::utilisation::{self, Telemetry};
use super::{inventory, jobs};
use crate::error::{Error, Result};
use crate::ingest::options::ReadOptions;
use crate::ingest::reader::{Confidence, Reader};
use crate::ingest::source::{Head, SourceFile};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// Reads the files of the official trace.
pub(crate) struct Philly;

/// Content of a file of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Jobs,
    Machines,
    VcSizes,
    Telemetry(Telemetry),
}

impl Role {
    fn new(head: &Head) -> Option<Self> {
        let text = head.text.trim_start();
        let json = text.strip_prefix('[').map(str::trim_start);
        if json.is_some_and(|json| json.starts_with('{'))
            && text.contains("\"attempts\"")
            && text.contains("\"submitted_time\"")
        {
            return Some(Self::Jobs);
        }
        if head.has_columns(',', &["machineid", "number of gpus"]) {
            return Some(Self::Machines);
        }
        if head.has_columns(',', &["vc", "node num"]) {
            return Some(Self::VcSizes);
        }
        let machine = head.has_columns(',', &["machineid"]) || head.has_columns(',', &["machine_id"]);
        let telemetry = if head.has_columns(',', &["time", "gpu0_util"]) {
            Telemetry::Gpu
        } else if head.has_columns(',', &["time", "cpu_util"]) {
            Telemetry::Cpu
        } else if head.has_columns(',', &["time", "mem_total", "mem_free"]) {
            Telemetry::Memory
        } else {
            return None;
        };
        machine.then_some(Self::Telemetry(telemetry))
    }
}

impl Reader for Philly {
    fn id(&self) -> &'static str {
        "philly"
    }

    fn describes(&self) -> &'static str {
        "Microsoft Philly 2017: job log (JSON), machine lists, VC sizes and utilisation (CSV)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if Role::new(head).is_some() { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.basis = TimeBasis::Utc;
        let zone = options.zone_or(super::ZONE)?;
        zone.name().clone_into(&mut trace.zone);
        let mut jobs = jobs::JobLog::new(trace);
        let mut machines = Inventory::default();
        for file in files {
            let head = file.head()?;
            let role = Role::new(&head).ok_or_else(|| {
                Error::format(
                    file.name(),
                    "neither a Philly job log, machine list, VC list nor utilisation log",
                    "check the file's first lines, or leave out --reader",
                )
            })?;
            match role {
                Role::Jobs => jobs.read(file, options, trace)?,
                Role::Machines => machines.read(file, options, trace)?,
                Role::VcSizes => inventory::read_vc_sizes(file, options, trace)?,
                Role::Telemetry(kind) => utilisation::read(kind, file, &zone, options, trace)?,
            }
        }
        jobs.note(trace);
        machines.push(trace);
        Ok(())
    }
}
