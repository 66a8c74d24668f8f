//! The text of a `slurm.conf`: what it sets where, changes in place, and the change as a unified diff.
//!
//! Read as Slurm reads it (`src/common/parse_config.c`): a `#` that no backslash escapes begins a comment, a backslash at the end of a line joins
//! the next one, keys are case-insensitive, a line holds any number of `Key=Value` pairs, and from the first `NodeName=`, `PartitionName=` or other
//! record key on they belong to that record. Of a key that is set twice the last value counts. `Include` is reported and not followed: what another
//! file says is not known here. Whatever is not understood stays as it is, byte for byte.
//!
//! Reading is O(n) in the text, writing O(n) and the diff O(n), as the changed lines are known and need no search.
//!
//! Worked number: in `SuspendTime=60 ResumeRate=0 # later` the pair `ResumeRate=0` is bytes 15 to 27; set to 10 it gives
//! `SuspendTime=60 ResumeRate=10 # later`, one line removed and one added.

use std::ops::Range;

use tracecast_analytics::report::markup::printable;
use tracecast_analytics::report::quote;

/// Keys that begin a record: the rest of the line belongs to it.
const RECORDS: [&str; 5] = ["nodename", "partitionname", "nodeset", "downnodes", "frontendname"];
/// Lines of context around a change in a diff.
const CONTEXT: usize = 3;

/// A `Key=Value` of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    /// The key as the user wrote it.
    pub(super) key: String,
    /// The value without quotes and escapes.
    pub(super) value: String,
    /// Where it lies in the line's text.
    span: Range<usize>,
}

impl Pair {
    /// Whether it sets `key`.
    pub(super) fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

/// A line with those it is continued on.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Its text, line ends included.
    raw: String,
    /// Number of its first line, counted from 1.
    pub(super) number: usize,
    /// What it sets.
    pairs: Vec<Pair>,
    /// The pair that begins a record.
    record: Option<usize>,
    /// File that it includes.
    pub(super) include: Option<String>,
    /// Text that is no `Key=Value`, from where on Slurm gives up.
    pub(super) odd: Option<String>,
    /// It says that it goes on, but the file ends.
    unfinished: bool,
    /// Nothing but a comment.
    comment: bool,
}

impl Line {
    /// Pairs that are settings of the cluster.
    pub(super) fn settings(&self) -> impl Iterator<Item = (usize, &Pair)> {
        self.pairs.iter().enumerate().take(self.record.unwrap_or(self.pairs.len()))
    }

    /// The pairs of its record, where it begins with `key`.
    pub(super) fn record(&self, key: &str) -> Option<&[Pair]> {
        let pairs = self.pairs.get(self.record?..)?;
        pairs.first().is_some_and(|pair| pair.is(key)).then_some(pairs)
    }

    fn read(raw: &str, number: usize, unfinished: bool) -> Self {
        // What Slurm sees of it, and where each byte of that lies.
        let (mut seen, mut places) = (String::new(), Vec::new());
        let (mut from, mut has_comment) = (0, false);
        for physical in raw.split_inclusive('\n') {
            let (text, comment) = before_comment(physical);
            has_comment |= comment;
            let text = continued(text).unwrap_or(text).trim_end_matches(['\n', '\r']);
            seen.push_str(text);
            places.extend(from..from + text.len());
            from += physical.len();
        }
        let mut line = Self {
            raw: raw.to_owned(),
            number,
            pairs: Vec::new(),
            record: None,
            include: None,
            odd: None,
            unfinished,
            comment: has_comment && seen.trim().is_empty(),
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
            let Some((key, value, span, next)) = pair(rest) else {
                line.odd = Some(rest.trim().to_owned());
                break;
            };
            let (first, last) = (places.get(at + span.start), places.get(at + span.end - 1));
            let (Some(first), Some(last)) = (first, last) else { break };
            if line.record.is_none() && RECORDS.iter().any(|record| key.eq_ignore_ascii_case(record)) {
                line.record = Some(line.pairs.len());
            }
            line.pairs.push(Pair { key: key.to_owned(), value, span: *first..last + 1 });
            at += next;
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

/// The first pair of `text`: key, value, where it lies, and where the next one may begin.
fn pair(text: &str) -> Option<(&str, String, Range<usize>, usize)> {
    let start = text.len() - text.trim_start().len();
    let rest = text.get(start..)?;
    let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')).count();
    let key = rest.get(..length).filter(|key| !key.is_empty())?;
    let after = rest.get(length..)?;
    let sign = after.trim_start();
    let sign = sign.strip_prefix(['-', '*', '+', '/']).unwrap_or(sign);
    let value = sign.strip_prefix('=')?.trim_start();
    let from = text.len() - value.len();
    let (found, to) = if let Some(quoted) = value.strip_prefix('"') {
        let inside = quoted.split('"').next().filter(|inside| inside.len() < quoted.len())?;
        let to = from + inside.len() + 2;
        // What follows a closing quote must be blank.
        if text.get(to..)?.starts_with(|letter: char| !letter.is_whitespace()) {
            return None;
        }
        (inside, to)
    } else {
        let inside = value.split(char::is_whitespace).next().filter(|inside| !inside.is_empty())?;
        (inside, from + inside.len())
    };
    Some((key, unescaped(found), start..to, to))
}

/// Without the backslashes that escape.
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

/// A `slurm.conf`, with the changes that are asked of it.
#[derive(Debug, Clone)]
pub(super) struct Conf {
    /// Its lines.
    pub(super) lines: Vec<Line>,
    /// Of a line, what replaces which bytes.
    edits: Vec<(usize, Range<usize>, String)>,
    /// Settings that are new.
    added: Vec<String>,
}

impl Conf {
    /// Reads `text`.
    pub(super) fn read(text: &str) -> Self {
        let (mut lines, mut whole, mut number, mut first) = (Vec::new(), String::new(), 0, 1);
        for physical in text.split_inclusive('\n') {
            number += 1;
            if whole.is_empty() {
                first = number;
            }
            whole.push_str(physical);
            if continued(before_comment(physical).0).is_none() {
                lines.push(Line::read(&whole, first, false));
                whole.clear();
            }
        }
        if !whole.is_empty() {
            lines.push(Line::read(&whole, first, true));
        }
        Self { lines, edits: Vec::new(), added: Vec::new() }
    }

    /// Where `key` is set for the cluster: line and pair, in order.
    fn places(&self, key: &str) -> Vec<(usize, usize)> {
        let settings = self.lines.iter().enumerate().flat_map(|(line, text)| {
            text.settings().filter(|(_, pair)| pair.is(key)).map(move |(pair, _)| (line, pair))
        });
        settings.collect()
    }

    /// What `key` is set to for the cluster: the last value, as Slurm takes it.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        let (line, pair) = *self.places(key).last()?;
        Some(&self.lines.get(line)?.pairs.get(pair)?.value)
    }

    /// Number of the line on which `key` is set for the cluster.
    pub(super) fn line_of(&self, key: &str) -> Option<usize> {
        Some(self.lines.get(self.places(key).last()?.0)?.number)
    }

    /// Records that begin with `key`: their line and pairs.
    pub(super) fn records<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (usize, &'a [Pair])> {
        self.lines.iter().enumerate().filter_map(move |(line, text)| Some((line, text.record(key)?)))
    }

    /// Sets `key` for the cluster; gives the numbers of lines on which it was set before in vain, which are cleared.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Vec<usize> {
        let places = self.places(key);
        let Some(((line, at), vain)) = places.split_last() else {
            self.added.push(format!("{key}={}", written(value)));
            return Vec::new();
        };
        if let Some(pair) = self.lines.get(*line).and_then(|text| text.pairs.get(*at))
            && pair.value != value
        {
            self.edits.push((*line, pair.span.clone(), format!("{}={}", pair.key, written(value))));
        }
        for (line, at) in vain {
            let Some(text) = self.lines.get(*line) else { continue };
            if let Some(pair) = text.pairs.get(*at) {
                // Without the pair before it, what is not understood could mean something.
                let new = if text.odd.is_some() { format!("{}={}", pair.key, written(value)) } else { String::new() };
                if text.odd.is_none() || pair.value != value {
                    self.edits.push((*line, pair.span.clone(), new));
                }
            }
        }
        let cleared = vain.iter().filter_map(|(line, _)| self.lines.get(*line)).filter(|line| line.odd.is_none());
        cleared.map(|line| line.number).collect()
    }

    /// Sets `key` of the record on `line`.
    pub(super) fn set_in_record(&mut self, line: usize, key: &str, value: &str) {
        let Some(text) = self.lines.get(line) else { return };
        let pairs = text.pairs.get(text.record.unwrap_or(text.pairs.len())..).unwrap_or_default();
        match (pairs.iter().rfind(|pair| pair.is(key)), pairs.last()) {
            (Some(pair), _) if pair.value == value => {}
            (Some(pair), _) => self.edits.push((line, pair.span.clone(), format!("{}={}", pair.key, written(value)))),
            (None, Some(last)) => {
                self.edits.push((line, last.span.end..last.span.end, format!(" {key}={}", written(value))));
            }
            (None, None) => {}
        }
    }

    /// The line before which new settings go: before the first record of nodes or partitions and the comments right above it, or the end.
    fn place_of_new(&self) -> usize {
        let record = |line: &Line| {
            ["nodename", "partitionname", "nodeset", "downnodes"].iter().any(|key| line.record(key).is_some())
        };
        let unfinished = |line: &Line| line.unfinished;
        let Some(mut at) = self.lines.iter().position(|line| record(line) || unfinished(line)) else {
            return self.lines.len();
        };
        while at > 0 && self.lines.get(at - 1).is_some_and(|line| line.comment) {
            at -= 1;
        }
        at
    }

    /// The text with its changes, and these as a unified diff of the file called `name`; `note` goes above new settings.
    pub(super) fn write(&self, name: &str, note: &str) -> (String, Option<String>) {
        let end = if self.lines.first().is_some_and(|line| line.raw.ends_with("\r\n")) { "\r\n" } else { "\n" };
        let place = self.place_of_new();
        let mut steps: Vec<(char, String)> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            if at == place {
                self.new_settings(note, end, &mut steps);
            }
            let mut new = self.edited(at, line);
            // New settings cannot follow on a line that does not end.
            let last = at + 1 == self.lines.len();
            if last && place == self.lines.len() && !self.added.is_empty() && !new.is_empty() && !new.ends_with('\n') {
                new.push_str(end);
            }
            changed(&line.raw, &new, &mut steps);
        }
        if place == self.lines.len() {
            self.new_settings(note, end, &mut steps);
        }
        let text: String = steps.iter().filter(|(sign, _)| *sign != '-').map(|(_, line)| line.as_str()).collect();
        (text, unified(name, &steps))
    }

    fn new_settings(&self, note: &str, end: &str, steps: &mut Vec<(char, String)>) {
        if !self.added.is_empty() {
            let lines = std::iter::once(format!("# {note}")).chain(self.added.iter().cloned());
            steps.extend(lines.map(|line| ('+', format!("{line}{end}"))));
        }
    }

    /// A line with its edits; empty where nothing is left of it.
    fn edited(&self, at: usize, line: &Line) -> String {
        let mut edits: Vec<_> = self.edits.iter().filter(|(edited, _, _)| *edited == at).collect();
        if edits.is_empty() {
            return line.raw.clone();
        }
        edits.sort_by_key(|(_, span, _)| span.start);
        let (mut out, mut from) = (String::new(), 0);
        for (_, span, text) in edits {
            out.push_str(line.raw.get(from..span.start).unwrap_or_default());
            out.push_str(text);
            from = span.end;
            if text.is_empty() {
                // The blanks after what is gone are gone as well.
                let rest = line.raw.get(from..).unwrap_or_default();
                from += rest.len() - rest.trim_start_matches([' ', '\t']).len();
            }
        }
        out.push_str(line.raw.get(from..).unwrap_or_default());
        let left = |physical: &str| {
            let (text, comment) = before_comment(physical);
            comment || !continued(text).unwrap_or(text).trim().is_empty()
        };
        if out.split_inclusive('\n').any(left) { out } else { String::new() }
    }
}

/// What becomes of the lines of `old`: kept at both ends where they are the same.
fn changed(old: &str, new: &str, steps: &mut Vec<(char, String)>) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let mut add = |sign, lines: Option<&[&str]>| {
        steps.extend(lines.unwrap_or_default().iter().map(|line| (sign, (*line).to_owned())));
    };
    add(' ', old.get(..head));
    add('-', old.get(head..old.len() - tail));
    add('+', new.get(head..new.len() - tail));
    add(' ', old.get(old.len() - tail..));
}

/// The unified diff of `steps`, `None` where nothing changes.
fn unified(name: &str, steps: &[(char, String)]) -> Option<String> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for at in steps.iter().enumerate().filter(|(_, (sign, _))| *sign != ' ').map(|(at, _)| at) {
        let span = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(steps.len());
        match spans.last_mut().filter(|last| last.end >= span.start) {
            Some(last) => last.end = span.end,
            None => spans.push(span),
        }
    }
    if spans.is_empty() {
        return None;
    }
    let name: String = name.chars().map(|letter| if letter.is_control() { '_' } else { letter }).collect();
    let mut out = format!("--- {name}\n+++ {name}\n");
    let (mut old, mut new, mut at) = (0, 0, 0);
    let counts = |span: &[(char, String)]| {
        let of = |without: char| span.iter().filter(|(sign, _)| *sign != without).count();
        (of('+'), of('-'))
    };
    for span in spans {
        let (skipped, hunk) = (steps.get(at..span.start)?, steps.get(span.clone())?);
        let (before, _) = counts(skipped);
        (old, new) = (old + before, new + before);
        let (gone, come) = counts(hunk);
        // A side without lines is named by the line before it.
        let start = |lines: usize, count: usize| if count == 0 { lines } else { lines + 1 };
        out.push_str(&format!("@@ -{},{gone} +{},{come} @@\n", start(old, gone), start(new, come)));
        for (sign, line) in hunk {
            out.push(*sign);
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
        (old, new, at) = (old + gone, new + come, span.end);
    }
    Some(out)
}
