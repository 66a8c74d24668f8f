//! A line of the log cut into fields, and the fields of a `JOB_FINISH` record in their order.

use std::borrow::Cow;

/// One field.
#[derive(Debug, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) quoted: bool,
}

/// The fields of a line; `None` if a quote is open or two fields are not separated.
pub(super) fn fields(line: &str) -> Option<Vec<Field<'_>>> {
    let mut result = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('"') {
            let (mut at, mut doubled) = (0, false);
            let end = loop {
                let quote = at + inside.get(at..)?.find('"')?;
                if !inside.get(quote + 1..)?.starts_with('"') {
                    break quote;
                }
                doubled = true;
                at = quote + 2;
            };
            let text = inside.get(..end)?;
            let text = if doubled { Cow::Owned(text.replace("\"\"", "\"")) } else { Cow::Borrowed(text) };
            result.push(Field { text, quoted: true });
            rest = inside.get(end + 1..)?;
            if !rest.is_empty() && !rest.starts_with(' ') {
                return None;
            }
        } else {
            let (text, after) = rest.split_once(' ').unwrap_or((rest, ""));
            result.push(Field { text: Cow::Borrowed(text), quoted: false });
            rest = after;
        }
        rest = rest.trim_start_matches(' ');
    }
    Some(result)
}

/// Fields one after the other.
#[derive(Debug, Clone, Copy)]
struct Cursor<'f>(&'f [Field<'f>]);

impl<'f> Cursor<'f> {
    fn any(&mut self) -> Option<&'f str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(&first.text)
    }

    /// A string, which stands in quotes.
    fn string(&mut self) -> Option<&'f str> {
        self.0.first().filter(|field| field.quoted)?;
        self.any()
    }

    /// A number, which does not.
    fn number(&mut self) -> Option<&'f str> {
        self.0.first().filter(|field| !field.quoted && field.text.parse::<f64>().is_ok())?;
        self.any()
    }

    fn strings<const N: usize>(&mut self) -> Option<[&'f str; N]> {
        let mut result = [""; N];
        for slot in &mut result {
            *slot = self.string()?;
        }
        Some(result)
    }

    fn numbers<const N: usize>(&mut self) -> Option<[&'f str; N]> {
        let mut result = [""; N];
        for slot in &mut result {
            *slot = self.number()?;
        }
        Some(result)
    }

    /// A number of strings, and these.
    fn list(&mut self) -> Option<Vec<&'f str>> {
        let count = self.count()?;
        (0..count).map(|_| self.string()).collect()
    }

    /// Reads a count of items that follow; `None` if there are not so many fields.
    fn count(&mut self) -> Option<usize> {
        let count = self.number()?.parse().ok()?;
        (count <= self.0.len()).then_some(count)
    }
}

/// A `JOB_FINISH` record, its numbers still as text.
#[derive(Debug, Default)]
pub(super) struct Finish<'f> {
    pub(super) end: &'f str,
    pub(super) job: &'f str,
    pub(super) processors: &'f str,
    pub(super) submit: &'f str,
    pub(super) begin: &'f str,
    pub(super) start: &'f str,
    pub(super) user: &'f str,
    pub(super) queue: &'f str,
    pub(super) requirement: &'f str,
    pub(super) dependency: &'f str,
    pub(super) hosts: Vec<&'f str>,
    pub(super) status: &'f str,
    pub(super) name: &'f str,
    pub(super) command: &'f str,
    pub(super) project: &'f str,
    pub(super) exit_status: &'f str,
    pub(super) index: &'f str,
    pub(super) service_class: &'f str,
    pub(super) exit_info: Option<&'f str>,
    /// Values of the submission's pairs.
    pub(super) pairs: Vec<&'f str>,
    pub(super) tail: Option<Tail<'f>>,
    /// Whether there were fields that were not read, or that follow the pairs.
    pub(super) has_tail: bool,
}

/// Fields behind the pairs of the submission.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tail<'f> {
    pub(super) run_limit: &'f str,
    pub(super) requirement: &'f str,
    pub(super) run_s: Option<&'f str>,
}

impl<'f> Finish<'f> {
    pub(super) fn read(fields: &'f [Field<'f>]) -> Option<Self> {
        let mut cursor = Cursor(fields);
        let c = &mut cursor;
        let [_, _] = c.strings()?;
        let [end, job, _, _, processors, submit, begin, _, start] = c.numbers()?;
        let [user, queue, requirement, dependency, ..] = c.strings::<11>()?;
        let _asked = c.list()?;
        let hosts = c.list()?;
        let [status, _] = c.numbers()?;
        let [name, command] = c.strings()?;
        c.numbers::<19>()?;
        let [_, project] = c.strings()?;
        let [exit_status, _] = c.numbers()?;
        let [_, _] = c.strings()?;
        let index = c.number()?;
        let mut finish = Self {
            end,
            job,
            processors,
            submit,
            begin,
            start,
            user,
            queue,
            requirement,
            dependency,
            hosts,
            status,
            name,
            command,
            project,
            exit_status,
            index,
            ..Self::default()
        };
        // Older versions end somewhere from here on.
        if finish.rest(&mut cursor).is_none() {
            finish.has_tail = !cursor.0.is_empty();
        }
        Some(finish)
    }

    fn rest(&mut self, c: &mut Cursor<'f>) -> Option<()> {
        c.numbers::<2>()?;
        [_, _, _, self.service_class] = c.strings()?;
        c.number()?;
        c.string()?;
        self.exit_info = Some(c.number()?);
        c.string()?;
        c.number()?;
        c.strings::<4>()?;
        c.number()?;
        c.strings::<2>()?;
        c.number()?;
        c.string()?;
        c.number()?;
        c.strings::<2>()?;
        for _ in 0..c.count()? {
            c.any()?;
            self.pairs.push(c.any()?);
        }
        self.has_tail = !c.0.is_empty();
        let hosts = c.count()?;
        // Since 9.1 the usage of a host ends in pairs of its own.
        self.tail = [true, false].into_iter().find_map(|pairs| Tail::read(*c, hosts, pairs));
        Some(())
    }
}

impl<'f> Tail<'f> {
    fn read(mut c: Cursor<'f>, hosts: usize, pairs: bool) -> Option<Self> {
        for _ in 0..hosts {
            c.any()?;
            c.numbers::<4>()?;
            let count = if pairs { c.count()? } else { 0 };
            for _ in 0..2 * count {
                c.any()?;
            }
        }
        let [run_limit, _, _] = c.numbers()?;
        let requirement = c.string()?;
        let run_s = (|| {
            c.string()?;
            c.number()?;
            c.string()?;
            c.numbers::<2>()?;
            c.string()?;
            c.numbers::<2>()?;
            c.string()?;
            c.number()
        })();
        Some(Self { run_limit, requirement, run_s })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quotes_within_are_doubled_and_fields_are_separated() {
        let texts = |line: &str| -> Option<Vec<String>> {
            Some(fields(line)?.into_iter().map(|field| field.text.into_owned()).collect())
        };
        assert_eq!(
            texts("\"A\" \"\" 5 \"say \"\"hi\"\"\" \"\"\"x\"\"\""),
            Some(["A", "", "5", "say \"hi\"", "\"x\""].map(str::to_owned).to_vec())
        );
        assert_eq!(texts("\"open 5"), None);
        assert_eq!(texts("\"a\"\"b\" 1").unwrap(), ["a\"b", "1"]);
        assert_eq!(texts("\"a\"b 1"), None);
        assert_eq!(texts(""), Some(Vec::new()));
    }
}
