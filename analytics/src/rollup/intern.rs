//! Words to small numbers, fast when few words come again and again.
//!
//! A table of 4096 recent words is asked first: one cheap hash and, for up to 16 bytes, one comparison of two machine
//! words. What is not there goes to a map with the standard, flood-proof hash. O(length) a lookup; memory O(distinct
//! words).

use std::collections::HashMap;
use std::sync::Arc;

const RECENT: usize = 1 << 12;

/// Distinct words, numbered from 1 as they come; 0 stands for unknown.
#[derive(Debug)]
pub(super) struct Words {
    index: HashMap<Arc<[u8]>, u32>,
    words: Vec<Arc<[u8]>>,
    recent: Vec<Recent>,
}

/// A word seen lately.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    ends: Ends,
    /// 0 where there is none.
    number: u32,
}

/// The first and last eight bytes of a word and its length; all of it if it has no more than 16.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    first: u64,
    last: u64,
    length: usize,
}

impl Ends {
    #[inline]
    fn new(word: &[u8]) -> Self {
        let (first, last) = match (word.first_chunk::<8>(), word.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => (0, word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
        };
        Self { first, last, length: word.len() }
    }

    /// Place among the recent words: a multiplicative hash of the end and the length (names tend to differ at the end).
    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.last ^ (self.length as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - RECENT.trailing_zeros())) as usize
    }
}

impl Words {
    pub(super) fn new() -> Self {
        Self { index: HashMap::new(), words: Vec::new(), recent: vec![Recent::default(); RECENT] }
    }

    /// Number of `word`, a new one if it was not seen before.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> u32 {
        let ends = Ends::new(word);
        let recent = self.recent.get(ends.place()).copied().unwrap_or_default();
        let known = || self.words.get((recent.number as usize).wrapping_sub(1));
        if recent.number != 0
            && recent.ends == ends
            && (word.len() <= 16 || known().is_some_and(|known| **known == *word))
        {
            return recent.number;
        }
        self.look_up(word, ends)
    }

    #[cold]
    fn look_up(&mut self, word: &[u8], ends: Ends) -> u32 {
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
        if let Some(recent) = self.recent.get_mut(ends.place()) {
            *recent = Recent { ends, number };
        }
        number
    }

    /// The words, in the order of their numbers from 1.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &**word)
    }
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
        // Same ends, another middle: told apart though longer than what the recent table compares.
        let long = ["abcdefgh-1-abcdefgh", "abcdefgh-2-abcdefgh", "abcdefgh-1-abcdefgh"];
        assert_eq!(long.map(|word| words.number(word.as_bytes())), [5, 6, 5]);
    }
}
