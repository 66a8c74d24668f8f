//! One line of the log: its parts, whose it is, and what its message tells.

use super::resource::{self, GPU_TYPES, counts_gpus};
use crate::ingest::batch::job::{Assembly, BAD_NODE, Gpus, Job, NamedNode, Run};
use crate::ingest::field::{self, Moment};
use crate::quality::{Reason, RowAudit};

/// An amount of a resource that is none.
const BAD_RESOURCE: Reason = Reason {
    id: "bad_resource",
    what: "the amount of a resource cannot be read; it is set to unknown",
    remedy: "check the place in the source",
};

/// The four parts of a line.
pub(super) struct Line<'a> {
    pub(super) time: &'a str,
    pub(super) kind: u8,
    pub(super) id: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(4, ';');
        let (time, kind, id, message) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let shaped = time.len() == 19
            && time.bytes().enumerate().all(|(at, byte)| match at {
                2 | 5 => byte == b'/',
                10 => byte == b' ',
                13 | 16 => byte == b':',
                _ => byte.is_ascii_digit(),
            });
        match kind.as_bytes() {
            [kind] if shaped && kind.is_ascii_alphabetic() => Some(Self { time, kind: *kind, id, message }),
            _ => None,
        }
    }

    /// `YYYY-MM-DD HH:MM:SS`.
    pub(super) fn local(&self) -> String {
        let part = |from: usize, to: usize| self.time.get(from..to).unwrap_or_default();
        format!("{}-{}-{} {}", part(6, 10), part(0, 2), part(3, 5), part(11, 19))
    }
}

/// Part of an array that an identifier names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part<'a> {
    /// A job.
    Whole,
    /// A task.
    Task(&'a str),
    /// The array.
    Array,
    /// Several tasks at once.
    Several,
}

/// The number, the part and the server of an identifier; `None` if it is not that of a job (reservations begin with a letter).
pub(super) fn job_id(text: &str) -> Option<(&str, Part<'_>, Option<&str>)> {
    let (sequence, server) = match text.trim().split_once('.') {
        Some((sequence, server)) => (sequence, field::text(Some(server))),
        None => (text.trim(), None),
    };
    let digits = sequence.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = sequence.split_at_checked(digits).filter(|(number, _)| !number.is_empty())?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = match (rest, rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')), rest.strip_prefix('-')) {
        ("", _, _) => Part::Whole,
        (_, Some(""), _) => Part::Array,
        (_, Some(task), _) | (_, None, Some(task)) if is_number(task) => Part::Task(task),
        (_, Some(_), _) => Part::Several,
        _ => return None,
    };
    Some((number, part, server))
}

/// The pairs of a message: `key=value`, separated by blanks. What is no pair belongs to the value before it.
fn pairs(message: &str) -> Vec<(&str, &str)> {
    fn begins_pair(text: &str) -> bool {
        let token = text.split(char::is_whitespace).next().unwrap_or_default();
        token.split_once('=').is_some_and(|(key, _)| is_key(key))
    }
    fn is_key(key: &str) -> bool {
        key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
    }
    let mut result = Vec::new();
    let mut rest = message.trim();
    while !rest.is_empty() {
        let (mut end, mut from) = (rest.len(), 0);
        while let Some(at) = rest.get(from..).and_then(|tail| tail.find(char::is_whitespace)) {
            let tail = rest.get(from + at..).unwrap_or_default().trim_start();
            if begins_pair(tail) {
                end = from + at;
                break;
            }
            from = rest.len() - tail.len();
        }
        let (pair, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if let Some((key, value)) = pair.split_once('=').filter(|(key, _)| is_key(key)) {
            result.push((key, value.trim().trim_matches('"')));
        }
        rest = tail.trim_start();
    }
    result
}

/// Content of one record.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) job: Job,
    pub(super) run: Run,
    pub(super) exit: Option<i64>,
    /// Whether the words are those of PBS, and not of Torque.
    pub(super) is_pbs: bool,
    /// Whether a suspension released some resources only, and none of them GPUs.
    pub(super) keeps_gpus: bool,
}

impl Told {
    /// Reads a message.
    pub(super) fn of(message: &str, words: &mut Assembly, row: &mut RowAudit<'_>) -> Self {
        let mut told = Self::default();
        let [mut account, mut project, mut vnodes, mut hosts, mut gpus] = [None; 5];
        let (mut request, mut need, mut counted, mut cores) = (None, None, None, None);
        let (mut is_select, mut spoiled) = (false, false);
        let bad = |row: &mut RowAudit<'_>, key: &str, value: &str| row.repair(BAD_RESOURCE, key, value);
        for (key, value) in pairs(message) {
            let moment = |row: &mut RowAudit<'_>| Moment::Seconds.read(Some(value), key, row).filter(|ms| *ms > 0);
            let job = &mut told.job;
            match key {
                "user" => job.user = words.word(field::text(Some(value))),
                "account" => account = field::text(Some(value)),
                // The name of the project of a job that names none.
                "project" => project = field::text(Some(value)).filter(|name| *name != "_pbs_project_default"),
                "queue" => job.vc = words.word(field::text(Some(value))),
                "qos" => job.qos = words.word(field::text(Some(value))),
                "jobname" => job.name = words.word(Some(value).filter(|name| !name.is_empty())),
                "depend" => job.depends_on = words.word(field::text(Some(value))),
                "ctime" => job.submit = moment(row),
                "etime" => job.eligible = moment(row),
                "start" => told.run.start = moment(row),
                "end" => told.run.end = moment(row),
                "Exit_status" => told.exit = field::whole(Some(value), key, row),
                "exec_vnode" => vnodes = Some(value),
                "exec_host" => hosts = Some(value),
                "exec_gpus" => gpus = Some(value),
                "resources_released" => {
                    let released = resource::vnodes(value);
                    told.keeps_gpus = released.is_some_and(|vnodes| vnodes.iter().all(|vnode| vnode.gpus.is_none()));
                }
                "resources_used.walltime" => match resource::seconds(value) {
                    Some(seconds) => told.run.reported_s = Some(seconds),
                    None => bad(row, key, value),
                },
                _ => {}
            }
            let Some(name) = key.strip_prefix("Resource_List.") else { continue };
            job.req_gpus.listed = true;
            let mut amount = |read: fn(&str) -> Option<f64>| {
                let amount = read(value);
                if amount.is_none() {
                    bad(row, key, value);
                }
                amount
            };
            match name {
                "select" => (request, is_select) = (Some((key, value)), true),
                "nodes" if !is_select => request = Some((key, value)),
                "neednodes" => need = Some((key, value)),
                "walltime" => job.time_limit_s = amount(resource::seconds),
                "mem" => job.req_mem_bytes = amount(resource::bytes).map(|bytes| bytes as i64),
                "ncpus" => cores = amount(resource::number),
                // Torque may repeat the request here: `2:ppn=8:gpu=4`.
                "nodect" => {
                    job.req_nodes = value.split(':').next().and_then(resource::number).map(|nodes| nodes as i64);
                    counted = value.contains(':').then_some((key, value));
                }
                // Moab's generic resources are counted by the task.
                "gres" => spoiled |= value.to_ascii_lowercase().contains("gpu"),
                _ if counts_gpus(name) => {
                    job.req_gpus.count = amount(resource::number);
                    spoiled |= job.req_gpus.count.is_none();
                }
                _ if GPU_TYPES.contains(&name) => job.gpu_type = words.word(field::text(Some(value))),
                _ => {}
            }
        }
        let job = &mut told.job;
        job.account = words.word(account.or(project));
        let requests = [request, need, counted].map(|request| {
            let (key, value) = request?;
            let asked = resource::request(value);
            if asked.is_none() {
                bad(row, key, value);
                spoiled = true;
            }
            asked
        });
        // The first tells of nodes and cores; sites that rewrite requests may name GPUs in a later one only.
        let asked = requests.into_iter().flatten().next();
        job.req_gpus.count = job.req_gpus.count.or(requests.into_iter().flatten().find_map(|asked| asked.gpus));
        if let Some(asked) = asked {
            job.req_nodes = job.req_nodes.or(Some(asked.chunks as i64));
            if job.gpu_type.is_none() {
                job.gpu_type = words.word(asked.gpu_type);
            }
        }
        // A list that cannot be read may have named GPUs.
        // Nor is a model without a number none.
        job.req_gpus.listed &= !spoiled && (job.gpu_type.is_none() || job.req_gpus.count.is_some());
        // PBS sums the cores of a `select` up; Torque has a default beside `nodes`, which says nothing.
        let of_request = asked.map(|asked| asked.cpus);
        job.req_cpus = if is_select { cores.or(of_request) } else { of_request.or(cores) };
        told.is_pbs = vnodes.is_some() || is_select;
        given(&mut told.run, [vnodes, hosts, gpus], words, row);
        told
    }
}

/// Fills in what a run was given: nodes, cores, memory, GPUs.
fn given(run: &mut Run, [vnodes, hosts, gpus]: [Option<&str>; 3], words: &mut Assembly, row: &mut RowAudit<'_>) {
    if let Some(text) = vnodes {
        let Some(vnodes) = resource::vnodes(text) else {
            row.repair(BAD_NODE, "exec_vnode", text);
            return;
        };
        run.cpus = Some(vnodes.iter().map(|vnode| vnode.cpus).sum());
        let mem_bytes: f64 = vnodes.iter().map(|vnode| vnode.mem_bytes).sum();
        run.mem_bytes = (mem_bytes > 0.0).then_some(mem_bytes as i64);
        let any = vnodes.iter().any(|vnode| vnode.gpus.is_some());
        let sum = vnodes.iter().filter_map(|vnode| vnode.gpus).sum();
        run.gpus = Gpus { count: any.then_some(sum), listed: true };
        let of_node = |vnode: &resource::Vnode<'_>| any.then(|| vnode.gpus.unwrap_or(0.0));
        let named = vnodes.iter().map(|vnode| NamedNode { name: vnode.host, gpus: of_node(vnode), gpu_id: None });
        run.nodes = words.nodes(named.collect(), "exec_vnode", row);
        return;
    }
    let Some(text) = hosts else { return };
    let Some(hosts) = resource::hosts(text) else {
        row.repair(BAD_NODE, "exec_host", text);
        return;
    };
    run.cpus = Some(hosts.iter().map(|(_, slots)| slots).sum());
    let mut named: Vec<NamedNode<'_>> = hosts.iter().map(|&(host, _)| NamedNode::plain(host)).collect();
    if let Some(text) = gpus {
        if let Some(gpus) = resource::gpus(text) {
            run.gpus = Gpus { count: Some(gpus.len() as f64), listed: true };
            for node in &mut named {
                node.gpus = Some(0.0);
            }
            named.extend(gpus.iter().map(|&(name, id)| NamedNode { name, gpus: Some(1.0), gpu_id: Some(id) }));
        } else {
            row.repair(BAD_NODE, "exec_gpus", text);
        }
    }
    run.nodes = words.nodes(named, "exec_host", row);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn identifiers_of_jobs_arrays_and_reservations() {
        assert_eq!(job_id("12.srv.a"), Some(("12", Part::Whole, Some("srv.a"))));
        assert_eq!(job_id("12"), Some(("12", Part::Whole, None)));
        assert_eq!(job_id("12[4].srv"), Some(("12", Part::Task("4"), Some("srv"))));
        assert_eq!(job_id("12-4.srv"), Some(("12", Part::Task("4"), Some("srv"))));
        assert_eq!(job_id("12[].srv"), Some(("12", Part::Array, Some("srv"))));
        assert_eq!(job_id("12[3-9].srv"), Some(("12", Part::Several, Some("srv"))));
        for text in ["", "R12.srv", "12x.srv", ".srv", "12-.srv"] {
            assert_eq!(job_id(text), None, "{text}");
        }
    }

    #[test]
    fn pairs_may_hold_blanks_and_quotes() {
        let result = pairs("user=ana account=\"A 1\" comment=two words (a:b) Resource_List.mem=1gb x=");
        let expected = [
            ("user", "ana"),
            ("account", "A 1"),
            ("comment", "two words (a:b)"),
            ("Resource_List.mem", "1gb"),
            ("x", ""),
        ];
        assert_eq!(result, expected);
        assert!(pairs("Job deleted as result of dependency on job 7").is_empty());
        assert!(pairs("").is_empty());
    }

    #[test]
    fn only_a_record_is_one() {
        let line = Line::parse("03/04/2024 10:00:00;E;12.srv;user=a;b").unwrap();
        assert_eq!((line.kind, line.id, line.message), (b'E', "12.srv", "user=a;b"));
        assert_eq!(line.local(), "2024-03-04 10:00:00");
        for text in [
            "03/04/2024 10:00:00;0100;Server;Job",
            "03/04/2024 10:00:00;E;12",
            "2024-03-04 10:00:00;E;1;x",
            "é;E;1;x",
            "",
        ] {
            assert!(Line::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z=;:. \\[\\]\"é-]{0,40}") {
            let _ = (Line::parse(&text), job_id(&text), pairs(&text));
        }
    }
}
