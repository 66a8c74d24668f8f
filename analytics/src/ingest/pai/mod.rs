//! Reads PAI 2020, the trace of Alibaba's machine-learning platform (published with "MLaaS in the Wild", NSDI '22).
//!
//! Seven CSV tables without headers, whose columns are pinned in `tables.rs`; `.header` files beside them are honoured.
//! A *job* has *tasks* (worker, ps, …), a task has *instances*, an instance has *sensor* rows, one a GPU.
//!
//! * Times are seconds since an unknown moment. Read as Unix times in UTC+8 they show the true hour and weekday, and a
//!   date that means nothing.
//! * A job's `start_time` is when it was submitted; it starts when its first task does: wait = min(task start) − submit.
//! * `plan_cpu`, `plan_gpu` and `gpu_wrk_util` are percent of one core or GPU: a job's GPUs are
//!   Σ plan_gpu / 100 × inst_num over its tasks. A task that plans CPU or memory and leaves `plan_gpu` empty asks for no
//!   GPU; a task that plans nothing is unknown, and so are then the job's GPUs.
//! * Utilisation of a job is the mean of `gpu_wrk_util` / 100 over its sensor rows: a share of the GPUs it was seen on.
//! * Only `Terminated` is success.
//! * `machine_metric` holds averages over a worker's life, no samples in time, and is passed over.
//!
//! O(bytes) plus a sort of the placements; memory about 300 bytes a job, 50 a task and 50 an instance or sensor row.
//! Worked number: a task of 3 instances with plan_gpu 50 and one of 2 with 100 are 3 × 0.5 + 2 × 1 = 3.5 GPUs.

mod join;
mod tables;

use self::join::Join;
use self::tables::{Role, Table, role_by_content, role_by_name, role_by_width};
use super::delimited::Delimited;
use super::options::ReadOptions;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::time::TimeBasis;
use crate::trace::Trace;

/// The tables of PAI 2020.
#[derive(Debug)]
pub(super) struct Pai;

impl Reader for Pai {
    fn id(&self) -> &'static str {
        "pai"
    }

    fn describes(&self) -> &'static str {
        "Alibaba PAI 2020: pai_job_table.csv and the six tables beside it"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        // An archive begins with names that look right.
        if head.first_line().contains('\0') {
            return Confidence::No;
        }
        if role_by_content(head).is_some() {
            return Confidence::Sure;
        }
        let fits = |role: Role| head.text.lines().take(20).any(|line| line.split(',').count() == role.columns().len());
        if role_by_name(head).is_some_and(fits) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let tables = tables(files)?;
        let has = |role: Role| tables.iter().any(|table| table.role == role);
        let needs_jobs = [Role::Task, Role::Instance, Role::Sensor].into_iter().any(has);
        if needs_jobs && !has(Role::Job) {
            return Err(Error::format(
                tables.iter().map(|table| table.file.name()).collect::<Vec<_>>().join(", "),
                "the job table is missing, without which tasks, instances and sensors belong to nothing",
                "give pai_job_table.csv too",
            ));
        }
        let mut join = Join::default();
        for role in Role::IN_READING_ORDER {
            for table in tables.iter().filter(|table| table.role == role) {
                let rows = table.open(options)?;
                match role {
                    Role::GroupTag => join.read_group_tags(rows, &mut trace.ledger)?,
                    Role::Job => join.read_jobs(table.file, rows, &mut trace.ledger)?,
                    Role::Task => join.read_tasks(rows, &mut trace.ledger)?,
                    Role::Instance => join.read_instances(rows, &mut trace.ledger)?,
                    Role::Sensor => join.read_sensors(rows, &mut trace.ledger)?,
                    Role::MachineSpec => join.read_machines(rows, trace)?,
                    Role::MachineMetric => {}
                }
            }
        }
        if has(Role::Job) {
            trace.basis = TimeBasis::RelativeWeek;
            options.zone_or("Asia/Shanghai")?.name().clone_into(&mut trace.zone);
            trace.note("PAI: hours and weekdays are true, dates are not; a job starts when its first task does.");
            if !has(Role::Task) {
                trace.note("PAI: without the task table, starts and GPUs are unknown.");
            }
            if has(Role::Instance) {
                trace.note("PAI: GPUs of a placement are summed over the job's instances on that machine.");
            }
            join.finish(trace);
        }
        for table in tables.iter().filter(|table| table.role == Role::MachineMetric) {
            trace.skipped.push(table.file.name().to_owned());
            trace.note("PAI: machine_metric holds averages over a worker's life, no samples in time; it is not read.");
        }
        Ok(())
    }
}

/// Tells the roles of files apart, and gives each table the columns its `.header` file lists.
fn tables(files: &[SourceFile]) -> Result<Vec<Table<'_>>> {
    let mut tables = Vec::new();
    let mut headers: Vec<(Role, Vec<String>)> = Vec::new();
    for file in files {
        let head = file.head()?;
        let by_content = role_by_content(&head);
        if let (Some(role), true) = (by_content, head.name.ends_with(".header")) {
            headers.push((role, tables::names(head.first_line())));
            continue;
        }
        let role = by_content.or_else(|| role_by_name(&head)).or_else(|| role_by_width(&head));
        let Some(role) = role else {
            return Err(Error::format(
                file.name(),
                "neither its name nor its number of columns is that of a PAI table",
                "give the files under their published names, such as pai_job_table.csv",
            ));
        };
        tables.push(Table { file, role, has_header: by_content.is_some(), columns: None });
    }
    for table in &mut tables {
        let listed = headers.iter().find(|(role, _)| *role == table.role);
        table.columns = listed.map(|(_, columns)| columns.clone());
    }
    Ok(tables)
}

impl Table<'_> {
    fn open<'o>(&self, options: &ReadOptions<'o>) -> Result<Delimited<'o>> {
        if self.has_header {
            return Delimited::open(self.file, b',', options.observer);
        }
        let pinned = || self.role.columns().iter().map(|name| (*name).to_owned()).collect();
        let columns = self.columns.clone().unwrap_or_else(pinned);
        Delimited::headerless(self.file, b',', columns, options.observer)
    }
}
