//! Records of Slurm jobs whose values come one by one under the names of `sacct`'s columns, as other tools hand them on.
//!
//! What the values mean together is for `assembly`. O(values).

use super::allocation::{Allocation, Step, state};
use super::assembly::Assembly;
use super::duration;
use super::job_id::JobId;
use super::mem::Requested;
use super::tres::{self, Tres};
use crate::ingest::field::{self, Moment};
use crate::ingest::{ReadOptions, SeenKeys};
use crate::quality::{Ledger, RowAudit, reason};
use crate::time::Zone;
use crate::trace::Trace;

/// Records of all files.
#[derive(Debug)]
pub(in crate::ingest) struct Records {
    assembly: Assembly,
    seen: SeenKeys,
    any: bool,
}

impl Records {
    pub(in crate::ingest) fn new(options: &ReadOptions<'_>) -> Self {
        Self { assembly: Assembly::new(options.shards_per_gpu), seen: SeenKeys::default(), any: false }
    }

    /// Notes that the next records come from the file called `name`.
    pub(in crate::ingest) fn begin(&mut self, name: &str) {
        self.assembly.begin(name);
    }

    /// Takes the record whose value under a name is `get(name)`; `raw` is how it stands in the file. Times have an offset.
    pub(in crate::ingest) fn take<'v>(
        &mut self,
        get: impl Fn(&str) -> Option<&'v str>,
        raw: &str,
        mut row: RowAudit<'_>,
        ledger: &mut Ledger,
    ) {
        let text = |name: &str| field::text(get(name));
        let Some(id) = text("JobID").or_else(|| text("JobIDRaw")) else {
            ledger.quarantine(&row, reason::NO_KEY, "JobID", raw);
            return;
        };
        let Some(id) = JobId::parse(id) else {
            ledger.quarantine(&row, reason::MALFORMED, "JobID", raw);
            return;
        };
        let same = ["JobID", "Submit", "Start", "End", "State"].map(|name| text(name).unwrap_or_default());
        if !self.seen.is_new(&same.join("|")) {
            ledger.quarantine(&row, reason::DUPLICATE, "", raw);
            return;
        }
        self.any = true;
        if id.step.is_some() {
            // Steps say nothing that counts here: neither energy nor use of GPUs.
            self.assembly.step(None, &id, Step::default());
            ledger.keep(row);
            return;
        }
        let utc = Zone::utc();
        let mut time = |name: &str| Moment::Local(&utc).read(get(name), name, &mut row);
        let [submit, start, end] = ["Submit", "Start", "End"].map(&mut time);
        let mut amount = |name: &str| field::amount(get(name), name, &mut row);
        let elapsed_s = amount("ElapsedRaw").filter(|_| start.is_some());
        let limit_minutes = amount("TimelimitRaw");
        // Seconds in JSON, Slurm's form of durations in CSV.
        let suspended_s = text("Suspended").and_then(|text| text.parse().ok().or_else(|| duration::seconds(text)));
        let (cpus, nodes) = (amount("ReqCPUS"), amount("ReqNodes").map(|nodes| nodes as i64));
        let (state, requeued) = text("State").map_or((None, false), |words| state(words, &mut row));
        let mut list = |name: &str| {
            let tres = Tres::parse(text(name)?);
            tres::note(&tres, name, &mut row);
            Some(tres)
        };
        let [request, given] = ["ReqTRES", "AllocTRES"].map(&mut list);
        let (asked_has, given_has) = (request.is_some(), given.is_some());
        let (mut request, mut given) = (request.unwrap_or_default(), given.unwrap_or_default());
        self.assembly.settle_shards(&mut request, &mut given);
        let mem = text("ReqMem").and_then(Requested::parse).and_then(|mem| mem.total_bytes(cpus, nodes));
        let gpu_type = request.gpu_type().or_else(|| given.gpu_type());
        let exit = text("ExitCode").and_then(|code| code.split(':').next()?.parse().ok());
        // A job may well be called `none` or `-`, so only an empty name is unknown.
        let name = get("JobName").map(str::trim).filter(|name| !name.is_empty());
        let words = &mut self.assembly;
        let allocation = Allocation {
            cluster: words.word(text("Cluster")),
            user: words.word(text("User")),
            account: words.word(text("Account")),
            partition: words.word(text("Partition")),
            qos: words.word(text("QOS")),
            name: words.word(name),
            gpu_type: words.word(gpu_type.as_deref()),
            nodes_hostlist: words.word(text("NodeList")),
            reported_state: words.word(text("State")),
            state,
            requeued,
            submit,
            start,
            end,
            elapsed_s,
            suspended_s: suspended_s.filter(|seconds| *seconds >= 0.0 && start.is_some()),
            time_limit_s: limit_minutes.map(|minutes| minutes * 60.0),
            exit_code: exit,
            req_nodes: nodes.or(request.nodes),
            alloc_nodes: given.nodes,
            req_cpus: cpus.or(request.cpus),
            alloc_cpus: given.cpus,
            req_mem_bytes: mem.or(request.mem_bytes),
            alloc_mem_bytes: given.mem_bytes,
            req_gpus: request.gpus(),
            alloc_gpus: given.gpus(),
            req_listed: asked_has && !request.hides_gpus(),
            alloc_listed: given_has && !given.hides_gpus(),
            nodes_told: true,
            ..Allocation::default()
        };
        self.assembly.allocation(id, allocation, &mut row);
        ledger.keep(row);
    }

    /// Writes jobs, attempts and placements into `trace`, if there was any record.
    pub(in crate::ingest) fn finish(self, trace: &mut Trace) {
        if self.any {
            self.assembly.finish(trace);
        }
    }
}
