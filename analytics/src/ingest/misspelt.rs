//! Names of columns that are written a little otherwise than they are read, and the format that a table comes nearest to.
//!
//! A column is meant for another if it begins as that does, or is at most two letters away from it, in letters and digits alone.
//!
//! O(names × columns × length²). Worked example: of `submit_tyme,user` the column `submit_tyme` is meant for `submit_time`.

use super::READERS;
use super::source::Head;

/// A column that is hardly any but one of `optional` in other letters, such as `dead_line` or `deadline_h` for `deadline`, and which: other columns are passed over, and so would this be.
pub fn misspelt<'c, 'o>(
    columns: &(impl Iterator<Item = &'c str> + Clone),
    optional: &[&'o str],
) -> Option<(&'c str, &'o str)> {
    let plain = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let is_there = |name: &str| columns.clone().any(|column| column.eq_ignore_ascii_case(name));
    let missing = || optional.iter().filter(|name| !is_there(name));
    let mut others = columns.clone().filter(|column| !optional.iter().any(|name| column.eq_ignore_ascii_case(name)));
    others.find_map(|column| {
        let written = plain(column);
        let is_meant = |name: &&&str| {
            let read = plain(name);
            let begins = written.starts_with(&read) || (written.len() >= 6 && read.starts_with(&written));
            begins || (read.len() >= 6 && strsim::damerau_levenshtein(&written, &read) <= 2)
        };
        missing().find(is_meant).map(|name| (column, *name))
    })
}

/// Words on the columns that a table shares with the format that it comes nearest to; `None` where
/// no format has half of its columns there.
pub(super) fn nearest(head: &Head) -> Option<String> {
    let tables = READERS
        .iter()
        .flat_map(|reader| reader.columns().iter().map(|(separator, needed)| (reader.id(), *separator, *needed)));
    let near = tables.filter_map(|(id, separator, needed)| {
        let header = head.columns(separator);
        let missing: Vec<&str> =
            needed.iter().copied().filter(|name| !header.iter().any(|have| have == name)).collect();
        (missing.len() * 2 <= needed.len()).then_some((id, separator, needed, header, missing))
    });
    // The first of those that lack the same share.
    let (id, _, needed, header, missing) = near.min_by(|one, other| {
        let share = |missing: &[&str], needed: &[&str]| missing.len() as f64 / needed.len() as f64;
        share(&one.4, one.2).total_cmp(&share(&other.4, other.2))
    })?;
    let first = match misspelt(&header.iter().map(String::as_str), needed) {
        Some((column, name)) => format!(" (`{column}` may be meant for `{name}`)"),
        None => String::new(),
    };
    let all = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let columns = if missing.len() == 1 { "column" } else { "columns" };
    Some(format!("it comes nearest to `{id}`, and lacks the {columns} {all}{first}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_column_in_other_letters_is_found() {
        let told = |columns: &[&'static str]| misspelt(&columns.iter().copied(), &["deadline", "user"]);
        for column in ["dead_line", "Deadlin", "deadline_h", "deadline (s)"] {
            assert_eq!(told(&["job", column]), Some((column, "deadline")));
        }
        for columns in [&["job", "deadline"][..], &["deadline", "deadline_h"], &["note", "gpus"], &["uses"]] {
            assert_eq!(told(columns), None, "{columns:?}");
        }
    }

    #[test]
    fn what_a_table_lacks_of_the_nearest_format_is_told() {
        let told = |line: &str| nearest(&Head { name: String::new(), text: format!("{line}\n"), more: false });
        assert_eq!(
            told("job_id,user,vc,gpu_num,node_num,state,submit_tyme,start_time").unwrap(),
            "it comes nearest to `helios`, and lacks the column `submit_time` (`submit_tyme` may be meant for `submit_time`)"
        );
        assert_eq!(
            told("JobID|Submitt|Start|End|User").unwrap(),
            "it comes nearest to `sacct`, and lacks the columns `submit`, `state` (`submitt` may be meant for `submit`)"
        );
        for other in ["", "a,b,c", "time,user", "{\"jobs\": []}"] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
