//! Features of a job's name that show the same work again: its [`stem`], and likeness of stems.
//!
//! Likeness is the share of the letter triples of both that they have in common (Jaccard). Worked
//! example: `train_v#` and `train_w#` have six triples each, of which `tra`, `rai`, `ain`, `in_`
//! are common: 4 of 8, likeness 0.5.

pub use tracecast_analytics::facts::work::stem;

/// The letter triples of a stem, hashed to 32 bits, ascending, each once.
pub(crate) fn triples(stem: &str) -> Vec<u32> {
    let bytes = stem.as_bytes();
    let mut triples: Vec<u32> =
        bytes.windows(3).map(|window| window.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))).collect();
    if triples.is_empty() {
        triples.push(bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte)));
    }
    triples.sort_unstable();
    triples.dedup();
    triples
}

/// Share of the triples of both that they have in common, 0 to 1. O(length of both).
pub(crate) fn likeness(one: &[u32], other: &[u32]) -> f64 {
    let (mut a, mut b, mut common) = (one.iter().peekable(), other.iter().peekable(), 0usize);
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        match left.cmp(right) {
            std::cmp::Ordering::Less => drop(a.next()),
            std::cmp::Ordering::Greater => drop(b.next()),
            std::cmp::Ordering::Equal => {
                common += 1;
                a.next();
                b.next();
            }
        }
    }
    let all = one.len() + other.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_is_the_share_of_common_triples() {
        let like = |a: &str, b: &str| likeness(&triples(a), &triples(b));
        assert!((like("train_v#", "train_v#") - 1.0).abs() < 1e-12);
        // tra rai ain in_ n_v _v# against tra rai ain in_ n_w _w#: 4 common of 8.
        assert!((like("train_v#", "train_w#") - 0.5).abs() < 1e-12);
        assert!(like("train_v#", "bert").abs() < 1e-12);
        assert!((like("ab", "ab") - 1.0).abs() < 1e-12, "names shorter than a triple are alike if equal");
    }
}
