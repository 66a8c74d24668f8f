//! What counts as served in time.
//!
//! A request is **in time** if its first token comes within `ttft` of its arrival and its further tokens `tpot` apart on average, or less. The target is kept if at
//! least `share` of the requests are in time. A request of one token has no further ones.
//!
//! Times are whole microseconds. O(1) a request. Worked example: a request that arrives at 0, has its first token at 1.5 s and its 11th and last at 2.5 s has a TTFT of
//! 1.5 s and a TPOT of 1 s / 10 = 100 ms: in time for `ttft=2s,tpot=100ms`, late for `tpot=90ms`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::replay::scenario::parse_duration;

/// The promised service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ServingTarget {
    /// Longest time to the first token, seconds.
    pub ttft_s: f64,
    /// Longest mean time between further tokens, seconds.
    pub tpot_s: f64,
    /// Share of the requests that keep both.
    pub share: f64,
}

impl Default for ServingTarget {
    fn default() -> Self {
        Self { ttft_s: 2.0, tpot_s: 0.1, share: 0.95 }
    }
}

/// Microseconds of a time in seconds.
pub(super) fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

/// A time of a target, as it was asked for: `16.5 s`, `100 ms`.
pub(super) fn seconds_as_asked(seconds: f64) -> String {
    let ms = (seconds * 1e3).round();
    if ms < 1000.0 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) }
}

impl ServingTarget {
    /// Reads `ttft=2s,tpot=100ms,share=0.95`; what is left out is as by default.
    ///
    /// # Errors
    /// Says what to write.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |result: &str| {
            Error::malformed(
                "target",
                result.to_owned(),
                "write ttft=2s,tpot=100ms,share=0.95, with times above 0 and a share from 0.5 to 1".to_owned(),
            )
        };
        let mut target = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let time = || {
                let ms = parse_duration(value).map_err(|_| wrong(part))?;
                if (1..=86_400_000).contains(&ms) { Ok(ms as f64 / 1e3) } else { Err(wrong(part)) }
            };
            match key.trim() {
                "ttft" => target.ttft_s = time()?,
                "tpot" => target.tpot_s = time()?,
                "share" => {
                    let share = value.trim().parse().ok().filter(|share: &f64| (0.5..=1.0).contains(share));
                    target.share = share.ok_or_else(|| wrong(part))?;
                }
                _ => return Err(wrong(part)),
            }
        }
        Ok(target)
    }

    /// Writes the target as [`parse`](Self::parse) reads it: `ttft=16.5s,tpot=100ms,share=0.95`.
    pub fn written(&self) -> String {
        let time = |seconds: f64| seconds_as_asked(seconds).replace(' ', "");
        format!("ttft={},tpot={},share={}", time(self.ttft_s), time(self.tpot_s), self.share)
    }

    /// Returns the target with half of the misses: what a setting must keep on the requests that it
    /// is chosen on.
    pub fn with_reserve(self) -> Self {
        Self { share: 1.0 - (1.0 - self.share) / 2.0, ..self }
    }

    /// Whether a request was in time: arrived, first token, last token (microseconds), and its tokens.
    pub fn in_time(&self, at_us: i64, first_us: i64, done_us: i64, output: u32) -> bool {
        let gaps = i64::from(output.max(1)) - 1;
        first_us - at_us <= micros(self.ttft_s) && done_us - first_us <= gaps * micros(self.tpot_s)
    }

    /// How many of so many requests may be late.
    pub fn may_miss(&self, requests: usize) -> usize {
        ((1.0 - self.share) * requests as f64 + 1e-9).floor() as usize
    }

    /// Whether so many of so many in time keep it.
    pub fn is_kept(&self, in_time: usize, requests: usize) -> bool {
        requests - in_time.min(requests) <= self.may_miss(requests)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let target = ServingTarget::parse("ttft=2s,tpot=100ms").unwrap();
        assert_eq!(target, ServingTarget::default());
        assert!(target.in_time(0, 1_500_000, 2_500_000, 11));
        assert!(!ServingTarget::parse("tpot=90ms").unwrap().in_time(0, 1_500_000, 2_500_000, 11));
        assert!(!target.in_time(0, 2_000_001, 2_000_001, 1) && target.in_time(0, 2_000_000, 2_000_000, 0));
        // Of 100, five may be late; of 19, none; with the reserve two of 100.
        assert_eq!((target.may_miss(100), target.may_miss(19), target.with_reserve().may_miss(100)), (5, 0, 2));
        assert!(target.is_kept(95, 100) && !target.is_kept(94, 100) && target.is_kept(0, 0));
    }

    /// What is written is read back as it was, and no time is rounded.
    #[test]
    fn a_target_is_told_as_it_was_asked_for() {
        for text in
            ["ttft=16.5s,tpot=100ms,share=0.95", "ttft=999ms,tpot=1s,share=0.999", "ttft=3600s,tpot=23ms,share=1"]
        {
            let target = ServingTarget::parse(text).unwrap();
            assert_eq!((target.written().as_str(), ServingTarget::parse(&target.written()).unwrap()), (text, target));
        }
        assert_eq!([16.5, 0.1, 17.0].map(seconds_as_asked), ["16.5 s", "100 ms", "17 s"]);
    }

    #[test]
    fn what_cannot_be_a_target_is_refused() {
        for text in ["", "ttft", "ttft=0s", "tpot=soon", "share=1.2", "share=0.2", "p99=1s", "share=nan"] {
            assert!(ServingTarget::parse(text).unwrap_err().to_string().contains("ttft=2s,tpot=100ms"), "{text}");
        }
    }
}
