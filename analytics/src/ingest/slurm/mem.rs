//! Slurm's memory amounts.
//!
//! Suffixes are powers of 1,024 and may follow a fraction (`320.5G`). `ReqMem` of older versions ends in `c` (per core)
//! or `n` (per node); without that letter it is the job's total. Zero asks for all memory a node has, which is an amount
//! nobody recorded: unknown. Worked number: `3000Mc` on 8 cores = 3,000 × 1,048,576 × 8 = 25,165,824,000 bytes.

use crate::ingest::field::MIB;

/// Memory asked for, and of what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requested {
    /// Bytes for the whole job.
    Job(f64),
    /// Bytes a core.
    Core(f64),
    /// Bytes a node.
    Node(f64),
    /// All there is: the amount is unknown.
    All,
}

impl Requested {
    /// Reads `ReqMem`, `None` if the text is not an amount.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (amount, of): (&str, fn(f64) -> Self) = if let Some(amount) = text.strip_suffix('c') {
            (amount, Self::Core)
        } else if let Some(amount) = text.strip_suffix('n') {
            (amount, Self::Node)
        } else {
            (text, Self::Job)
        };
        let bytes = bytes(amount, MIB)?;
        Some(if bytes == 0.0 { Self::All } else { of(bytes) })
    }

    /// Bytes for the whole job, given its cores and nodes.
    pub fn total_bytes(self, cpus: Option<f64>, nodes: Option<i64>) -> Option<i64> {
        let bytes = match self {
            Self::Job(bytes) => bytes,
            Self::Core(bytes) => bytes * cpus?,
            Self::Node(bytes) => bytes * nodes? as f64,
            Self::All => return None,
        };
        whole(bytes)
    }
}

/// Bytes in an amount such as `4000M`, `320.5G` or `12`, whose unit is `unit` bytes where it has no suffix. `None` if
/// it is no amount.
pub fn bytes(text: &str, unit: f64) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix('B').unwrap_or(text);
    let (digits, scale) = match text.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            let power = match letter.to_ascii_uppercase() {
                'K' => 1,
                'M' => 2,
                'G' => 3,
                'T' => 4,
                'P' => 5,
                'E' => 6,
                _ => return None,
            };
            (text.get(..at)?, 1_024f64.powi(power))
        }
        _ => (text, unit),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = if plain { digits.parse().ok()? } else { return None };
    value.is_finite().then_some(value * scale)
}

/// A number of bytes as an integer, `None` where it is too large to be one.
pub(super) fn whole(bytes: f64) -> Option<i64> {
    (bytes.is_finite() && bytes.abs() < 9e18).then_some(bytes.round() as i64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn total(text: &str) -> Option<i64> {
        Requested::parse(text).unwrap().total_bytes(Some(8.0), Some(2))
    }

    #[test]
    fn per_core_per_node_and_whole_job() {
        assert_eq!(total("3000Mc"), Some(25_165_824_000));
        // 48,000 MiB × 2 nodes.
        assert_eq!(total("48000Mn"), Some(48_000 * 1_048_576 * 2));
        assert_eq!(total("4000M"), Some(4_000 * 1_048_576));
        assert_eq!(total("64G"), Some(64 * 1_073_741_824));
        assert_eq!(total("0n"), None);
        assert_eq!(total("0"), None);
        assert_eq!(Requested::parse("3Gc").unwrap().total_bytes(None, Some(1)), None);
    }

    #[test]
    fn fractions_bare_numbers_and_nonsense() {
        assert_eq!(bytes("320.5G", MIB), Some(320.5 * 1_073_741_824.0));
        assert_eq!(bytes("12", MIB), Some(12.0 * MIB));
        assert_eq!(bytes("40777023488", 1.0), Some(40_777_023_488.0));
        for text in ["", "M", "-1M", "1e3", "4X", "é", "1.2.3G"] {
            assert_eq!(bytes(text, MIB), None, "{text}");
        }
    }
}
