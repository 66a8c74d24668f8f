//! UTF-16 as UTF-8, for texts that a Windows shell has saved.
//!
//! The first bytes decide: a byte order mark of either order, or, without one, four ASCII characters of which every second
//! byte is 0, and mostly such in what follows. Anything else is passed on as it is. Half a pair becomes U+FFFD. Memory: one buffer.

use std::io::{self, BufRead, Read};

use super::line_end::read_held;

/// Bytes looked at where there is no byte order mark.
const LOOKED_AT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// Passes on a text, as UTF-8 if it is UTF-16.
pub(super) struct Utf8<R> {
    inner: R,
    /// `None` until the first bytes were looked at; the inner option is `None` for what is passed on.
    order: Option<Option<Order>>,
    /// A byte without its other half, and a unit without the second of its pair.
    odd: Option<u8>,
    high: Option<u16>,
    /// Text not yet passed on, from `at` on.
    held: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Utf8<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, order: None, odd: None, high: None, held: Vec::new(), at: 0 }
    }

    fn order(&mut self) -> io::Result<Option<Order>> {
        if let Some(order) = self.order {
            return Ok(order);
        }
        let head = loop {
            match self.inner.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                head => break head?,
            }
        };
        let order = order_of(head);
        self.order = Some(order);
        Ok(order)
    }

    /// Decodes the next bytes into `held`, which is empty only at the end.
    fn decode(&mut self, order: Order) -> io::Result<()> {
        self.held.clear();
        self.at = 0;
        while self.held.is_empty() {
            let bytes = self.inner.fill_buf()?;
            if bytes.is_empty() {
                // What is left is half of something.
                if self.odd.take().is_some() | self.high.take().is_some() {
                    push(&mut self.held, char::REPLACEMENT_CHARACTER);
                }
                return Ok(());
            }
            let count = bytes.len();
            for byte in bytes {
                let Some(first) = self.odd.take() else {
                    self.odd = Some(*byte);
                    continue;
                };
                let unit = match order {
                    Order::Little => u16::from_le_bytes([first, *byte]),
                    Order::Big => u16::from_be_bytes([first, *byte]),
                };
                let units = self.high.take().into_iter().chain([unit]);
                for decoded in char::decode_utf16(units) {
                    match decoded {
                        Ok(letter) => push(&mut self.held, letter),
                        Err(half) if half.unpaired_surrogate() == unit && (0xd800..0xdc00).contains(&unit) => {
                            self.high = Some(unit);
                        }
                        Err(_) => push(&mut self.held, char::REPLACEMENT_CHARACTER),
                    }
                }
            }
            self.inner.consume(count);
        }
        Ok(())
    }
}

/// The order of the bytes of a text that begins so, if it is UTF-16.
fn order_of(head: &[u8]) -> Option<Order> {
    match head {
        // With two more zeros it is the mark of UTF-32.
        [0xff, 0xfe, rest @ ..] if !rest.starts_with(&[0, 0]) => return Some(Order::Little),
        [0xfe, 0xff, ..] => return Some(Order::Big),
        _ => {}
    }
    let (pairs, _) = head.get(..head.len().min(LOOKED_AT))?.as_chunks::<2>();
    let is_text = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    // The first are of a header or a bracket; others may be of any script.
    let all = |pick: fn(&[u8; 2]) -> (u8, u8)| {
        let ascii = |pair: &[u8; 2]| matches!(pick(pair), (letter, 0) if is_text(letter));
        pairs.len() >= 4
            && pairs.iter().take(4).all(ascii)
            && pairs.iter().filter(|pair| ascii(pair)).count() * 2 > pairs.len()
    };
    if all(|[first, second]| (*first, *second)) {
        Some(Order::Little)
    } else if all(|[first, second]| (*second, *first)) {
        Some(Order::Big)
    } else {
        None
    }
}

fn push(held: &mut Vec<u8>, letter: char) {
    held.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

impl<R: BufRead> BufRead for Utf8<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Some(order) = self.order()? else { return self.inner.fill_buf() };
        if self.at >= self.held.len() {
            self.decode(order)?;
        }
        Ok(self.held.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        match self.order {
            Some(Some(_)) => self.at += count,
            _ => self.inner.consume(count),
        }
    }
}

impl<R: BufRead> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.order()?.is_none() {
            return self.inner.read(buffer);
        }
        read_held(self, buffer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn read(bytes: &[u8], chunk: usize) -> String {
        let mut out = Vec::new();
        Utf8::new(BufReader::with_capacity(chunk, bytes)).read_to_end(&mut out).unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn both_orders_with_and_without_a_mark_become_utf_8() {
        let text = "JobID|JobName\r\n7|größe 😀 |x\r\n";
        for mark in ["\u{feff}", ""] {
            let units: Vec<u16> = format!("{mark}{text}").encode_utf16().collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            // Without a mark, the first bytes at once have to show it.
            for chunk in if mark.is_empty() { [13, 64] } else { [3, 64] } {
                assert_eq!(read(&little, chunk), format!("{mark}{text}"), "{chunk} bytes at a time");
                assert_eq!(read(&big, chunk), format!("{mark}{text}"), "{chunk} bytes at a time");
            }
            // Cut in the middle of a character, and half a pair in the text.
            assert!(read(&little[..little.len() - 1], 64).ends_with('\u{fffd}'));
        }
        let lone = [0xff, 0xfe, 0x3d, 0xd8, b'a', 0, 0x00, 0xdc, b'b', 0];
        assert_eq!(read(&lone, 64), "\u{feff}\u{fffd}a\u{fffd}b");
    }

    #[test]
    fn anything_else_is_passed_on() {
        for bytes in
            [&b""[..], b"a", b"JobID|State\n", b"PAR1\0\0\0\0", b"\0\0\0\0\0\0\0\0", b"\xff\xfe\0\0a\0\0\0", b"a\0b\0"]
        {
            assert_eq!(read(bytes, 64), String::from_utf8_lossy(bytes));
        }
    }
}
