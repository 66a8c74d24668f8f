//! Columns of a `sacct` text: what separates them, and which part of a record belongs to which.
//!
//! `sacct` quotes nothing, so a separator within a job name, a comment or a command line makes a record longer than its
//! header. [`Columns::fields`] then anchors on the columns whose form is known (identifier, state, times, durations,
//! resources …) from both ends: of all ways to give each column at least one part, and more only to those whose text is
//! the user's, it takes one in which every known form fits, and of these the one that gives the surplus to the first of
//! [`FREE_TEXT`]. Where the separator is a comma, lists (`AllocTRES`, `NodeList`) hold it too.
//!
//! The separator is told by the header: what stands between two names, at whatever length (`|`, `|#`, `^|^`, `&`, `;`,
//! a tab). Complexity: O(parts) for a record of the header's length, else O(columns × parts).
//!
//! Worked example: columns `JobID|JobName|State|WorkDir` and the record `7|a|b|FAILED|/x|y`: six parts for four columns.
//! The state can only be the fourth part, so that the name is `a|b` and the folder `/x|y`.

use std::borrow::Cow;

use super::duration::SlurmDuration;
use super::job_id::JobId;
use crate::ingest::field;
use crate::schema::JobState;
use crate::time::parse_local;

/// Columns of exports without a header: before those of resources, and after them.
const HEADERLESS: (&str, &str) = (
    "jobid jobidraw cluster partition account group gid user uid submit eligible start end elapsed exitcode state nnodes ncpus \
     reqcpus reqmem",
    "timelimit nodelist jobname",
);

/// The orders of columns that Open XDMoD's manual has recommended for exports without a header.
fn headerless() -> [Vec<&'static str>; 3] {
    let (before, after) = HEADERLESS;
    let with = |resources: [&'static str; 2]| before.split(' ').chain(resources).chain(after.split(' ')).collect();
    let newer: Vec<&str> = with(["reqtres", "alloctres"]);
    let mut newest = newer.clone();
    newest.insert(4, "qos");
    [newest, newer, with(["reqgres", "reqtres"])]
}

/// Columns whose text is the user's or the site's, and may hold anything. The first of them gets the surplus of a
/// record where several could.
const FREE_TEXT: [&str; 16] = [
    "jobname",
    "comment",
    "admincomment",
    "constraints",
    "submitline",
    "workdir",
    "systemcomment",
    "extra",
    "stdout",
    "stderr",
    "stdin",
    "container",
    "wckey",
    "licenses",
    "reservation",
    "reason",
];
/// Free text that is the path of a file or folder.
const PATHS: [&str; 4] = ["workdir", "stdout", "stderr", "stdin"];

/// Parts beyond the number of columns that a record may have: more are no record.
const MOST_SURPLUS: usize = 4_096;
/// Cost of a text that is odd for its column.
const ODD: u32 = 1_000;
/// No way.
const NO: u32 = u32::MAX;

/// The form of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Id,
    Time,
    State,
    Duration,
    Number,
    ExitCode,
    Tres,
    Nodes,
    /// Free text, by its place in [`FREE_TEXT`]; whether it is a path.
    Free(u32, bool),
    /// Names; a job that waits may name several.
    Names,
    /// One part of any form.
    Word,
}

impl Form {
    fn of(name: &str) -> Self {
        if let Some(rank) = FREE_TEXT.iter().position(|free| *free == name) {
            return Self::Free(rank as u32, PATHS.contains(&name));
        }
        match name {
            "jobid" | "jobidraw" => Self::Id,
            "submit" | "eligible" | "start" | "end" => Self::Time,
            "state" => Self::State,
            "elapsed" | "timelimit" | "planned" | "reserved" | "suspended" | "cputime" | "totalcpu" | "usercpu"
            | "systemcpu" | "plannedcpu" => Self::Duration,
            "elapsedraw" | "timelimitraw" | "cputimeraw" | "nnodes" | "ncpus" | "alloccpus" | "allocnodes"
            | "reqcpus" | "reqnodes" | "ntasks" | "uid" | "gid" | "priority" | "dbindex" | "restarts" => Self::Number,
            "exitcode" | "derivedexitcode" => Self::ExitCode,
            "nodelist" => Self::Nodes,
            "partition" => Self::Names,
            _ if name.ends_with("tres") || name.starts_with("tresusage") => Self::Tres,
            _ => Self::Word,
        }
    }

    /// Whether a text has the form, as far as the form is known.
    fn fits(self, text: &str) -> bool {
        let text = text.trim();
        match self {
            Self::Free(..) => true,
            _ if text.contains('\n') => false,
            Self::Names | Self::Word => true,
            Self::Id => JobId::parse(text).is_some(),
            Self::State => text.split(',').any(|word| JobState::parse(word).is_some()),
            Self::Time => looks_like_time(text),
            _ if field::is_null(text) => true,
            Self::Duration => SlurmDuration::parse(text).is_some(),
            // With the units that `--noconvert` leaves out; `Partition_Limit` and its like are words.
            Self::Number => {
                text.starts_with(|c: char| c.is_ascii_digit())
                    || text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            }
            Self::ExitCode => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':'),
            Self::Tres => text.contains('=') || text.ends_with('+'),
            Self::Nodes => text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[],+".contains(&byte)),
        }
    }

    /// Cost of giving a column several parts; `None` if it takes one. Lists hold the separator if
    /// it is a comma.
    fn price(self, comma: bool) -> Option<u32> {
        match self {
            Self::Free(rank, _) => Some(10 + rank),
            Self::Tres | Self::Nodes | Self::Id if comma => Some(1),
            Self::Names if comma => Some(50),
            _ => None,
        }
    }

    /// Whether a further part can belong to a value of this form.
    fn goes_on(self, text: &str) -> bool {
        match self {
            // The tasks of a waiting array: `7_[1,3-5%2]`.
            Self::Id => text.bytes().all(|byte| byte.is_ascii_digit() || b"-%:].".contains(&byte)),
            // Names of nodes are numbered, and so is what stands in brackets.
            Self::Nodes => self.fits(text) && text.bytes().any(|byte| byte.is_ascii_digit()),
            _ => self.fits(text),
        }
    }

    /// Cost of beginning a value of this form with `text`.
    fn cost(self, text: &str) -> u32 {
        match self {
            Self::Free(_, true) if !(text.starts_with('/') || field::is_null(text)) => ODD,
            // A bracket that is closed and was not opened ends a list of nodes.
            Self::Names | Self::Free(..) if text.split('[').next().is_some_and(|text| text.contains(']')) => ODD,
            Self::Names | Self::Word if text.trim().contains(char::is_whitespace) => ODD,
            _ => 0,
        }
    }
}

/// Whether a text could stand in a time column.
fn looks_like_time(text: &str) -> bool {
    let text = text.trim();
    field::is_null(text)
        || (text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit()))
        || text.get(..19).is_some_and(|time| parse_local(time).is_some())
}

/// The columns of a file.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    forms: Vec<Form>,
    separator: String,
    /// `-p`: each record ends in a separator that is no part of its last field.
    trailing: bool,
    /// Columns that repeat another's name: that one, and they.
    repeated: Vec<(usize, usize)>,
}

impl Columns {
    /// The columns that a header line names: lower case, without widths (`JobID%20`). `None` if the line is no header.
    pub(super) fn of_header(line: &str) -> Option<Self> {
        let line = line.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name =
            |text: &str| text.split('%').next().unwrap_or_default().trim().trim_matches('"').to_ascii_lowercase();
        let first = line.trim_start_matches('"').find(|c: char| !is_name(c))?;
        let rest = line.trim_start_matches('"').get(first..)?.trim_start_matches('"');
        // A width belongs to the name before it.
        let width = rest
            .strip_prefix('%')
            .map_or(0, |rest| 1 + rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count());
        let rest = rest.get(width..)?;
        let until = rest.find(|c: char| is_name(c) || c == '"').unwrap_or(rest.len());
        let separator = rest.get(..until)?.trim_matches(' ');
        if separator.is_empty() || !line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '"') {
            return None;
        }
        let mut names: Vec<String> = line.split(separator).map(name).collect();
        let trailing = names.len() > 1 && names.last().is_some_and(String::is_empty);
        if trailing {
            names.pop();
        }
        let plain = |name: &String| !name.is_empty() && name.chars().all(is_name);
        (names.len() > 1 && names.iter().all(plain)).then(|| Self::new(names, separator, trailing))
    }

    /// The columns of a file without a header whose first line is `line`; `None` if it is no record.
    pub(super) fn of_headerless(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split('|').collect();
        let names = headerless().into_iter().find(|names| {
            // What the two orders of 25 differ in: `gpu:2` or nothing stands where the other has resources.
            let is_tres = |name: &str, part: &str| name != "reqtres" || names.len() > 25 || part.contains('=');
            parts.len() >= names.len()
                && names.iter().zip(&parts).all(|(name, part)| {
                    let form = Form::of(name);
                    (matches!(form, Form::State | Form::Nodes) || form.fits(part)) && is_tres(name, part)
                })
        })?;
        // Only -p gives one field more, and that empty; a job name seldom ends in a bar.
        let trailing = line.ends_with('|') && parts.len() == names.len() + 1;
        Some(Self::new(names.iter().map(|name| (*name).to_owned()).collect(), "|", trailing))
    }

    fn new(names: Vec<String>, separator: &str, trailing: bool) -> Self {
        let at = |name: &str| names.iter().position(|have| have == name);
        let repeated = (0..names.len())
            .filter_map(|again| {
                let first = at(names.get(again)?)?;
                (first < again).then_some((first, again))
            })
            .collect();
        let forms = names.iter().map(|name| Form::of(name)).collect();
        Self { names, forms, separator: separator.to_owned(), trailing, repeated }
    }

    /// Position of the column `name`.
    pub(super) fn at(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|have| have == name)
    }

    /// All names, in order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Separator of the columns.
    pub(super) fn separator(&self) -> &str {
        &self.separator
    }

    /// Columns that repeat the name of another: that one, and they.
    pub(super) fn repeated(&self) -> &[(usize, usize)] {
        &self.repeated
    }

    /// Whether a line is the first of a record, and not a continuation of a text with a line break in it: it has as many
    /// parts as there are columns, or it can be parted into the first of them, the identifier among them: then the record was
    /// broken in a text, or cut.
    pub(super) fn begins_record(&self, line: &str) -> bool {
        let parts: Vec<&str> = line.split(&*self.separator).collect();
        if parts.len() >= self.names.len() {
            return true;
        }
        let Some(id) = self.forms.iter().position(|form| *form == Form::Id) else { return false };
        let is_text = |form: &Form| matches!(form, Form::Free(..));
        if !self.forms.iter().skip(id).any(is_text) {
            // No record is broken behind its identifier: a line that has one is a record that was cut.
            return parts.get(id).is_some_and(|part| Form::Id.fits(part));
        }
        let mut costs = vec![NO; parts.len()];
        costs.iter_mut().take(1).for_each(|first| *first = 0);
        for (column, form) in self.forms.iter().enumerate().take(parts.len()) {
            costs = self.step(*form, column, &parts, &costs).0;
            let all = parts.len() - 1 - column;
            // A number alone is more likely to be one of a script than a record that was cut behind its identifier.
            if column >= id && parts.len() > 1 && costs.get(all).is_some_and(|cost| *cost != NO) {
                return true;
            }
        }
        false
    }

    /// The fields of a record, one a column; `None` if no way to part it makes sense.
    pub(super) fn fields<'l>(&self, record: &'l str) -> Option<Vec<Cow<'l, str>>> {
        let separator = &*self.separator;
        let record = if self.trailing { record.strip_suffix(separator).unwrap_or(record) } else { record };
        let parts: Vec<&str> = record.split(separator).collect();
        let surplus = parts.len().checked_sub(self.names.len())?;
        let borrowed = |parts: Vec<&'l str>| parts.into_iter().map(Cow::Borrowed).collect();
        if surplus == 0 && self.fit(parts.iter().copied()) {
            return Some(borrowed(parts));
        }
        if let Some(quoted) = self.quoted(record) {
            return Some(quoted);
        }
        let result = (surplus <= MOST_SURPLUS).then(|| self.align(record, &parts, surplus)).flatten();
        result.or_else(|| (surplus == 0 && !record.contains('\n')).then_some(parts)).map(borrowed)
    }

    /// Whether each of as many fields as there are columns has the form of its column.
    fn fit<'f>(&self, fields: impl Iterator<Item = &'f str>) -> bool {
        self.forms.iter().zip(fields).all(|(form, field)| form.fits(field))
    }

    /// The fields of a record that a spreadsheet has quoted.
    fn quoted<'l>(&self, record: &str) -> Option<Vec<Cow<'l, str>>> {
        let [separator @ (b',' | b';' | b'\t')] = self.separator.as_bytes() else { return None };
        if !record.contains('"') {
            return None;
        }
        let mut reader =
            csv::ReaderBuilder::new().delimiter(*separator).has_headers(false).from_reader(record.as_bytes());
        let row = reader.records().next()?.ok()?;
        let whole = row.len() == self.names.len() && self.fit(row.iter()) && reader.records().next().is_none();
        whole.then(|| row.iter().map(|field| Cow::Owned(field.to_owned())).collect())
    }

    /// The cheapest way to part `parts` into the columns.
    fn align<'l>(&self, record: &'l str, parts: &[&'l str], surplus: usize) -> Option<Vec<&'l str>> {
        let mut costs = vec![NO; surplus + 1];
        *costs.first_mut()? = 0;
        let mut taken: Vec<Vec<u16>> = Vec::with_capacity(self.forms.len());
        for (column, form) in self.forms.iter().enumerate() {
            let (next, extra) = self.step(*form, column, parts, &costs);
            taken.push(extra);
            costs = next;
        }
        if costs.last() == Some(&NO) {
            return None;
        }
        // Backwards: which parts each column has taken.
        let offsets: Vec<usize> = parts
            .iter()
            .scan(0, |at, part| {
                let start = *at;
                *at += part.len() + self.separator.len();
                Some(start)
            })
            .collect();
        let mut fields = vec![""; self.forms.len()];
        let mut used = surplus;
        for (column, slot) in fields.iter_mut().enumerate().rev() {
            let extra = usize::from(*taken.get(column)?.get(used)?);
            let (first, last) = (column + used - extra, column + used);
            let end = offsets.get(last)? + parts.get(last)?.len();
            *slot = record.get(*offsets.get(first)?..end)?;
            used -= extra;
        }
        Some(fields)
    }

    /// Costs of parting the first of `parts` into the columns up to this one, by the number of
    /// surplus parts taken, from the costs up to the one before; and the number that this column
    /// takes of them.
    fn step(&self, form: Form, column: usize, parts: &[&str], costs: &[u32]) -> (Vec<u32>, Vec<u16>) {
        let price = form.price(self.separator.trim() == ",");
        let mut next = vec![NO; costs.len()];
        let mut extra = vec![0_u16; costs.len()];
        // The cheapest way to have begun this column at an earlier part, and the surplus taken by then.
        let mut open: Option<(u32, usize)> = None;
        for (used, (slot, extra)) in next.iter_mut().zip(&mut extra).enumerate() {
            let Some(part) = parts.get(column + used).copied() else { break };
            if let (Some(price), Some((cost, from))) = (price, open) {
                if form.goes_on(part) {
                    *slot = cost.saturating_add(price);
                    *extra = u16::try_from(used - from).unwrap_or(u16::MAX);
                } else {
                    open = None;
                }
            }
            let before = costs.get(used).copied().unwrap_or(NO);
            let begins = form.fits(part) || (price.is_some() && form == Form::Id && part.contains("_["));
            if before != NO && begins {
                let cost = before.saturating_add(form.cost(part));
                if cost < *slot {
                    *slot = cost;
                    *extra = 0;
                }
                if open.is_none_or(|(least, _)| cost < least) {
                    open = Some((cost, used));
                }
            }
        }
        (next, extra)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parted(header: &str, record: &str) -> Option<Vec<String>> {
        let fields = Columns::of_header(header).unwrap().fields(record)?;
        Some(fields.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn widths_case_and_the_last_bar_of_a_header_are_dropped() {
        let columns = Columns::of_header("JobID%30|STATE|JobName%-20|").unwrap();
        assert_eq!((columns.names.join(" ").as_str(), columns.trailing), ("jobid state jobname", true));
    }

    #[test]
    fn the_header_tells_what_separates_its_names() {
        for separator in ["|", "|#", "^|^", "&", ";", "\t", ",", "||", "::", "~", "§", "\u{1f}", " | "] {
            let columns = Columns::of_header(&["JobID%9", "State", "Submit"].join(separator)).unwrap();
            assert_eq!((columns.separator(), columns.names.len()), (separator.trim_matches(' '), 3), "{separator}");
            let record = ["7", "FAILED", "2024-01-01T00:00:00"].join(separator);
            let fields = columns.fields(&record).unwrap();
            assert_eq!(
                fields.iter().map(|field| field.trim()).collect::<Vec<_>>(),
                record.split(separator).collect::<Vec<_>>()
            );
        }
        for line in ["JobID", "JobID State", "|JobID|State|", "", "7|FAILED", "v=0.1.0,JobID=7", "# JobID|State"] {
            assert!(Columns::of_header(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_bar_in_a_name_is_given_back_to_the_name_wherever_it_stands() {
        assert_eq!(
            parted("JobID|JobName|State|Submit", "1|a|b|c|COMPLETED|2024-01-01T00:00:00").unwrap(),
            ["1", "a|b|c", "COMPLETED", "2024-01-01T00:00:00"]
        );
        // Constraints hold bars too; the name cannot take this one, as the state would then be `r2]`.
        let header = "JobID|Constraints|State|JobName";
        assert_eq!(parted(header, "1|[r1|r2]|FAILED|x").unwrap(), ["1", "[r1|r2]", "FAILED", "x"]);
        assert_eq!(parted(header, "1|x|BANANA|x|y|z"), None);
        assert_eq!(parted(header, "1|x"), None);
    }

    #[test]
    fn columns_of_a_known_form_anchor_those_on_both_sides() {
        // The worked example of the module.
        assert_eq!(parted("JobID|JobName|State|WorkDir", "7|a|b|FAILED|/x|y").unwrap(), ["7", "a|b", "FAILED", "/x|y"]);
        let header = "JobID|Account|JobName|NodeList|Partition|State|Elapsed|AllocTRES|User|WorkDir";
        let record = "7|lab|a b|c|n[1,3]|gpu|FAILED|00:01:00|cpu=1,gres/gpu=4|ana|/x|y|z";
        let expected =
            ["7", "lab", "a b|c", "n[1,3]", "gpu", "FAILED", "00:01:00", "cpu=1,gres/gpu=4", "ana", "/x|y|z"];
        assert_eq!(parted(header, record).unwrap(), expected);
        // A text that looks like the next column does not lead astray: the state is the one before the time.
        let header = "JobID|Comment|State|Start|JobName";
        let record = "7|FAILED|COMPLETED|2024-01-01T00:00:00|x|y";
        assert_eq!(parted(header, record).unwrap(), ["7", "FAILED", "COMPLETED", "2024-01-01T00:00:00", "x|y"]);
        let record = "7|a|FAILED|COMPLETED|2024-01-01T00:00:00|x";
        assert_eq!(parted(header, record).unwrap(), ["7", "a|FAILED", "COMPLETED", "2024-01-01T00:00:00", "x"]);
    }

    #[test]
    fn lists_hold_the_separator_where_it_is_a_comma() {
        let header = "JobID,State,AllocTRES,NodeList,JobName";
        let fields = parted(header, "7_[1,3],FAILED,cpu=1,gres/gpu=4,node=2,n[1,3-4],a,b").unwrap();
        assert_eq!(fields, ["7_[1,3]", "FAILED", "cpu=1,gres/gpu=4,node=2", "n[1,3-4]", "a,b"]);
        let fields = parted(header, "7,FAILED,\"cpu=1,gres/gpu=4\",n1,\"a, \"\"b\"\"\"").unwrap();
        assert_eq!(fields, ["7", "FAILED", "cpu=1,gres/gpu=4", "n1", "a, \"b\""]);
    }

    /// The last bar of a line of `-p` is not counted among those of the name, as it once was.
    #[test]
    fn the_last_bar_of_a_line_is_not_the_names() {
        assert_eq!(parted("JobName|JobID|State|", "a|b|c|7|FAILED|").unwrap(), ["a|b|c", "7", "FAILED"]);
        assert_eq!(parted("JobName|JobID|State|", "a|7|FAILED|").unwrap(), ["a", "7", "FAILED"]);
        assert_eq!(parted("JobID|State|JobName|", "7|FAILED|a|b||").unwrap(), ["7", "FAILED", "a|b|"]);
    }

    #[test]
    fn a_continuation_begins_no_record() {
        let columns = Columns::of_header("JobID|JobName|State|Start|SubmitLine").unwrap();
        for line in ["7|a", "7.batch|batch|FAILED", "x|a|FAILED|2024-01-01T00:00:00|y"] {
            assert!(columns.begins_record(line), "{line}");
        }
        for line in ["", " tee out &&", "7", "a | b | c", "echo 7|sort", "#SBATCH --gres=gpu:1"] {
            assert!(!columns.begins_record(line), "{line}");
        }
        // Of all fields, in Slurm's order, some texts precede the identifier.
        let columns =
            Columns::of_header("Account|AdminComment|AllocTRES|End|JobID|JobName|State|SubmitLine|WorkDir").unwrap();
        for line in ["a||cpu=1|Unknown|7|x|FAILED|sbatch <<E", "a|b|c|cpu=1|Unknown|7|x|FAILED|sbatch | b"] {
            assert!(columns.begins_record(line), "{line}");
        }
        for line in ["a|b|c", "E|/home/a", "a||cpu=1|Unknown", "a||cpu=1|Unknown|x|7|FAILED"] {
            assert!(!columns.begins_record(line), "{line}");
        }
        // Without free text no record goes on in another line.
        let columns = Columns::of_header("JobID|State|Start").unwrap();
        assert!(columns.begins_record("7") && columns.begins_record("7|x") && !columns.begins_record("x"));
    }

    #[test]
    fn a_record_of_bars_alone_takes_no_time() {
        let bars = "|".repeat(5_000_000);
        assert_eq!(parted("JobID|JobName|State|Comment", &bars), None);
    }

    proptest! {
        #[test]
        fn no_record_panics(record in "[0-9a-z|,;=\\[\\]\"\né]{0,60}", comma in any::<bool>()) {
            let header = "JobName,JobID,State,AllocTRES,NodeList,Comment";
            let header = if comma { header.to_owned() } else { header.replace(',', "|") };
            let columns = Columns::of_header(&header).unwrap();
            let _ = columns.begins_record(&record);
            if let Some(fields) = columns.fields(&record) {
                prop_assert_eq!(fields.len(), 6);
            }
        }
    }
}
