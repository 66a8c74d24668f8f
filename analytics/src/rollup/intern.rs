//! Words to small numbers, fast when few words come again and again.
//!
//! A table of 4096 recent words is asked first: one cheap hash and one comparison. What is not there goes to a map with
//! the standard, flood-proof hash. O(length) a lookup; memory O(distinct words).

use std::collections::HashMap;
use std::sync::Arc;

const RECENT: usize = 1 << 12;

/// Distinct words, numbered from 1 as they come; 0 stands for unknown.
#[derive(Debug)]
pub(super) struct Words {
    index: HashMap<Arc<[u8]>, u32>,
    words: Vec<Arc<[u8]>>,
    recent: Vec<u32>,
}

impl Words {
    pub(super) fn new() -> Self {
        Self { index: HashMap::new(), words: Vec::new(), recent: vec![0; RECENT] }
    }

    /// Number of `word`, a new one if it was not seen before.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> u32 {
        let place = place(word);
        let number = self.recent.get(place).copied().unwrap_or(0);
        match self.words.get((number as usize).wrapping_sub(1)) {
            Some(known) if **known == *word => number,
            _ => self.look_up(word, place),
        }
    }

    #[cold]
    fn look_up(&mut self, word: &[u8], place: usize) -> u32 {
        let number = match self.index.get(word) {
            Some(number) => *number,
            None => {
                let word: Arc<[u8]> = word.into();
                self.words.push(word.clone());
                // Four thousand million distinct users would not fit in memory anyway.
                let number = self.words.len() as u32;
                self.index.insert(word, number);
                number
            }
        };
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = number;
        }
        number
    }

    /// The words, in the order of their numbers from 1.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &**word)
    }
}

/// Place among the recent words: a multiplicative hash of the last eight bytes and the length (names tend to differ at
/// the end).
#[inline]
fn place(word: &[u8]) -> usize {
    let tail = match word.last_chunk::<8>() {
        Some(tail) => u64::from_le_bytes(*tail),
        None => word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let mixed = (tail ^ (word.len() as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - RECENT.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_numbers_when_their_place_was_taken() {
        let mut words = Words::new();
        let names: Vec<String> = (0..20_000).map(|ix| format!("user{ix}")).collect();
        let first: Vec<u32> = names.iter().map(|name| words.number(name.as_bytes())).collect();
        let again: Vec<u32> = names.iter().map(|name| words.number(name.as_bytes())).collect();
        assert_eq!(first, (1..=20_000).collect::<Vec<u32>>());
        assert_eq!(first, again);
        assert_eq!(words.words().nth(41), Some(&b"user41"[..]));
    }

    #[test]
    fn empty_and_prefix_words_are_words_of_their_own() {
        let mut words = Words::new();
        assert_eq!([&b""[..], b"a", b"\0a", b"a\0", b""].map(|word| words.number(word)), [1, 2, 3, 4, 1]);
    }
}
