//! Words on lines and columns of a terminal: what is wrapped, narrowed and filled up so that no line is wider than asked.

use super::super::markup::{printable, spans};
use super::super::model::{Align, ReportTable};
use super::{GAP, NARROWEST};

/// Number of leading columns that tell the rows apart: the fewest that do so as well as all leading
/// columns of words.
///
/// O(rows × log rows × columns²). Worked example: rows `a x 1`, `a y 1` and `b x 2` of which the first two columns are words have 2.
fn naming(grid: &[Vec<String>], words: impl Fn(usize) -> bool) -> usize {
    let leading = (0..).take_while(|column| words(*column)).count().max(1);
    let told_apart = |columns: usize| {
        grid.iter().map(|row| row.get(..columns).unwrap_or(row)).collect::<std::collections::BTreeSet<_>>().len()
    };
    let most = told_apart(leading);
    (1..leading).find(|columns| told_apart(*columns) == most).unwrap_or(leading)
}

/// Groups of columns that stand beside each other, with their widths; several groups if one line
/// cannot hold all.
pub(super) fn parts(
    names: &[String],
    grid: &[Vec<String>],
    table: &ReportTable,
    available: usize,
) -> Vec<Vec<(usize, usize)>> {
    let words = |c: usize| table.columns.get(c).is_some_and(|col| col.align == Align::Left);
    let widths = |heading: &dyn Fn(usize, &str) -> usize| -> Vec<usize> {
        let cells = |c: usize| grid.iter().filter_map(|row| row.get(c)).map(|t| width(t)).max().unwrap_or(0);
        names.iter().enumerate().map(|(c, name)| cells(c).max(heading(c, name)).min(available)).collect()
    };
    let mut natural = widths(&|_, name| width(name));
    // The headings of numbers wrap first: on two lines, then on as many as they have words.
    let longest = |name: &str| name.split(' ').map(width).max().unwrap_or(0);
    let halved = |name: &str| longest(name).max(width(name).div_ceil(2) + 2).min(width(name));
    for heading in [&halved as &dyn Fn(&str) -> usize, &longest] {
        if natural.iter().map(|w| w + GAP).sum::<usize>() > available + GAP {
            natural = widths(&|c, name| if words(c) { width(name) } else { heading(name) });
        }
    }
    let smallest = |g: &[(usize, usize)]| -> usize {
        g.iter().map(|(c, w)| if words(*c) { (*w).min(NARROWEST) } else { *w }).sum::<usize>()
            + GAP * g.len().saturating_sub(1)
    };
    // What names the row begins every group, if it leaves half of the width to the others.
    let first = |columns: usize| -> Vec<(usize, usize)> { natural.iter().copied().enumerate().take(columns).collect() };
    let named = || {
        let named = first(naming(grid, words));
        if 2 * smallest(&named) > available { first(1) } else { named }
    };
    let mut out: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut next = 0;
    while next < names.len() {
        let mut group = if next > 0 { named() } else { Vec::new() };
        let first_new = group.len();
        while next < names.len() {
            group.push((next, natural.get(next).copied().unwrap_or(0)));
            if smallest(&group) > available && group.len() > first_new + 1 {
                group.pop();
                break;
            }
            next += 1;
        }
        narrow(&mut group, available, words);
        out.push(group);
    }
    out
}

/// Narrows a group to the width: the widest column of words first, any other only when nothing else is left.
pub(super) fn narrow(group: &mut [(usize, usize)], available: usize, words: impl Fn(usize) -> bool) {
    let space = available.saturating_sub(GAP * group.len().saturating_sub(1));
    while group.iter().map(|(_, w)| w).sum::<usize>() > space {
        let widest = |g: &[(usize, usize)], only_words: bool| {
            (0..g.len())
                .filter(|&i| {
                    g.get(i).is_some_and(|(c, w)| if only_words { words(*c) && *w > NARROWEST } else { *w > 1 })
                })
                .max_by_key(|&i| (g.get(i).map(|(_, w)| *w), std::cmp::Reverse(i)))
        };
        let Some(entry) = widest(group, true).or_else(|| widest(group, false)).and_then(|i| group.get_mut(i)) else {
            break;
        };
        entry.1 -= 1;
    }
}

/// The text filled with spaces to `to` columns.
pub(super) fn pad(text: &str, to: usize, align: Option<Align>) -> String {
    let fill = " ".repeat(to.saturating_sub(width(text)));
    if align == Some(Align::Right) { fill + text } else { text.to_string() + &fill }
}

/// The text of a cell on lines of at most `to` columns.
pub(super) fn wrap(text: &str, to: usize) -> Vec<String> {
    if width(text) <= to {
        return vec![text.to_string()];
    }
    let words: Vec<Word> =
        text.split(' ').filter(|w| !w.is_empty()).map(|w| Word { text: w.to_string(), bold: false }).collect();
    let join = |line: &Vec<Word>| line.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" ");
    fill(&words, to.max(1)).iter().map(join).collect()
}

/// Terminal columns of a text.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Terminal columns of a character: two for East Asian wide ranges and emoji, none for combining marks.
pub(super) fn char_width(c: char) -> usize {
    match c {
        '\u{0300}'..='\u{036F}' | '\u{200B}'..='\u{200F}' | '\u{20D0}'..='\u{20FF}' | '\u{FE00}'..='\u{FE0F}' => 0,
        '\u{1100}'..='\u{115F}'
        | '\u{2E80}'..='\u{303E}'
        | '\u{3041}'..='\u{A4CF}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}'
        | '\u{FF00}'..='\u{FF60}'
        | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1FAFF}'
        | '\u{20000}'..='\u{3FFFD}' => 2,
        _ => 1,
    }
}

/// A word of a sentence.
pub(super) struct Word {
    pub(super) text: String,
    pub(super) bold: bool,
}

/// Words of a sentence with their weight. A weight that changes inside a word is that of its first part.
pub(super) fn words(sentence: &str) -> impl Iterator<Item = Word> {
    let mut out: Vec<Word> = Vec::new();
    let mut joined = false;
    for span in spans(sentence) {
        let text = printable(span.text);
        // A terminal shows code as it is typed in prose: between backticks.
        let text = if span.code { format!("`{text}`") } else { text };
        for (i, piece) in text.split(' ').enumerate() {
            match out.last_mut() {
                Some(last) if i == 0 && joined => last.text.push_str(piece),
                // A number and its sign stay on one line.
                Some(last) if piece.starts_with('%') => last.text.push_str(&format!(" {piece}")),
                _ if piece.is_empty() => {}
                _ => out.push(Word { text: piece.to_string(), bold: span.bold }),
            }
            joined = !piece.is_empty();
        }
    }
    out.into_iter()
}

/// Behind which characters a word is broken, if one of them stands behind the first quarter of what fits; the first list that has one counts.
const BREAKS: [&[char]; 2] = [&['/', ',', ':', ';'], &['=', '-', '_', '.', '+']];

/// The beginning of a word that is at most so wide: all of it, or up to where it is best broken.
fn beginning(word: &str, to: usize) -> &str {
    let mut taken = 0;
    let end = word.char_indices().find_map(|(at, c)| {
        taken += char_width(c);
        (taken > to && at > 0).then_some(at)
    });
    let Some(end) = end else { return word };
    let all = word.get(..end).unwrap_or(word);
    // What is left of the line would be too little.
    let behind = |marks: &[char]| all.rfind(marks).map(|at| at + 1).filter(|at| 4 * at >= all.len());
    let at = BREAKS.iter().find_map(|marks| behind(marks)).unwrap_or(end);
    word.get(..at).unwrap_or(all)
}

/// Lines of words no wider than `to`; a word that is wider alone is broken, where that can be behind a mark such as `/`.
pub(super) fn fill(words: &[Word], to: usize) -> Vec<Vec<Word>> {
    let mut lines: Vec<Vec<Word>> = Vec::new();
    let mut used = 0;
    for word in words {
        let mut rest = word.text.as_str();
        let mut is_broken = false;
        while !rest.is_empty() {
            let piece = beginning(rest, to);
            let taken = width(piece);
            rest = rest.get(piece.len()..).unwrap_or_default();
            let new = Word { text: piece.to_owned(), bold: word.bold };
            match lines.last_mut() {
                Some(line) if !is_broken && used + 1 + taken <= to => {
                    line.push(new);
                    used += 1 + taken;
                }
                _ => {
                    lines.push(vec![new]);
                    used = taken;
                }
            }
            is_broken = true;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    /// Long words are broken behind marks, so that `multifactor:age=` does not stand above
    /// `1000,size=500/ea`.
    #[test]
    fn long_words_are_broken_behind_marks() {
        let name = "multifactor:age=1000,size=500/easy/requested";
        assert_eq!(wrap(name, 16), ["multifactor:", "age=1000,", "size=500/easy/", "requested"]);
        assert_eq!(wrap("sjf/conservative/requested", 16), ["sjf/", "conservative/", "requested"]);
        // Words behind it go on where it ends; without a mark it is broken anywhere, and so where a mark would leave a line all but empty.
        assert_eq!(wrap("fewest-gpus/easy and more", 12), ["fewest-gpus/", "easy and", "more"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("a/bcdefghijklmnop", 10), ["a/bcdefghi", "jklmnop"]);
    }
}
