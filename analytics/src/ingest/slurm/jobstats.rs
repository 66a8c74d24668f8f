//! Use of GPUs as Jobstats writes it into `AdminComment`: `JS1:` and the base64 of gzipped JSON.
//!
//! ```json
//! {"gpus": 2, "total_time": 68687, "nodes": {"g10": {"gpu_utilization": {"0": 7.5, "1": 7.2},
//!  "gpu_used_memory": {"0": 5146542380, "1": 5146542322}, "gpu_total_memory": {"0": 17071734783, "1": 17071734783}}}}
//! ```
//!
//! `JS1:Short` (too short to be sampled) and `JS1:None` say nothing. The utilisation of a job is the mean over its GPUs, in
//! percent; a GPU whose figure is missing makes it unknown. The number of GPUs is `gpus`, or, where that is only whether
//! there were any, those that the nodes list. What nodes say of processors and memory has no column.
//!
//! Worked example: 7.5 % and 7.2 % on two GPUs are 0.0735.

use std::collections::BTreeSet;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Mark of a summary.
const MARK: &str = "JS1:";
/// The longest JSON that a summary can be, bytes: a node is some hundred.
const MOST_BYTES: u64 = 16 << 20;

/// Summary of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Summary {
    /// GPUs it had.
    pub(super) gpus: Option<f64>,
    /// Mean share of time that a kernel was resident on them, 0 to 1.
    pub(super) gpu_util_ratio: Option<f64>,
}

/// The summary in a comment, `None` if it holds none.
///
/// # Errors
/// Why what is marked as a summary cannot be read.
pub(super) fn summary(comment: &str) -> Result<Option<Summary>, &'static str> {
    let Some((_, rest)) = comment.split_once(MARK) else { return Ok(None) };
    let is_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let code = rest.split(|c: char| !is_code(c)).next().unwrap_or_default();
    if matches!(code, "" | "Short" | "None") {
        return Ok(None);
    }
    let packed = STANDARD_NO_PAD.decode(code).map_err(|_| "it is no base64")?;
    let mut text = Vec::new();
    let mut unpacked = MultiGzDecoder::new(packed.as_slice()).take(MOST_BYTES + 1);
    unpacked.read_to_end(&mut text).map_err(|_| "it is not gzipped, or cut")?;
    if text.len() as u64 > MOST_BYTES {
        return Err("it expands beyond 16 MiB");
    }
    let value: Value = serde_json::from_slice(&text).map_err(|_| "it holds no JSON")?;
    Ok(Some(read(&value)))
}

fn read(value: &Value) -> Summary {
    let mut gpus: BTreeSet<(&str, &str)> = BTreeSet::new();
    let (mut known, mut sum) = (0_u64, 0.0);
    for (node, of_node) in value.get("nodes").and_then(Value::as_object).into_iter().flatten() {
        let map = |key: &str| of_node.get(key).and_then(Value::as_object).into_iter().flatten();
        for key in ["gpu_total_memory", "gpu_used_memory", "gpu_utilization"] {
            gpus.extend(map(key).map(|(gpu, _)| (node.as_str(), gpu.as_str())));
        }
        for percent in map("gpu_utilization").filter_map(|(_, percent)| percent.as_f64()) {
            if (0.0..=100.0).contains(&percent) {
                known += 1;
                sum += percent;
            }
        }
    }
    let listed = gpus.len() as f64;
    let count = match value.get("gpus") {
        Some(Value::Bool(false)) => Some(0.0),
        Some(Value::Number(count)) => count.as_f64().filter(|count| *count >= 0.0),
        _ => (listed > 0.0).then_some(listed),
    };
    // Of a GPU that is missing nothing is known, and so of the mean.
    let all = known > 0 && count.is_none_or(|count| count <= known as f64) && known as f64 >= listed;
    Summary { gpus: count.map(|count| count.max(listed)), gpu_util_ratio: all.then(|| sum / known as f64 / 100.0) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn packed(text: &[u8]) -> String {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        format!("{MARK}{}", base64::engine::general_purpose::STANDARD.encode(encoder.finish().unwrap()))
    }

    fn of(value: &Value) -> (Option<f64>, Option<f64>) {
        let result = summary(&packed(value.to_string().as_bytes())).unwrap().unwrap();
        (result.gpus, result.gpu_util_ratio)
    }

    #[test]
    fn the_mean_over_all_gpus_of_all_nodes() {
        let node = |used: Value| json!({"cpus": 1, "gpu_total_memory": {"0": 1, "1": 1}, "gpu_utilization": used});
        assert_eq!(
            of(&json!({"gpus": 2, "nodes": {"a": node(json!({"0": 7.5, "1": 7.2}))}})),
            (Some(2.0), Some(0.0735))
        );
        let two = json!({"gpus": true, "nodes": {"a": node(json!({"0": 100, "1": 0})), "b": node(json!({"0": 50, "1": 50}))}});
        assert_eq!(of(&two), (Some(4.0), Some(0.5)));
        // Of one of two nothing is said.
        assert_eq!(of(&json!({"gpus": 2, "nodes": {"a": node(json!({"1": 9.5}))}})), (Some(2.0), None));
        assert_eq!(of(&json!({"gpus": 4, "nodes": {"a": node(json!({"0": 1, "1": 2}))}})), (Some(4.0), None));
        assert_eq!(of(&json!({"gpus": false, "nodes": {"a": {"cpus": 1}}})), (Some(0.0), None));
        assert_eq!(of(&json!({"gpus": true, "nodes": {}})), (None, None));
    }

    #[test]
    fn what_says_nothing_and_what_is_damaged() {
        for comment in ["", "by hand", "JS1:Short", "JS1:None", "JS1:"] {
            assert_eq!(summary(comment), Ok(None), "{comment}");
        }
        let whole = packed(b"{}");
        assert!(summary(&whole).unwrap().is_some());
        for comment in ["JS1:a", "JS1:H4sI", "JS1:aGVsbG8", &whole[..whole.len() - 12], &packed(b"{")] {
            assert!(summary(comment).is_err(), "{comment}");
        }
        assert_eq!(summary(&packed(&vec![b' '; (MOST_BYTES + 1) as usize])), Err("it expands beyond 16 MiB"));
    }
}
