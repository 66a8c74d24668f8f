//! Formats of amounts, requests and nodes in PBS and Torque.
//!
//! * Durations (`pbs_resources(7)`): `[[HH:]MM:]SS[.mmm]` or seconds; Torque allows days before the hours.
//! * Sizes (`pbs_resources(7)`): a number with `b` (bytes) or `w` (words of 8 bytes), after `k`, `m`, `g`, `t` or `p`.
//! * Requests: `select=2:ncpus=8:ngpus=4+1:ncpus=1` (PBS) and `nodes=2:ppn=8:gpus=4+n7:ppn=1` (Torque). Chunks are joined by
//!   `+` and begin with their number or, in Torque, with a node's name.
//! * `exec_vnode=(n1:ncpus=8:ngpus=4)+(n2[0]:ncpus=4+n2[1]:ncpus=4)`: what was given on each virtual node; `n2[1]` is a part
//!   of the host `n2`.
//! * `exec_host=n1/0*8+n2/0,2-3` and `exec_gpus=n1-gpu/0+n1-gpu/1`: slots and GPUs by host and number.
//!
//! Worked number: `2:ncpus=8:ngpus=4+1:ncpus=1` is 3 chunks, 2 × 8 + 1 = 17 CPU cores and 2 × 4 = 8 GPUs.
//! O(text).

/// Names under which sites count GPUs.
const GPUS: [&str; 4] = ["ngpus", "gpus", "gpu", "naccelerators"];
/// Names under which sites say the model of the GPUs.
pub(super) const GPU_TYPES: [&str; 5] = ["gpu_type", "gpu_model", "gputype", "gpu_name", "accelerator_model"];

/// Whether a resource called so counts GPUs.
pub(super) fn counts_gpus(name: &str) -> bool {
    GPUS.contains(&name)
}

/// Seconds in a duration, `None` if the text is none.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let parts = text.split(':').map(number).collect::<Option<Vec<f64>>>()?;
    match parts.as_slice() {
        [seconds] => Some(*seconds),
        [minutes, seconds] => Some(minutes * 60.0 + seconds),
        [hours, minutes, seconds] => Some(hours * 3_600.0 + minutes * 60.0 + seconds),
        [days, hours, minutes, seconds] => Some(days * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds),
        _ => None,
    }
}

/// Bytes in a size, `None` if the text is none.
pub(super) fn bytes(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (amount, suffix) = text.split_at_checked(digits)?;
    let mut letters = suffix.bytes().map(|letter| letter.to_ascii_lowercase()).peekable();
    let power = match letters.peek() {
        Some(b'k') => 1,
        Some(b'm') => 2,
        Some(b'g') => 3,
        Some(b't') => 4,
        Some(b'p') => 5,
        _ => 0,
    };
    if power > 0 {
        letters.next();
    }
    let word = match letters.next() {
        Some(b'w') => 8.0,
        Some(b'b') | None => 1.0,
        Some(_) => return None,
    };
    if letters.next().is_some() {
        return None;
    }
    Some(number(amount)? * 1_024f64.powi(power) * word)
}

/// An amount that is not negative and that a trace can hold.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| (0.0..=1e18).contains(value))
}

/// Resources that a job requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Asked<'a> {
    /// Chunks: nodes, where each chunk gets one.
    pub(super) chunks: f64,
    pub(super) cpus: f64,
    /// `None` if no chunk names any.
    pub(super) gpus: Option<f64>,
    pub(super) gpu_type: Option<&'a str>,
}

/// Reads a `select` or `nodes` request, `None` if it is none.
pub(super) fn request(text: &str) -> Option<Asked<'_>> {
    let mut asked = Asked::default();
    for chunk in text.split('+') {
        let mut parts = chunk.split(':').peekable();
        let first = *parts.peek()?;
        let mut times = 1.0;
        if first.is_empty() {
            return None;
        }
        if !first.contains('=') {
            // A number of chunks, or one node by its name.
            parts.next();
            if first.bytes().all(|byte| byte.is_ascii_digit()) {
                times = number(first)?;
            }
        }
        let mut cpus = 1.0;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "ncpus" | "ppn" => cpus = number(value)?,
                _ if counts_gpus(name) => *asked.gpus.get_or_insert(0.0) += times * number(value)?,
                _ if GPU_TYPES.contains(&name) => asked.gpu_type = asked.gpu_type.or(Some(value)),
                _ => {}
            }
        }
        asked.chunks += times;
        asked.cpus += times * cpus;
    }
    Some(asked)
}

/// Resources that a job was given on one virtual node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vnode<'a> {
    /// The host.
    pub(super) host: &'a str,
    pub(super) cpus: f64,
    pub(super) gpus: Option<f64>,
    pub(super) mem_bytes: f64,
}

/// Reads `exec_vnode`, `None` if it is none.
pub(super) fn vnodes(text: &str) -> Option<Vec<Vnode<'_>>> {
    let mut vnodes = Vec::new();
    for part in text.split(['+', '(', ')']).filter(|part| !part.is_empty()) {
        let mut fields = part.split(':');
        let name = fields.next()?;
        let host = name.split('[').next()?;
        let mut vnode = Vnode { host, cpus: 0.0, gpus: None, mem_bytes: 0.0 };
        for (name, value) in fields.filter_map(|field| field.split_once('=')) {
            match name {
                "ncpus" => vnode.cpus = number(value)?,
                "mem" => vnode.mem_bytes = bytes(value)?,
                _ if counts_gpus(name) => vnode.gpus = Some(vnode.gpus.unwrap_or(0.0) + number(value)?),
                _ => {}
            }
        }
        vnodes.push(vnode);
    }
    (!vnodes.is_empty()).then_some(vnodes)
}

/// Reads `exec_host`: hosts, each with its slots; `None` if it is none.
pub(super) fn hosts(text: &str) -> Option<Vec<(&str, f64)>> {
    let of_term = |term: &'_ str| -> Option<f64> {
        let mut slots = 0.0;
        for item in term.split(',') {
            slots += match (item.split_once('*'), item.split_once('-')) {
                (Some((_, slots)), _) => number(slots)?,
                (None, Some((low, high))) => {
                    let (low, high) = (number(low)?, number(high)?);
                    if high < low {
                        return None;
                    }
                    high - low + 1.0
                }
                (None, None) => number(item).map(|_| 1.0)?,
            };
        }
        Some(slots)
    };
    let mut hosts = Vec::new();
    for term in text.split('+') {
        let (host, slots) = term.split_once('/')?;
        // A port may follow the host's name.
        let host = host.split(':').next()?;
        hosts.push((host, of_term(slots)?));
    }
    Some(hosts)
}

/// Reads Torque's `exec_gpus`: each GPU's host and number; `None` if it is none.
pub(super) fn gpus(text: &str) -> Option<Vec<(&str, &str)>> {
    text.split('+')
        .map(|term| {
            let (host, id) = term.split_once('/')?;
            let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
            plain.then_some((host.strip_suffix("-gpu").unwrap_or(host), id))
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_and_sizes() {
        // 1 × 3600 + 2 × 60 + 3; 1 × 86400 + 2 × 3600.
        assert_eq!(seconds("01:02:03"), Some(3_723.0));
        assert_eq!(seconds("1:02:00:00"), Some(93_600.0));
        assert_eq!(seconds("90"), Some(90.0));
        assert_eq!(seconds("02:30"), Some(150.0));
        for text in ["", "1:2:3:4:5", "-5", "1:", "soon", "NaN"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(bytes("850mb"), Some(850.0 * 1_048_576.0));
        assert_eq!(bytes("2kw"), Some(16_384.0));
        assert_eq!(bytes("7"), Some(7.0));
        assert_eq!(bytes("4g"), Some(4.0 * 1_073_741_824.0));
        for text in ["", "mb", "4xb", "4mbb", "é"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn requests_of_both_dialects() {
        let asked = request("2:ncpus=8:ngpus=4+1:ncpus=1").unwrap();
        assert_eq!((asked.chunks, asked.cpus, asked.gpus), (3.0, 17.0, Some(8.0)));
        // Torque: two nodes of 8 processors and 4 GPUs, and one by name with the default of one processor.
        let asked = request("2:ppn=8:gpus=4:shared+n7").unwrap();
        assert_eq!((asked.chunks, asked.cpus, asked.gpus), (3.0, 17.0, Some(8.0)));
        let asked = request("ncpus=4:gpu_type=a100").unwrap();
        assert_eq!((asked.chunks, asked.gpus, asked.gpu_type), (1.0, None, Some("a100")));
        assert_eq!(request("1:ncpus=1:ngpus=0").unwrap().gpus, Some(0.0));
        for text in ["", "2:ngpus=x", "1+", "2:ncpus=-1"] {
            assert_eq!(request(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_given() {
        let given = vnodes("(n1:ncpus=8:ngpus=4:mem=2kb)+(n2[0]:ncpus=4+n2[1]:ncpus=3)").unwrap();
        let hosts_of: Vec<(&str, f64, Option<f64>)> =
            given.iter().map(|vnode| (vnode.host, vnode.cpus, vnode.gpus)).collect();
        assert_eq!(hosts_of, [("n1", 8.0, Some(4.0)), ("n2", 4.0, None), ("n2", 3.0, None)]);
        assert_eq!(hosts("n1/0*8+n2/0,2-3+n3/1").unwrap(), [("n1", 8.0), ("n2", 3.0), ("n3", 1.0)]);
        assert_eq!(hosts("n1:15002/0*2").unwrap(), [("n1", 2.0)]);
        assert_eq!((hosts("n1"), hosts("n1/3-1"), vnodes("()")), (None, None, None));
        assert_eq!(gpus("n1-gpu/0+n1-gpu/1").unwrap(), [("n1", "0"), ("n1", "1")]);
        assert_eq!(gpus("n1-gpu/"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-z:+/*,=\\[\\]()é.-]{0,30}") {
            let _ = (seconds(&text), bytes(&text), request(&text), vnodes(&text), hosts(&text), gpus(&text));
        }
    }
}
