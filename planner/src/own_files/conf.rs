//! `slurm.conf` in lines of keys and values, each with where it stands, so that one value can be set and all else stays.
//!
//! As Slurm reads it: keys count in either case, blanks may stand around `=`, values may stand in quotes, `#` begins a comment, and a line goes on behind a `\` at its end. Where a value itself
//! goes on in the next line, the line is [odd](ConfLine::is_odd) and is not changed. O(bytes) a look. Worked example: `QOS = "a b" # ours` is the key `qos` with the value `a b`, and a new key
//! comes before the comment.

use std::ops::Range;

use crate::error::line_of;

/// A key, its value, and where they stand in the file, in bytes.
#[derive(Debug)]
pub(crate) struct ConfWord {
    /// In lower case.
    key: String,
    /// From the key to the end of the value.
    whole: Range<usize>,
    /// The value without its quotes.
    value: Range<usize>,
}

/// A line, with those that it goes on in.
#[derive(Debug)]
pub(crate) struct ConfLine {
    words: Vec<ConfWord>,
    /// Where another key can be put.
    end: usize,
    /// Where the next line begins.
    next: usize,
    is_odd: bool,
}

impl ConfLine {
    /// Whether a value goes on in the next line, or is added to.
    pub(crate) fn is_odd(&self) -> bool {
        self.is_odd
    }

    fn word(&self, key: &str) -> Option<&ConfWord> {
        self.words.iter().find(|word| word.key.eq_ignore_ascii_case(key))
    }
}

/// A file.
#[derive(Debug)]
pub(crate) struct Conf {
    pub(crate) text: String,
}

/// What a line says before its comment.
fn said(line: &str) -> &str {
    let mut escaped = false;
    let comment = line.char_indices().find(|(_, letter)| {
        let begins = *letter == '#' && !escaped;
        escaped = *letter == '\\' && !escaped;
        begins
    });
    line.get(..comment.map_or(line.len(), |(at, _)| at)).unwrap_or(line).trim_end()
}

/// The keys and values of `said`, which begins at `from` in its file; the second says whether one of them is added to (`+=`).
fn words(said: &str, from: usize) -> (Vec<ConfWord>, bool) {
    let mut found = Vec::new();
    let (mut at, mut odd) = (0, false);
    let blank = |at: usize| {
        let rest = said.get(at..).unwrap_or_default();
        at + rest.len() - rest.trim_start().len()
    };
    let until = |at: usize, ends: &dyn Fn(char) -> bool| {
        let rest = said.get(at..).unwrap_or_default();
        at + rest.find(ends).unwrap_or(rest.len())
    };
    loop {
        let start = blank(at);
        if start >= said.len() {
            return (found, odd);
        }
        let key_end = until(start, &|c| c.is_whitespace() || c == '=');
        let sign = blank(key_end);
        if !said.get(sign..).is_some_and(|rest| rest.starts_with('=')) {
            // A word without a value, such as the name behind `Include`.
            at = key_end.max(start + 1);
            continue;
        }
        let key = said.get(start..key_end).unwrap_or_default();
        let bare = key.trim_end_matches(['+', '-', '*', '/']);
        odd |= bare != key;
        let begin = blank(sign + 1);
        let quoted = said.get(begin..).is_some_and(|rest| rest.starts_with('"'));
        let (value, end) = if quoted {
            let close = until(begin + 1, &|c| c == '"');
            (begin + 1..close, (close + 1).min(said.len()))
        } else {
            let close = until(begin, &char::is_whitespace);
            (begin..close, close)
        };
        let place = |range: Range<usize>| from + range.start..from + range.end;
        found.push(ConfWord { key: bare.to_ascii_lowercase(), whole: place(start..end), value: place(value) });
        at = end.max(start + 1);
    }
}

impl Conf {
    /// The lines that there are.
    pub(crate) fn lines(&self) -> Vec<ConfLine> {
        let mut found = Vec::new();
        let mut open: Option<ConfLine> = None;
        let mut from = 0;
        for line in self.text.split_inclusive('\n') {
            let said = said(line);
            let body = said.trim_end_matches('\\');
            let goes_on = (said.len() - body.len()) % 2 == 1;
            let body = if goes_on { said.get(..said.len() - 1).unwrap_or(body) } else { said };
            let (mut words, added_to) = words(body, from);
            let mut one = open.take().unwrap_or(ConfLine { words: Vec::new(), end: from, next: from, is_odd: false });
            one.words.append(&mut words);
            one.is_odd |= added_to || goes_on && body.ends_with(|c: char| !c.is_whitespace());
            if !body.trim().is_empty() {
                one.end = from + body.trim_end().len();
            }
            from += line.len();
            one.next = from;
            if goes_on {
                open = Some(one);
            } else {
                found.push(one);
            }
        }
        found.extend(open);
        found
    }

    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The number of a line, counted from 1; of one that goes on, where it begins.
    pub(crate) fn number(&self, line: &ConfLine) -> u64 {
        line_of(&self.text, line.words.first().map_or(line.end, |word| word.whole.start))
    }

    /// The value of a key of a line.
    pub(crate) fn get(&self, line: &ConfLine, key: &str) -> Option<&str> {
        line.word(key).map(|word| self.slice(&word.value))
    }

    /// The line that names a partition.
    pub(crate) fn partition(&self, name: &str) -> Option<ConfLine> {
        self.line(&[("PartitionName", name)])
    }

    /// The first line in which each of these keys has its value.
    pub(crate) fn line(&self, with: &[(&str, &str)]) -> Option<ConfLine> {
        self.lines().into_iter().find(|line| with.iter().all(|(key, value)| self.get(line, key) == Some(value)))
    }

    /// The values of a key, in the order of the lines.
    pub(crate) fn values(&self, key: &str) -> Vec<String> {
        self.lines().iter().filter_map(|line| self.get(line, key)).map(str::to_owned).collect()
    }

    /// The last line that sets a key of the whole cluster.
    pub(crate) fn global(&self, key: &str) -> Option<ConfLine> {
        let of = |line: &ConfLine, key: &str| self.get(line, key).is_some();
        let is = |line: &ConfLine| of(line, key) && !of(line, "PartitionName") && !of(line, "NodeName");
        self.lines().into_iter().rev().find(is)
    }

    /// The value of a key that holds for partitions which do not set it, from the last default above a line.
    pub(crate) fn default_of(&self, below: &ConfLine, key: &str) -> Option<String> {
        let lines = self.lines();
        let is_default = |line: &&ConfLine| {
            line.next < below.next
                && self.get(line, "PartitionName").is_some_and(|of| of.eq_ignore_ascii_case("default"))
        };
        lines.iter().filter(is_default).filter_map(|line| self.get(line, key)).next_back().map(str::to_owned)
    }

    /// Sets a key of a line; the value before, where it was another. The line is to be looked up again then.
    pub(crate) fn set(&mut self, line: &ConfLine, key: &str, value: &str) -> Option<Option<String>> {
        match line.word(key).map(|word| word.value.clone()) {
            Some(range) => {
                let before = self.slice(&range).to_owned();
                if before == value {
                    return None;
                }
                self.text.replace_range(range, value);
                Some(Some(before))
            }
            None => {
                self.text.insert_str(line.end, &format!(" {key}={value}"));
                Some(None)
            }
        }
    }

    /// The keys and values of a line as they are written, in one line without its comments.
    pub(crate) fn copy(&self, line: &ConfLine) -> String {
        let words: Vec<&str> = line.words.iter().map(|word| self.slice(&word.whole)).collect();
        words.join(" ")
    }

    /// Takes a line out, with its comment.
    pub(crate) fn remove(&mut self, line: &ConfLine) {
        let lines = self.lines();
        let before = lines.iter().rev().map(|other| other.next).find(|next| *next < line.next);
        self.text.replace_range(before.unwrap_or_default()..line.next, "");
    }

    /// Puts a line behind another, or before the first partition, or at the end.
    pub(crate) fn insert(&mut self, behind: Option<&ConfLine>, line: &str) {
        let ending = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let lines = self.lines();
        let first = || {
            let at = lines.iter().position(|line| self.get(line, "PartitionName").is_some())?;
            Some(at.checked_sub(1).and_then(|before| lines.get(before)).map_or(0, |before| before.next))
        };
        let at = behind.map(|line| line.next).or_else(first).unwrap_or(self.text.len());
        let begins = at == 0 || self.text.get(..at).is_some_and(|before| before.ends_with('\n'));
        let before = if begins { "" } else { ending };
        self.text.insert_str(at, &format!("{before}{line}{ending}"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(text: &str, partition: &str, sets: &[(&str, &str)]) -> String {
        let mut conf = Conf { text: text.to_owned() };
        for (key, value) in sets {
            let line = conf.partition(partition).unwrap();
            conf.set(&line, key, value);
        }
        conf.text
    }

    #[test]
    fn the_worked_example() {
        let conf = Conf { text: "QOS = \"a b\" # ours\n".to_owned() };
        let line = conf.global("qos").unwrap();
        assert_eq!((conf.get(&line, "Qos"), &conf.text[..line.end]), (Some("a b"), "QOS = \"a b\""));
    }

    #[test]
    fn values_are_set_where_they_stand_and_new_ones_before_comments_and_ends() {
        for (text, expected) in [
            ("PartitionName=a Nodes=n1 # x=1\n", "PartitionName=a Nodes=n2 QOS=q # x=1\n"),
            ("partitionname = a nodes= \"n1\"\r\n", "partitionname = a nodes= \"n2\" QOS=q\r\n"),
            ("PartitionName=a \\\n  qos=old Nodes=n1", "PartitionName=a \\\n  qos=q Nodes=n2"),
            (
                "PartitionName=a Nodes=n1 \\ # half\n  MaxTime=1 \\\n",
                "PartitionName=a Nodes=n2 \\ # half\n  MaxTime=1 QOS=q \\\n",
            ),
            (
                "PartitionName=a Nodes=n1 # was \\\nPartitionName=b",
                "PartitionName=a Nodes=n2 QOS=q # was \\\nPartitionName=b",
            ),
        ] {
            assert_eq!(after(text, "a", &[("Nodes", "n2"), ("QOS", "q")]), expected);
        }
        let conf =
            Conf { text: "PartitionName=a Nodes=n1,\\\nn2 MaxTime=7-0\nPartitionName=b MaxTime+=1\n".to_owned() };
        assert!(conf.lines().iter().all(ConfLine::is_odd));
        assert_eq!(conf.lines().iter().map(|line| conf.number(line)).collect::<Vec<u64>>(), [1, 3]);
    }

    #[test]
    fn lines_are_taken_out() {
        for (at, left) in [(0, "b=1\n"), (1, "a=1 \\\n c=1 # x\n")] {
            let mut conf = Conf { text: "a=1 \\\n c=1 # x\nb=1\n".to_owned() };
            let line = conf.lines().into_iter().nth(at).unwrap();
            conf.remove(&line);
            assert_eq!(conf.text, left);
        }
    }

    #[test]
    fn defaults_hold_below_them() {
        let text = "PartitionName=a\nPartitionName=DEFAULT PreemptMode=OFF\nPartitionName=b\n";
        let conf = Conf { text: text.to_owned() };
        let of = |name: &str| conf.default_of(&conf.partition(name).unwrap(), "preemptmode");
        assert_eq!((of("a"), of("b")), (None, Some("OFF".to_owned())));
    }

    proptest! {
        /// Whatever is in a file, all of it is in some line, and setting a key is read back with nothing else changed.
        #[test]
        fn what_is_set_is_read_back(text in "([pq]=[a\"é]{0,2}|[ #\\\\\r\n=]){0,40}", value in "[a-z]{1,3}") {
            let mut conf = Conf { text: format!("PartitionName=here \n{text}") };
            prop_assert_eq!(conf.lines().last().unwrap().next, conf.text.len());
            let before: Vec<usize> = conf.lines().iter().map(|line| line.words.len()).collect();
            let line = conf.partition("here").unwrap();
            conf.set(&line, "new", &value);
            let line = conf.partition("here").unwrap();
            prop_assert_eq!(conf.get(&line, "new"), Some(value.as_str()));
            let after: Vec<usize> = conf.lines().iter().map(|line| line.words.len()).collect();
            prop_assert_eq!(after[0], before[0] + 1);
            prop_assert_eq!(&after[1..], &before[1..]);
        }
    }
}
