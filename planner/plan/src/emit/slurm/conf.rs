//! Slurm's files in lines of keys and values, each with where it stands, so that one value can be set and all else stays, byte for byte.
//!
//! Read as Slurm reads them (`src/common/parse_config.c`): a `#` that no backslash escapes begins a comment, a backslash at the end of a line joins the next one, keys count in either case, blanks
//! may stand around `=`, values may stand in quotes, and a line holds any number of pairs. From the first `NodeName=`, `PartitionName=` or other record key on they belong to that record. Of a key that is
//! set twice the last value counts. `Include` is told and not followed: what another file says is not known here.
//!
//! O(bytes) a change. Worked example: in `SuspendTime=60 ResumeRate=0 # later` the pair `ResumeRate=0` is bytes 15 to 27; set to 10 it gives `SuspendTime=60 ResumeRate=10 # later`.

use std::ops::Range;

use tracecast_analytics::report::markup::printable;
use tracecast_analytics::report::quote;

/// Keys that begin a record: the rest of the line belongs to it.
const RECORDS: [&str; 5] = ["nodename", "partitionname", "nodeset", "downnodes", "frontendname"];

/// A `Key=Value` of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfPair {
    /// The key as the user wrote it.
    pub key: String,
    /// The value without quotes and escapes.
    pub value: String,
    /// Bytes of the whole pair in the file.
    whole: Range<usize>,
    /// Bytes of the value in the file, its quotes included.
    at: Range<usize>,
}

impl ConfPair {
    /// Whether the line sets `key`.
    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

/// A line, with those that it goes on in.
#[derive(Debug, Clone)]
pub struct ConfLine {
    /// Number of its first line, counted from 1.
    pub number: usize,
    /// File that it includes.
    pub include: Option<String>,
    /// Text that is no `Key=Value`, from where on Slurm gives up.
    pub odd: Option<String>,
    /// Whether a pair goes on in the next line or is added to (`+=`), so that a reader may not see
    /// what a change does.
    pub is_divided: bool,
    pairs: Vec<ConfPair>,
    /// The pair that begins a record.
    record: Option<usize>,
    /// Bytes of the line in the file, its end included.
    range: Range<usize>,
    /// Whether the line says that it goes on, but the file ends.
    is_unfinished: bool,
    /// Whether the line is nothing but a comment.
    is_comment: bool,
}

impl ConfLine {
    /// The value of a key, wherever in the line it stands.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rfind(|pair| pair.is(key)).map(|pair| pair.value.as_str())
    }

    /// Pairs that are settings of the cluster.
    pub fn settings(&self) -> &[ConfPair] {
        self.pairs.get(..self.record.unwrap_or(self.pairs.len())).unwrap_or_default()
    }

    /// The pairs of its record, where it begins with `key`.
    pub fn record(&self, key: &str) -> Option<&[ConfPair]> {
        let pairs = self.pairs.get(self.record?..)?;
        pairs.first().is_some_and(|pair| pair.is(key)).then_some(pairs)
    }

    /// The line of `text` that lies at `range`.
    fn read(text: &str, range: Range<usize>, number: usize, is_unfinished: bool) -> Self {
        // What Slurm sees of it, and where each byte of that lies.
        let (mut seen, mut places) = (String::new(), Vec::new());
        let (mut from, mut has_comment) = (range.start, false);
        for physical in text.get(range.clone()).unwrap_or_default().split_inclusive('\n') {
            let (said, comment) = before_comment(physical);
            has_comment |= comment;
            let said = continued(said).unwrap_or(said).trim_end_matches(['\n', '\r']);
            seen.push_str(said);
            places.extend(from..from + said.len());
            from += physical.len();
        }
        let mut line = Self {
            number,
            include: None,
            odd: None,
            is_divided: false,
            pairs: Vec::new(),
            record: None,
            range,
            is_unfinished,
            is_comment: has_comment && seen.trim().is_empty(),
        };
        let start = seen.trim_start();
        if let Some(rest) = start.get(..7).filter(|word| word.eq_ignore_ascii_case("include")).and(start.get(7..))
            && rest.starts_with(char::is_whitespace)
        {
            line.include = Some(rest.trim().to_owned());
            return line;
        }
        let mut at = 0;
        while let Some(rest) = seen.get(at..).filter(|rest| !rest.trim().is_empty()) {
            let Some(result) = Found::first(rest) else {
                line.odd = Some(rest.trim().to_owned());
                break;
            };
            let place = |from: usize, to: usize| Some(*places.get(at + from)?..*places.get(at + to - 1)? + 1);
            let places = (place(result.start, result.end), place(result.value_start, result.end));
            let (Some(whole), Some(value_at)) = places else { break };
            if line.record.is_none() && RECORDS.iter().any(|record| result.key.eq_ignore_ascii_case(record)) {
                line.record = Some(line.pairs.len());
            }
            line.is_divided |= result.is_added || whole.len() > result.end - result.start;
            line.pairs.push(ConfPair { key: result.key.to_owned(), value: result.value, whole, at: value_at });
            at += result.end;
        }
        line
    }
}

/// The text of a line before its comment, and whether it has one.
fn before_comment(line: &str) -> (&str, bool) {
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'#' if !escaped => return (line.get(..at).unwrap_or(line), true),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    (line, false)
}

/// The text of a line without the backslash that joins the next one, where there is one.
fn continued(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if backslashes % 2 == 1 { text.get(..text.len() - 1) } else { None }
}

/// A pair in what Slurm sees of a line, with where it and its value begin and both end.
struct Found<'t> {
    key: &'t str,
    value: String,
    start: usize,
    value_start: usize,
    end: usize,
    is_added: bool,
}

impl<'t> Found<'t> {
    /// The first of a text; none where Slurm gives up.
    fn first(text: &'t str) -> Option<Self> {
        let start = text.len() - text.trim_start().len();
        let rest = text.get(start..)?;
        let in_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        let length = rest.bytes().take_while(in_key).count();
        let key = rest.get(..length).filter(|key| !key.is_empty())?;
        let after = rest.get(length..)?.trim_start();
        let added = after.strip_prefix(['-', '*', '+', '/']);
        let value = added.unwrap_or(after).strip_prefix('=')?.trim_start();
        let value_start = text.len() - value.len();
        let (inside, end) = if let Some(quoted) = value.strip_prefix('"') {
            let inside = quoted.split('"').next().filter(|inside| inside.len() < quoted.len())?;
            let end = value_start + inside.len() + 2;
            // What follows a closing quote must be blank.
            if text.get(end..)?.starts_with(|letter: char| !letter.is_whitespace()) {
                return None;
            }
            (inside, end)
        } else {
            let inside = value.split(char::is_whitespace).next().filter(|inside| !inside.is_empty())?;
            (inside, value_start + inside.len())
        };
        Some(Self { key, value: unescaped(inside), start, value_start, end, is_added: added.is_some() })
    }
}

/// Removes the backslashes that escape.
fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

/// `value` with the quotes and escapes that it needs. None that is set here is one that Slurm cannot hold.
fn written(value: &str) -> String {
    quote::slurm(value).unwrap_or_else(|| quote::slurm(&printable(value).replace('"', "'")).unwrap_or_default())
}

/// A file. A line is told by its place among the lines, which a change of a value leaves as it is.
#[derive(Debug, Clone)]
pub struct Conf {
    text: String,
    lines: Vec<ConfLine>,
    /// Whether a note stands above the added lines.
    has_note: bool,
}

impl Conf {
    /// Reads `text`.
    pub fn read(text: &str) -> Self {
        Self { lines: lines(text), text: text.to_owned(), has_note: false }
    }

    /// The text as it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines that there are.
    pub fn lines(&self) -> &[ConfLine] {
        &self.lines
    }

    /// The first line in which each of these keys has its value.
    pub fn find(&self, with: &[(&str, &str)]) -> Option<usize> {
        self.lines.iter().position(|line| with.iter().all(|(key, value)| line.get(key) == Some(value)))
    }

    /// The line that names a partition.
    pub fn partition(&self, name: &str) -> Option<usize> {
        self.find(&[("PartitionName", name)])
    }

    /// The values of a key, in the order of the lines.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| line.get(key))
    }

    /// Records that begin with `key`: their line and pairs.
    pub fn records<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (usize, &'a [ConfPair])> {
        self.lines.iter().enumerate().filter_map(move |(line, text)| Some((line, text.record(key)?)))
    }

    /// The number of a line.
    pub fn number(&self, line: usize) -> usize {
        self.lines.get(line).map_or(0, |line| line.number)
    }

    /// Returns the places that set `key` for the cluster: line and pair, in order.
    fn places(&self, key: &str) -> Vec<(usize, usize)> {
        let settings = self.lines.iter().enumerate().flat_map(|(line, text)| {
            let pairs = text.settings().iter().enumerate().filter(|(_, pair)| pair.is(key));
            pairs.map(move |(pair, _)| (line, pair))
        });
        settings.collect()
    }

    /// Returns the value of `key` for the cluster: the last one, as Slurm takes it.
    pub fn setting(&self, key: &str) -> Option<&str> {
        let (line, pair) = *self.places(key).last()?;
        Some(&self.lines.get(line)?.pairs.get(pair)?.value)
    }

    /// The line on which `key` is set for the cluster.
    pub fn line_of(&self, key: &str) -> Option<&ConfLine> {
        self.lines.get(self.places(key).last()?.0)
    }

    /// The value of a key that holds for partitions which do not set it, from the last default above a line.
    pub fn default_of(&self, below: usize, key: &str) -> Option<&str> {
        let is_default =
            |line: &&ConfLine| line.get("PartitionName").is_some_and(|of| of.eq_ignore_ascii_case("default"));
        self.lines.iter().take(below).filter(is_default).filter_map(|line| line.get(key)).next_back()
    }

    /// Puts `with` in the place of some bytes.
    fn replace(&mut self, range: Range<usize>, with: &str) {
        self.text.replace_range(range, with);
        self.lines = lines(&self.text);
    }

    /// Sets a key of a line, among its pairs from `from` on; the value before, where it was another.
    fn set_from(&mut self, line: usize, from: usize, key: &str, value: &str) -> Option<Option<String>> {
        let pairs = self.lines.get(line)?.pairs.get(from..)?;
        let Some(pair) = pairs.iter().rfind(|pair| pair.is(key)) else {
            let end = pairs.last()?.whole.end;
            self.replace(end..end, &format!(" {key}={}", written(value)));
            return Some(None);
        };
        if pair.value == value {
            return None;
        }
        let (before, at) = (pair.value.clone(), pair.at.clone());
        let is_quoted = self.text.get(at.clone()).is_some_and(|text| text.starts_with('"'));
        let keeps_quotes = is_quoted && quote::is_slurm_value(value);
        self.replace(at, &if keeps_quotes { format!("\"{value}\"") } else { written(value) });
        Some(Some(before))
    }

    /// Sets a key of a line, wherever in it; the value before, where it was another.
    pub fn set(&mut self, line: usize, key: &str, value: &str) -> Option<Option<String>> {
        self.set_from(line, 0, key, value)
    }

    /// Sets a key of the record of a line; the value before, where it was another.
    pub fn set_in_record(&mut self, line: usize, key: &str, value: &str) -> Option<Option<String>> {
        self.set_from(line, self.lines.get(line)?.record?, key, value)
    }

    /// Numbers of the lines on which `key` is set for the cluster in vain, as it is set again further down, and which are cleared when it is set.
    pub fn in_vain(&self, key: &str) -> Vec<usize> {
        let places = self.places(key);
        let vain = places.split_last().map_or(&[][..], |(_, vain)| vain);
        vain.iter()
            .filter_map(|(line, _)| self.lines.get(*line))
            .filter(|line| line.odd.is_none())
            .map(|line| line.number)
            .collect()
    }

    /// Sets `key` for the cluster where it stands last, and nowhere before that; a new one comes before the first record, below `note` if there is one.
    pub fn set_setting(&mut self, key: &str, value: &str, note: Option<&str>) {
        let places = self.places(key);
        let Some(((line, at), vain)) = places.split_last() else {
            return self.add(&format!("{key}={}", written(value)), note);
        };
        self.set_pair(*line, *at, value);
        // The last first, as a line that is empty then goes.
        for (line, at) in vain.iter().rev() {
            // Without the pair before it, what is not understood could mean something.
            if self.lines.get(*line).is_some_and(|line| line.odd.is_some()) {
                self.set_pair(*line, *at, value);
            } else {
                self.clear(*line, *at);
            }
        }
    }

    fn set_pair(&mut self, line: usize, at: usize, value: &str) {
        let pair = self.lines.get(line).and_then(|text| text.pairs.get(at));
        if let Some(range) = pair.filter(|pair| pair.value != value).map(|pair| pair.at.clone()) {
            self.replace(range, &written(value));
        }
    }

    /// Takes a pair out, with the blanks behind it, and the line if nothing is left of it.
    fn clear(&mut self, line: usize, at: usize) {
        let Some((range, pair)) = self.lines.get(line).and_then(|text| Some((text.range.clone(), text.pairs.get(at)?)))
        else {
            return;
        };
        let rest = self.text.get(pair.whole.end..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let gone = pair.whole.start..pair.whole.end + blanks;
        let left = range.start..range.end - gone.len();
        self.text.replace_range(gone, "");
        let is_left = |physical: &str| {
            let (text, comment) = before_comment(physical);
            comment || !continued(text).unwrap_or(text).trim().is_empty()
        };
        let is_empty = !self.text.get(left.clone()).unwrap_or_default().split_inclusive('\n').any(is_left);
        self.replace(if is_empty { left } else { 0..0 }, "");
    }

    /// The keys and values of a line as they are written, in one line without its comments.
    pub fn copy(&self, line: usize) -> String {
        let pairs = self.lines.get(line).map_or(&[][..], |line| &line.pairs);
        let words: Vec<&str> = pairs.iter().map(|pair| self.text.get(pair.whole.clone()).unwrap_or_default()).collect();
        words.join(" ")
    }

    /// Takes a line out, with its comment.
    pub fn remove(&mut self, line: usize) {
        if let Some(range) = self.lines.get(line).map(|line| line.range.clone()) {
            self.replace(range, "");
        }
    }

    /// Puts a line behind another, or at the end.
    pub fn insert(&mut self, behind: Option<usize>, line: &str) {
        let behind = behind.and_then(|line| self.lines.get(line));
        self.insert_at(behind.map_or(self.text.len(), |line| line.range.end), line);
    }

    /// Returns the line ending of the file.
    fn ending(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    fn insert_at(&mut self, at: usize, line: &str) {
        let ending = self.ending();
        let begins = at == 0 || self.text.get(..at).is_some_and(|before| before.ends_with('\n'));
        let before = if begins { "" } else { ending };
        self.replace(at..at, &format!("{before}{line}{ending}"));
    }

    /// Puts a setting before the first record of nodes or partitions and the comments right above it, or at the end.
    fn add(&mut self, line: &str, note: Option<&str>) {
        let note = note.filter(|_| !std::mem::replace(&mut self.has_note, true));
        let note = note.map_or_else(String::new, |note| format!("# {note}{}", self.ending()));
        self.insert_at(self.place_of_new(), &format!("{note}{line}"));
    }

    fn place_of_new(&self) -> usize {
        let is_record = |line: &ConfLine| {
            ["nodename", "partitionname", "nodeset", "downnodes"].iter().any(|key| line.record(key).is_some())
        };
        let Some(first) = self.lines.iter().position(|line| is_record(line) || line.is_unfinished) else {
            return self.text.len();
        };
        let above = self.lines.iter().take(first).rev().take_while(|line| line.is_comment).count();
        self.lines.get(first - above).map_or(self.text.len(), |line| line.range.start)
    }
}

/// The lines of a text.
fn lines(text: &str) -> Vec<ConfLine> {
    let (mut result, mut number, mut first, mut start, mut end) = (Vec::new(), 0, 1, 0, 0);
    for physical in text.split_inclusive('\n') {
        number += 1;
        if start == end {
            first = number;
        }
        end += physical.len();
        if continued(before_comment(physical).0).is_none() {
            result.push(ConfLine::read(text, start..end, first, false));
            start = end;
        }
    }
    if start < end {
        result.push(ConfLine::read(text, start..end, first, true));
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(text: &str, partition: &str, sets: &[(&str, &str)]) -> String {
        let mut conf = Conf::read(text);
        let line = conf.partition(partition).unwrap();
        for (key, value) in sets {
            conf.set(line, key, value);
        }
        conf.text
    }

    #[test]
    fn the_worked_example() {
        let mut conf = Conf::read("SuspendTime=60 ResumeRate=0 # later");
        assert_eq!(conf.lines[0].pairs[1].whole, 15..27);
        conf.set_setting("resumerate", "10", None);
        assert_eq!(conf.text, "SuspendTime=60 ResumeRate=10 # later");
        let conf = Conf::read("QOS = \"a b\" # ours\n");
        assert_eq!(
            (conf.setting("Qos"), &conf.text[..conf.lines[0].pairs[0].whole.end]),
            (Some("a b"), "QOS = \"a b\"")
        );
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
        let conf = Conf::read("PartitionName=a Nodes=n1,\\\nn2 MaxTime=7-0\nPartitionName=b MaxTime+=1\n");
        assert!(conf.lines.iter().all(|line| line.is_divided));
        assert_eq!(conf.lines.iter().map(|line| line.number).collect::<Vec<usize>>(), [1, 3]);
    }

    #[test]
    fn lines_are_taken_out() {
        for (at, left) in [(0, "b=1\n"), (1, "a=1 \\\n c=1 # x\n")] {
            let mut conf = Conf::read("a=1 \\\n c=1 # x\nb=1\n");
            conf.remove(at);
            assert_eq!(conf.text, left);
        }
    }

    #[test]
    fn defaults_hold_below_them() {
        let conf = Conf::read("PartitionName=a\nPartitionName=DEFAULT PreemptMode=OFF\nPartitionName=b\n");
        let of = |name: &str| conf.default_of(conf.partition(name).unwrap(), "preemptmode");
        assert_eq!((of("a"), of("b")), (None, Some("OFF")));
    }

    proptest! {
        /// Every byte of a file is in some line, and setting a key is read back with nothing else
        /// changed.
        #[test]
        fn what_is_set_is_read_back(text in "([pq]=[a\"é]{0,2}|[ #\\\\\r\n=]){0,40}", value in "[a-z]{1,3}") {
            let mut conf = Conf::read(&format!("PartitionName=here \n{text}"));
            prop_assert_eq!(conf.lines.last().unwrap().range.end, conf.text.len());
            let before: Vec<usize> = conf.lines.iter().map(|line| line.pairs.len()).collect();
            let line = conf.partition("here").unwrap();
            conf.set(line, "new", &value);
            let line = conf.partition("here").unwrap();
            prop_assert_eq!(conf.lines[line].get("new"), Some(value.as_str()));
            let after: Vec<usize> = conf.lines.iter().map(|line| line.pairs.len()).collect();
            prop_assert_eq!(after[0], before[0] + 1);
            prop_assert_eq!(&after[1..], &before[1..]);
        }
    }
}
