//! Information in labels and file names: the node, the GPU, the job, the time.
//!
//! Exporters and relabelling rules disagree on the case of label names (dcgm-exporter renamed `Hostname` to `hostname`
//! in 2026), so names are compared without it. When Prometheus scrapes an exporter whose labels clash with its own, it
//! renames the exporter's to `exported_…`: those are the ones that tell about the workload. Which names say what, the table
//! of metrics knows.

use super::gather::Device;
use super::role::{Role, Roles};
use crate::time::{Zone, parse_local, seconds_to_ms};

/// Labels of a series: names and values.
#[derive(Debug, Default)]
pub(super) struct Labels(pub(super) Vec<(String, String)>);

impl Labels {
    /// The first of `names` that is there and not empty.
    pub(super) fn get(&self, names: &[impl AsRef<str>]) -> Option<&str> {
        names.iter().find_map(|name| {
            let result = self.0.iter().find(|(have, _)| have.eq_ignore_ascii_case(name.as_ref()));
            result.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        })
    }

    /// The label that says `role`.
    pub(super) fn role(&self, roles: &Roles, role: Role) -> Option<&str> {
        self.get(roles.names(role))
    }

    /// The label that says `role` under the name that Prometheus gives it where its own has the same.
    fn exported(&self, roles: &Roles, role: Role) -> Option<&str> {
        let names: Vec<String> = roles.names(role).iter().map(|name| format!("exported_{name}")).collect();
        self.get(&names)
    }

    /// The node: its host name, or else the address that was scraped, without the port.
    pub(super) fn node(&self, roles: &Roles) -> Option<String> {
        let name = self.role(roles, Role::Node)?;
        let host = name.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        Some(host.map_or(name, |(host, _)| host).to_owned())
    }

    /// The GPU: its index, else its UUID; with profile and id of the MIG instance as `0/1g.10gb:3`.
    pub(super) fn gpu(&self, roles: &Roles) -> Option<Device> {
        let gpu = self.role(roles, Role::Gpu)?;
        let name = match (self.role(roles, Role::MigProfile), self.role(roles, Role::MigInstance)) {
            (Some(profile), Some(id)) => format!("{gpu}/{profile}:{id}"),
            (Some(profile), None) => format!("{gpu}/{profile}"),
            (None, Some(id)) => format!("{gpu}/:{id}"),
            (None, None) => gpu.to_owned(),
        };
        Some(Device { node: self.node(roles), name })
    }

    /// The meter of a node that reads `metric`; `meter` is its name, if the table has one.
    pub(super) fn meter(&self, roles: &Roles, meter: Option<&str>, metric: &str) -> Device {
        let label = match (self.get(&["chip"]), self.role(roles, Role::Meter)) {
            (Some(chip), Some(sensor)) => Some(format!("{chip}/{sensor}")),
            (Some(name), None) | (None, Some(name)) => Some(name.to_owned()),
            (None, None) => None,
        };
        let name = match (meter, label) {
            (Some(meter), Some(label)) => format!("{meter} {label}"),
            (Some(meter), None) => meter.to_owned(),
            (None, Some(label)) => label,
            (None, None) => metric.to_owned(),
        };
        Device { node: self.node(roles), name }
    }

    /// Subject of a count: a partition (scope `vc`), else the cluster.
    pub(super) fn queue(&self, roles: &Roles) -> Device {
        let (scope, name) = match self.role(roles, Role::Queue) {
            Some(queue) => ("vc", queue),
            None => ("cluster", self.role(roles, Role::Cluster).unwrap_or("cluster")),
        };
        Device { node: Some(scope.to_owned()), name: name.to_owned() }
    }

    /// The job: a batch job's id, or `namespace/pod`. Containers of a pod are one job.
    pub(super) fn job(&self, roles: &Roles) -> Option<String> {
        if let Some(job) = self.role(roles, Role::Job) {
            return Some(job.to_owned());
        }
        // The plain names tell about the exporter's own pod wherever the renamed ones are there.
        let exported = (self.exported(roles, Role::Pod), self.exported(roles, Role::Namespace));
        let (pod, namespace) = match exported {
            (None, None) if self.get(&["exported_container"]).is_none() => {
                (self.role(roles, Role::Pod), self.role(roles, Role::Namespace))
            }
            exported => exported,
        };
        match (namespace, pod?) {
            (Some(namespace), pod) => Some(format!("{namespace}/{pod}")),
            (None, pod) => Some(pod.to_owned()),
        }
    }
}

/// The moment a file name holds: ten digits (seconds since 1970), thirteen (milliseconds), or a date and a time of day
/// in `zone`, with or without separators. A date alone is no moment.
pub(in crate::ingest) fn moment_in_name(name: &str, zone: &Zone) -> Option<i64> {
    let groups: Vec<&str> = name.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).collect();
    for (ix, group) in groups.iter().enumerate() {
        let number = || group.parse::<f64>().ok();
        match group.len() {
            10 => return seconds_to_ms(number()?),
            13 => return seconds_to_ms(number()? / 1_000.0),
            _ => {}
        }
        if !group.starts_with("20") {
            continue;
        }
        let mut digits = String::new();
        for part in groups.get(ix..)? {
            if digits.len() < 14 {
                digits.push_str(part);
            }
        }
        let part = |from: usize, to: usize| digits.get(from..to);
        if digits.len() != 14 {
            continue;
        }
        let text = format!(
            "{}-{}-{} {}:{}:{}",
            part(0, 4)?,
            part(4, 6)?,
            part(6, 8)?,
            part(8, 10)?,
            part(10, 12)?,
            part(12, 14)?
        );
        if let Some((ms, _)) = parse_local(&text).and_then(|local| zone.resolve(local)) {
            return Some(ms);
        }
    }
    None
}

/// The node a file is named after: the name without its endings, without dates and times at its end, and without the
/// words that name the tool. `None` if nothing is left.
pub(super) fn node_in_name(path: &std::path::Path) -> Option<String> {
    const ENDINGS: [&str; 8] = [".gz", ".zst", ".csv", ".txt", ".log", ".out", ".json", ".xml"];
    const WORDS: [&str; 14] = [
        "nvidia",
        "smi",
        "rocm",
        "amd",
        "redfish",
        "gpu",
        "gpus",
        "ipmi",
        "sdr",
        "power",
        "metric",
        "metrics",
        "telemetry",
        "q",
    ];
    const TOOLS: [&str; 5] = ["nvidia-smi", "rocm-smi", "amd-smi", "ipmi", "redfish"];
    let mut name = path.file_name()?.to_string_lossy().into_owned();
    while let Some(ending) = ENDINGS.iter().find(|ending| name.to_ascii_lowercase().ends_with(*ending)) {
        name.truncate(name.len() - ending.len());
    }
    let is_word = |part: &str| WORDS.iter().any(|word| part.eq_ignore_ascii_case(word));
    let is_time = |part: &str| {
        let digits = part.trim_start_matches(['T', 't']).trim_end_matches(['Z', 'z']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'T')
    };
    // The name's own separators are kept between the parts that stay: `gpu-node-07` is a node.
    let mut rest = name.as_str();
    let strip_end = |rest: &str, drop: &dyn Fn(&str) -> bool| -> Option<usize> {
        let at = rest.rfind(['-', '_', '.', ' ']);
        let last = rest.get(at.map_or(0, |at| at + 1)..)?;
        (last.is_empty() || drop(last)).then_some(at.unwrap_or(0))
    };
    let dated = |text: &str| {
        // A number at the end belongs to the node (`node-07`, `node-0012`) unless it can be part of a date.
        let is_date = |part: &str| part.len() >= 8 || (part.len() >= 4 && part.starts_with("20"));
        text.split(['-', '_', '.', ' ']).any(|part| is_date(part) && is_time(part))
    };
    loop {
        let end = if dated(rest) { strip_end(rest, &|part| is_time(part) || is_word(part)) } else { None };
        let Some(at) = end.or_else(|| strip_end(rest, &is_word)) else { break };
        rest = rest.get(..at)?;
        if rest.is_empty() {
            break;
        }
    }
    for tool in TOOLS {
        let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
        let starts = rest.get(..tool.len()).is_some_and(|start| plain(start) == tool);
        if let Some(after) =
            rest.get(tool.len()..).filter(|_| starts).and_then(|after| after.strip_prefix(['-', '_', '.']))
        {
            rest = after;
        }
    }
    (!rest.is_empty()).then(|| rest.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::super::table::MetricTable;
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn nodes_gpus_and_jobs_are_found_under_any_case_and_name() {
        let table = MetricTable::bundled();
        let roles = &table.find("DCGM_FI_DEV_GPU_UTIL", &Labels::default()).unwrap().roles;
        let mig = labels(&[("GPU", "2"), ("Hostname", "n1"), ("GPU_I_ID", "3"), ("gpu_i_profile", "1g.10gb")]);
        assert_eq!(mig.gpu(roles), Some(Device { node: Some("n1".to_owned()), name: "2/1g.10gb:3".to_owned() }));
        let scraped = labels(&[
            ("UUID", "GPU-1"),
            ("instance", "10.0.0.1:9400"),
            ("pod", "dcgm-exporter-x"),
            ("namespace", "monitoring"),
            ("exported_pod", "train-0"),
            ("exported_namespace", "ml"),
        ]);
        assert_eq!(scraped.gpu(roles), Some(Device { node: Some("10.0.0.1".to_owned()), name: "GPU-1".to_owned() }));
        assert_eq!(scraped.job(roles).as_deref(), Some("ml/train-0"));
        assert_eq!(labels(&[("hpc_job", "77"), ("pod", "p")]).job(roles).as_deref(), Some("77"));
        assert_eq!(labels(&[("pod", "")]).job(roles), None);
    }

    #[test]
    fn a_moment_in_a_name_needs_a_time_of_day() {
        let utc = Zone::utc();
        // 1,684,936,800 s = 2023-05-24 14:00:00 UTC.
        for name in
            ["n-12-1684936800.prom", "1684936800000.prom", "n1_20230524-140000.prom", "2023-05-24T14_00_00Z.prom"]
        {
            assert_eq!(moment_in_name(name, &utc), Some(1_684_936_800_000), "{name}");
        }
        assert_eq!(moment_in_name("node-2023-05-24.prom", &utc), None);
        assert_eq!(moment_in_name("20239924140000", &utc), None);
    }

    #[test]
    fn a_file_is_named_after_its_node() {
        for (name, node) in [
            ("holy2c1-2025-05-29.txt", Some("holy2c1")),
            ("gpu-node-07.csv", Some("gpu-node-07")),
            ("node-0012_2025-05-29.txt", Some("node-0012")),
            ("node07_nvidia-smi_2023-05-01T12-00-00Z.csv.gz", Some("node07")),
            ("nvidia-smi-node07.log", Some("node07")),
            ("NODE07.nvidia_smi.csv", Some("NODE07")),
            ("nvidia-smi.csv", None),
            ("nvidia-smi-q.txt", None),
            ("rocm_smi_node07.json", Some("node07")),
            ("n7-redfish-power.json", Some("n7")),
            ("n7.amd-smi-metric.json.gz", Some("n7")),
            ("2023-05-01.csv", None),
        ] {
            assert_eq!(node_in_name(Path::new(name)).as_deref(), node, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_file_name_is_survived(name in "[a-zA-Z0-9é._ -]{0,40}") {
            let _ = moment_in_name(&name, &Zone::utc());
            // What is left of a name is a part of it.
            if let Some(node) = node_in_name(Path::new(&name)) {
                proptest::prop_assert!(name.contains(&node) && !node.is_empty());
            }
        }

        #[test]
        fn a_stamp_in_a_name_is_read_back(s in 1_000_000_000_i64..4_000_000_000) {
            proptest::prop_assert_eq!(moment_in_name(&format!("node-7_{s}.prom"), &Zone::utc()), Some(s * 1_000));
            let digits: String =
                crate::time::format_utc(s * 1_000).chars().filter(char::is_ascii_digit).collect();
            proptest::prop_assert_eq!(moment_in_name(&format!("n_{digits}.prom"), &Zone::utc()), Some(s * 1_000));
        }
    }
}
