//! The little markup that sentences may carry (`**bold**` and `` `code` ``), and making foreign text safe for each output.
//!
//! Text from a trace (job names, users, queues) can hold anything: tags, pipes, terminal escapes. Each writer passes every
//! string through one function of this module. Control characters become U+FFFD everywhere, since they would make the SVG
//! ill-formed and let a job name steer the reader's terminal. Bidirectional overrides are replaced for the same reason.

/// A run of a sentence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span<'a> {
    /// The words.
    pub text: &'a str,
    /// Whether the words stood between `**`.
    pub bold: bool,
    /// Whether the words stood between backticks: a command, an option, a name.
    pub code: bool,
}

/// Splits a sentence at `**` and at backticks, the latter also within bold. An opening mark without its closing one is kept as text.
#[must_use]
pub fn spans(sentence: &str) -> Vec<Span<'_>> {
    let mut out = Vec::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once("**") {
        let Some((inside, tail)) = after.split_once("**") else {
            break;
        };
        codes(before, false, &mut out);
        codes(inside, true, &mut out);
        rest = tail;
    }
    codes(rest, false, &mut out);
    out
}

/// Splits a run at backticks.
fn codes<'a>(run: &'a str, bold: bool, out: &mut Vec<Span<'a>>) {
    let mut rest = run;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((inside, tail)) = after.split_once('`') else {
            break;
        };
        out.extend((!before.is_empty()).then_some(Span { text: before, bold, code: false }));
        out.extend((!inside.is_empty()).then_some(Span { text: inside, bold, code: true }));
        rest = tail;
    }
    out.extend((!rest.is_empty()).then_some(Span { text: rest, bold, code: false }));
}

/// Text from a trace for a cell of a CSV file: [`printable`], and not taken for a formula by a spreadsheet, which a text is that begins with one
/// of `= + - @` (or their wide forms): such a one gets a `'` before it.
#[must_use]
pub fn csv_text(text: &str) -> String {
    let text = printable(text);
    let first = text.trim_start().chars().next();
    let formula = matches!(first, Some('=' | '+' | '-' | '@' | '\u{FF1D}' | '\u{FF0B}' | '\u{FF0D}' | '\u{FF20}'));
    if formula { format!("'{text}") } else { text }
}

/// Text with control characters and bidirectional marks replaced; tab and line ends become a space.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => '\u{FFFD}',
            '\u{202A}'..='\u{202E}'
            | '\u{2066}'..='\u{2069}'
            | '\u{200E}'
            | '\u{200F}'
            | '\u{061C}'
            | '\u{FFFE}'
            | '\u{FFFF}' => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// Text safe inside HTML elements and quoted attributes.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A sentence as HTML: bold runs become `<strong>`, code `<code>`, all else is escaped.
#[must_use]
pub fn sentence_html(sentence: &str) -> String {
    let run = |span: Span<'_>| {
        let text = escape_html(span.text);
        // A number and its sign stay on one line; code is copied as it is.
        let text = if span.code { format!("<code>{text}</code>") } else { text.replace(" %", "\u{a0}%") };
        if span.bold { format!("<strong>{text}</strong>") } else { text }
    };
    spans(sentence).into_iter().map(run).collect()
}

/// Data as HTML: code is marked, for what a tool writes into a cell, and stars stay stars.
#[must_use]
pub fn data_html(text: &str) -> String {
    let mut runs = Vec::new();
    codes(text, false, &mut runs);
    let run = |span: Span<'_>| {
        let text = escape_html(span.text);
        if span.code { format!("<code>{text}</code>") } else { text }
    };
    runs.into_iter().map(run).collect()
}

/// Text safe inside a Markdown paragraph or table cell: characters that would start markup are escaped.
#[must_use]
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A sentence as Markdown: bold and code stay what they are, all else is escaped.
#[must_use]
pub fn sentence_markdown(sentence: &str) -> String {
    let run = |span: Span<'_>| {
        let text = if span.code { format!("`{}`", printable(span.text)) } else { escape_markdown(span.text) };
        if span.bold { format!("**{text}**") } else { text }
    };
    spans(sentence).into_iter().map(run).collect()
}

/// An identifier for links from any text: letters and digits in lower case, all else one `-`; `part` if nothing is left.
#[must_use]
pub fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let trimmed = out.trim_end_matches('-');
    if trimmed.is_empty() { "part".to_string() } else { trimmed.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bold_is_split_and_an_open_mark_is_text() {
        assert_eq!(
            spans("a **b** c"),
            [
                Span { text: "a ", ..Span::default() },
                Span { text: "b", bold: true, code: false },
                Span { text: " c", ..Span::default() }
            ]
        );
        assert_eq!(spans("2 ** 3"), [Span { text: "2 ** 3", ..Span::default() }]);
        assert!(spans("").is_empty());
    }

    #[test]
    fn code_is_marked_in_every_output() {
        assert_eq!(
            sentence_html("run `a <b>` or **`c`**"),
            "run <code>a &lt;b&gt;</code> or <strong><code>c</code></strong>"
        );
        assert_eq!(sentence_markdown("run `a_b` or a_b"), "run `a_b` or a\\_b");
        assert_eq!(data_html("`x` **y**"), "<code>x</code> **y**");
        assert_eq!(sentence_html("a ` alone"), "a ` alone");
    }

    #[test]
    fn hostile_names_lose_their_power() {
        assert_eq!(
            sentence_html("**<script>alert('x')</script>**"),
            "<strong>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;</strong>"
        );
        assert_eq!(escape_markdown("a|b*c\n<x>"), "a\\|b\\*c &lt;x&gt;");
        assert_eq!(printable("\u{1b}[31mred\u{7}\u{202e}"), "\u{FFFD}[31mred\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn slugs_hold_only_safe_characters() {
        assert_eq!(slug("Wait by VC / hour"), "wait-by-vc-hour");
        assert_eq!(slug("\"><script>"), "script");
        assert_eq!(slug("–"), "part");
    }

    #[test]
    fn a_cell_of_a_csv_file_is_no_formula_and_steers_no_terminal() {
        for (text, cell) in [
            ("=HYPERLINK(\"http://x\")", "'=HYPERLINK(\"http://x\")"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1", "' =1"),
            ("\t=1", "' =1"),
            ("\u{FF1D}1", "'\u{FF1D}1"),
            ("a=1", "a=1"),
            ("", ""),
            ("a\u{1b}[2Jb\u{202e}c\u{200f}d", "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d"),
        ] {
            assert_eq!(csv_text(text), cell);
        }
    }
}
