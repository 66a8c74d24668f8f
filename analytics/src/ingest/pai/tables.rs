//! The seven tables: their columns, and how a file's table is told.

use crate::ingest::source::{Head, SourceFile};

/// Role of a file: one of the seven tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    GroupTag,
    Job,
    Task,
    Instance,
    Sensor,
    MachineSpec,
    MachineMetric,
}

/// A table of the request.
#[derive(Debug)]
pub(super) struct Table<'f> {
    pub(super) file: &'f SourceFile,
    pub(super) role: Role,
    /// Whether the file itself begins with its column names.
    pub(super) has_header: bool,
    /// Columns as a `.header` file lists them.
    pub(super) columns: Option<Vec<String>>,
}

impl Role {
    /// Jobs are looked up by tasks, tasks by instances; tags are looked up by jobs.
    pub(super) const IN_READING_ORDER: [Self; 7] =
        [Self::GroupTag, Self::Job, Self::Task, Self::Instance, Self::Sensor, Self::MachineSpec, Self::MachineMetric];

    /// The columns of the table as published.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Job => &["job_name", "inst_id", "user", "status", "start_time", "end_time"],
            Self::Task => &[
                "job_name",
                "task_name",
                "inst_num",
                "status",
                "start_time",
                "end_time",
                "plan_cpu",
                "plan_mem",
                "plan_gpu",
                "gpu_type",
            ],
            Self::Instance => &[
                "job_name",
                "task_name",
                "inst_name",
                "worker_name",
                "inst_id",
                "status",
                "start_time",
                "end_time",
                "machine",
            ],
            Self::Sensor => &[
                "job_name",
                "task_name",
                "worker_name",
                "inst_id",
                "machine",
                "gpu_name",
                "cpu_usage",
                "gpu_wrk_util",
                "avg_mem",
                "max_mem",
                "avg_gpu_wrk_mem",
                "max_gpu_wrk_mem",
                "read",
                "write",
                "read_count",
                "write_count",
            ],
            Self::GroupTag => &["inst_id", "user", "gpu_type_spec", "group", "workload"],
            Self::MachineSpec => &["machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"],
            Self::MachineMetric => &[
                "worker_name",
                "machine",
                "start_time",
                "end_time",
                "machine_cpu_iowait",
                "machine_cpu_kernel",
                "machine_cpu_usr",
                "machine_gpu",
                "machine_load_1",
                "machine_net_receive",
                "machine_num_worker",
                "machine_cpu",
            ],
        }
    }

    /// Part of the file's published name.
    fn name(self) -> &'static str {
        match self {
            Self::GroupTag => "pai_group_tag",
            Self::Job => "pai_job_table",
            Self::Task => "pai_task_table",
            Self::Instance => "pai_instance_table",
            Self::Sensor => "pai_sensor_table",
            Self::MachineSpec => "pai_machine_spec",
            Self::MachineMetric => "pai_machine_metric",
        }
    }
}

/// The table whose published name the file has.
pub(super) fn role_by_name(head: &Head) -> Option<Role> {
    Role::IN_READING_ORDER.into_iter().find(|role| head.name.contains(role.name()))
}

/// The table whose column names stand in the first line.
pub(super) fn role_by_content(head: &Head) -> Option<Role> {
    Role::IN_READING_ORDER.into_iter().find(|role| {
        let columns = role.columns();
        head.first_line().split(',').count() == columns.len() && head.has_columns(',', columns)
    })
}

/// The table with as many columns as the first line has fields. Of the two with five, machines have numbers last.
pub(super) fn role_by_width(head: &Head) -> Option<Role> {
    let fields = names(head.first_line());
    if fields.len() == Role::MachineSpec.columns().len() {
        let numbers = fields.iter().skip(2).all(|field| field.parse::<f64>().is_ok());
        return Some(if numbers { Role::MachineSpec } else { Role::GroupTag });
    }
    Role::IN_READING_ORDER.into_iter().find(|role| role.columns().len() == fields.len())
}

/// The fields of a header line, lower case.
pub(super) fn names(line: &str) -> Vec<String> {
    line.split(',').map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, text: &str) -> Head {
        Head { name: name.to_owned(), text: text.to_owned(), more: false }
    }

    #[test]
    fn a_table_is_told_by_name_by_header_and_by_width() {
        assert_eq!(role_by_name(&head("pai_job_table.csv", "")), Some(Role::Job));
        assert_eq!(role_by_name(&head("jobs.csv", "")), None);
        let header = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\n";
        assert_eq!(role_by_content(&head("x", header)), Some(Role::MachineSpec));
        assert_eq!(role_by_width(&head("x", "m1,T4,96,512,2\n")), Some(Role::MachineSpec));
        assert_eq!(role_by_width(&head("x", "i1,u1,,g1,bert\n")), Some(Role::GroupTag));
        assert_eq!(role_by_width(&head("x", "j,i,u,Terminated,1,2\n")), Some(Role::Job));
        assert_eq!(role_by_width(&head("x", "a,b\n")), None);
    }

    /// Widths tell all tables apart but the two with five columns.
    #[test]
    fn widths_are_distinct() {
        let mut widths: Vec<usize> = Role::IN_READING_ORDER.iter().map(|role| role.columns().len()).collect();
        widths.sort_unstable();
        assert_eq!(widths, [5, 5, 6, 9, 10, 12, 16]);
    }
}
