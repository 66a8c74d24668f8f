//! What one replica does: the table of a service.
//!
//! ```toml
//! name = "13B on one GPU"             # as it is called in the answer
//! gpus = 1                            # of one replica
//! offer = "example.8a100"             # instance of the offers file that it runs on; needed with --offers
//! start = "90s"                       # from the decision until the first request is served
//! prefill_tokens_per_s = 4000         # input tokens that are worked off in a second
//! decode = { base_ms = 22, per_sequence_ms = 0.55 }
//! # or as measured, at some numbers of sequences:  decode = [{ batch = 1, ms = 22.5 }, { batch = 48, ms = 48.4 }]
//! max_batch = 48                      # sequences at once
//! kv_tokens = 200000                  # tokens of all sequences that fit into its memory
//! ```
//!
//! **The model.** A replica does one thing at a time. The *prefill* of a request with p input tokens takes p / rate and gives its first token. A decode *step* gives one
//! token to each of the b sequences in the batch, and takes base + b × per sequence; between measured points the time is on the straight line. A prefill goes before
//! the next step, so sequences wait for it (as in vLLM without chunked prefill). A request is taken in if a place in the batch is free and all its tokens, input and
//! output, fit into memory; until then it waits, first come, first served.
//!
//! O(text + batch). Worked number: with the table above a batch of 48 takes a step of 22 + 48 × 0.55 = 48.4 ms, so a token costs 1.008 ms of the replica; alone it
//! costs 22.55 ms. A request of 2,000 input tokens that is alone has its first token after 0.5 s.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result, line_of};
use crate::replay::scenario::parse_duration;

/// The largest batch that a table may have.
const MOST_BATCH: u32 = 4096;

/// What one replica does.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaService {
    /// Name of the service.
    pub name: String,
    /// GPUs of one replica.
    pub gpus: u32,
    /// Instance of the offers file.
    pub offer: Option<String>,
    /// Time from the decision until it serves, microseconds.
    pub start_us: i64,
    /// Input tokens worked off in a second.
    pub prefill_tokens_per_s: f64,
    /// Tokens that fit into its memory.
    pub kv_tokens: u64,
    /// Time of a step by the sequences in it, from one on, microseconds.
    step_us: Vec<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: String,
    gpus: Spanned<u32>,
    offer: Option<String>,
    start: Spanned<String>,
    prefill_tokens_per_s: Spanned<f64>,
    decode: Spanned<toml::Value>,
    max_batch: Spanned<u32>,
    kv_tokens: Spanned<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    base_ms: f64,
    per_sequence_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    batch: u32,
    ms: f64,
}

impl ReplicaService {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let content: Content = toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        let wrong = |at: Range<usize>, what: String| Error::file(file.to_owned(), line_of(text, at.start), what);
        let most = *content.max_batch.get_ref();
        if !(1..=MOST_BATCH).contains(&most) {
            let what = format!("max_batch is {most}; write the most sequences at once, 1 to {MOST_BATCH}");
            return Err(wrong(content.max_batch.span(), what));
        }
        if !(1..=4096).contains(content.gpus.get_ref()) {
            let what = format!("gpus is {}; write the GPUs of one replica, 1 to 4096", content.gpus.get_ref());
            return Err(wrong(content.gpus.span(), what));
        }
        let start = parse_duration(content.start.get_ref()).ok().filter(|ms| *ms <= 86_400_000).ok_or_else(|| {
            let what = format!("start is `{}`; write a time such as 90s, a day at most", content.start.get_ref());
            wrong(content.start.span(), what)
        })?;
        let rate = *content.prefill_tokens_per_s.get_ref();
        if !(rate.is_finite() && (1.0..=1e9).contains(&rate)) {
            let what = format!("prefill_tokens_per_s is {rate}; write the input tokens of a second, 1 or more");
            return Err(wrong(content.prefill_tokens_per_s.span(), what));
        }
        if *content.kv_tokens.get_ref() == 0 {
            let what = "kv_tokens is 0; write how many tokens of all sequences fit into memory".to_owned();
            return Err(wrong(content.kv_tokens.span(), what));
        }
        let step_us = steps(content.decode.get_ref(), most).map_err(|what| wrong(content.decode.span(), what))?;
        Ok(Self {
            name: content.name,
            gpus: *content.gpus.get_ref(),
            offer: content.offer,
            start_us: start * 1000,
            prefill_tokens_per_s: rate,
            kv_tokens: *content.kv_tokens.get_ref(),
            step_us,
        })
    }

    /// Sequences at once.
    pub fn max_batch(&self) -> usize {
        self.step_us.len()
    }

    /// Time of a step with so many sequences, microseconds.
    pub fn step_us(&self, sequences: usize) -> i64 {
        let at = sequences.clamp(1, self.step_us.len()) - 1;
        self.step_us.get(at).copied().unwrap_or(1)
    }

    /// Slots that a start takes, the last not whole.
    pub fn start_slots(&self, slot_us: i64) -> usize {
        usize::try_from((self.start_us + slot_us - 1) / slot_us.max(1)).unwrap_or(0)
    }

    /// Time of a prefill, microseconds.
    pub fn prefill_us(&self, tokens: u32) -> i64 {
        (f64::from(tokens) / self.prefill_tokens_per_s * 1e6).round() as i64
    }

    /// Least time that a token of an output takes of a replica where steps take at most `tpot_s` on average, seconds: the lower hull of (time of a step, its share of a token) at `tpot_s`. Where even a sequence
    /// alone takes longer, that of a sequence alone.
    ///
    /// O(batch²).
    pub fn token_s_within(&self, tpot_s: f64) -> f64 {
        let most = tpot_s * 1e6;
        let mut least =
            self.shares().filter(|(step, _)| *step <= most).map(|(_, share)| share).fold(f64::INFINITY, f64::min);
        for (quick, dear) in self.shares().filter(|(step, _)| *step <= most) {
            for (slow, cheap) in self.shares().filter(|(step, _)| *step > most) {
                let part = (most - quick) / (slow - quick);
                least = least.min(dear + part * (cheap - dear));
            }
        }
        if least.is_finite() { least / 1e6 } else { self.step_us(1) as f64 / 1e6 }
    }

    /// Time of a step and its share of a token, by the sequences in it, microseconds.
    fn shares(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.step_us.iter().zip(1u32..).map(|(step, batch)| (*step as f64, *step as f64 / f64::from(batch)))
    }
}

/// Times of steps from one sequence to the most, or what is wrong with the entry.
fn steps(decode: &toml::Value, most: u32) -> std::result::Result<Vec<i64>, String> {
    const REMEDY: &str =
        "write { base_ms = 22, per_sequence_ms = 0.55 }, or measured times as [{ batch = 1, ms = 22.5 }, …]";
    let ms: Vec<f64> = if decode.is_array() {
        let points: Vec<Measured> = decode
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| format!("decode: {}; {REMEDY}", error.message()))?;
        let rising = points.windows(2).all(|pair| matches!(pair, [a, b] if a.batch < b.batch));
        let last = points.last().map_or(0, |point| point.batch);
        if !rising || points.first().is_none_or(|point| point.batch == 0) {
            return Err(format!("decode: numbers of sequences must rise, from 1 on; {REMEDY}"));
        }
        if last < most {
            return Err(format!(
                "decode: measured up to {last} sequences, and max_batch is {most}; measure a batch of {most}, or lower max_batch"
            ));
        }
        (1..=most).map(|batch| between(&points, batch)).collect()
    } else {
        let line: Line = decode
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| format!("decode: {}; {REMEDY}", error.message()))?;
        (1..=most).map(|batch| line.base_ms + f64::from(batch) * line.per_sequence_ms).collect()
    };
    if ms.iter().any(|ms| !(ms.is_finite() && (1e-3..=6e5).contains(ms))) {
        return Err(format!("decode: a step must take from 0.001 ms to ten minutes; {REMEDY}"));
    }
    Ok(ms.iter().map(|ms| (ms * 1e3).round() as i64).collect())
}

/// The time on the line between the points beside it.
fn between(points: &[Measured], batch: u32) -> f64 {
    let at = points.partition_point(|point| point.batch < batch);
    match (at.checked_sub(1).and_then(|before| points.get(before)), points.get(at)) {
        (Some(before), Some(after)) => {
            let part = f64::from(batch - before.batch) / f64::from(after.batch - before.batch);
            before.ms + part * (after.ms - before.ms)
        }
        (None, Some(only)) | (Some(only), None) => only.ms,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    pub(in crate::serving) const EXAMPLE: &str = "\
name = \"13B on one GPU\"
gpus = 1
offer = \"example.8a100\"
start = \"90s\"
prefill_tokens_per_s = 4000
decode = { base_ms = 22, per_sequence_ms = 0.55 }
max_batch = 48
kv_tokens = 200000
";

    #[test]
    fn the_worked_number() {
        let service = ReplicaService::parse("s.toml", EXAMPLE).unwrap();
        assert_eq!((service.step_us(48), service.step_us(1), service.step_us(99)), (48_400, 22_550, 48_400));
        assert_eq!((service.prefill_us(2_000), service.start_us), (500_000, 90_000_000));
        // Within 33 ms there are 20 sequences: 1.65 ms a token. Between two batches the hull is met, and alone is the least there is.
        assert!((service.token_s_within(0.033) - 1.65e-3).abs() < 1e-9);
        assert!((service.token_s_within(0.1) - 48.4e-3 / 48.0).abs() < 1e-12);
        assert!((service.token_s_within(0.001) - 22.55e-3).abs() < 1e-12);
    }

    #[test]
    fn measured_points_are_joined() {
        let text = EXAMPLE.replace(
            "{ base_ms = 22, per_sequence_ms = 0.55 }",
            "[{ batch = 1, ms = 20.0 }, { batch = 11, ms = 30.0 }, { batch = 48, ms = 67.0 }]",
        );
        let service = ReplicaService::parse("s.toml", &text).unwrap();
        assert_eq!((service.step_us(1), service.step_us(6), service.step_us(48)), (20_000, 25_000, 67_000));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let said = |from: &str, to: &str| {
            ReplicaService::parse("s.toml", &EXAMPLE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert!(said("max_batch = 48", "max_batch = 0").starts_with("s.toml, line 7: max_batch is 0; write the most"));
        assert!(said("gpus = 1", "gpus = 0").contains("line 2: gpus is 0"));
        assert!(said("\"90s\"", "\"soon\"").contains("line 4: start is `soon`; write a time such as 90s"));
        assert!(said("= 4000", "= nan").contains("line 5: prefill_tokens_per_s is NaN"));
        assert!(said("200000", "0").contains("line 8: kv_tokens is 0"));
        assert!(said("22, per", "-22, per").contains("line 6: decode: a step must take"));
        assert!(said("base_ms", "base").contains("line 6: decode:"));
        assert!(
            said("{ base_ms = 22, per_sequence_ms = 0.55 }", "[{ batch = 4, ms = 2.0 }]").contains("measured up to 4")
        );
        assert!(said("{ base_ms = 22, per_sequence_ms = 0.55 }", "[]").contains("must rise"));
        assert!(said("gpus", "gpu_count").contains("unknown field `gpu_count`"));
    }
}
