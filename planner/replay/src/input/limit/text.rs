//! The forms a file of limits may have: TOML, the tables of `sacctmgr show qos -P` and `sacctmgr show assoc tree -P`, and the `key=value` of `scontrol show partition`, `scontrol show config` and `slurm.conf`.
//!
//! Worked example: a first line `Name|Priority|GrpTRES` makes the lines that follow QOSs, until one that begins with `PartitionName=` or one such as `Cluster|Account|User|GrpTRES`, which makes those that follow associations.

use toml::de::{DeTable, DeValue};

use super::{Entry, Item, Written};
use crate::error::{Error, Result, line_of};

/// Keys of `slurm.conf` that say something of limits, and the QOS of jobs that name none, in small letters.
const CONFIGURED: [&str; 8] = [
    "accountingstorageenforce",
    "defaultaccount",
    "defaultqos",
    "enforcepartlimits",
    "preemptmode",
    "preemptexempttime",
    "preempttype",
    "schedulerparameters",
];

/// Which table rows belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Qos,
    Associations,
}

/// The table whose first line has these cells, if it is one.
fn head(cells: &[&str]) -> Option<Kind> {
    let has = |name: &str| cells.contains(&name);
    match cells.len() {
        0 | 1 => None,
        _ if has("Account") && (has("User") || has("ParentName") || has("Par Name")) => Some(Kind::Associations),
        _ => has("Name").then_some(Kind::Qos),
    }
}

/// Reads a text of any of the forms.
pub(super) fn read(file: &str, text: &str) -> Result<Written> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let cells: Vec<&str> = first.split('|').map(str::trim).collect();
    if first.starts_with("PartitionName=") || head(&cells).is_some() {
        return printed(file, text);
    }
    let parsed = DeTable::parse(text).map_err(|error| Error::toml(file, text, &error))?;
    let mut written = Written { strict: true, ..Written::default() };
    let wrong = |at: usize, what: String| Error::File { file: file.to_owned(), line: line_of(text, at), what };
    for (key, value) in parsed.get_ref() {
        let (name, at) = (key.get_ref().to_string(), key.span().start);
        let list = match name.to_ascii_lowercase().as_str() {
            "qos" => &mut written.qos,
            "partition" => &mut written.partitions,
            "account" => &mut written.accounts,
            "association" => &mut written.associations,
            _ => {
                let value = scalar(value.get_ref()).ok_or_else(|| wrong(at, format!("{name} is no text or number")))?;
                written.globals.push(Item { line: line_of(text, at), key: name, value });
                continue;
            }
        };
        let tables = value.get_ref().as_array().ok_or_else(|| wrong(at, format!("write [[{name}]]")))?;
        for table in tables {
            let begins = table.span().start;
            let content = table.get_ref().as_table().ok_or_else(|| wrong(begins, format!("write [[{name}]]")))?;
            let mut entry = Entry { line: line_of(text, begins), ..Entry::default() };
            for (key, value) in content {
                let (name, at) = (key.get_ref().to_string(), key.span().start);
                let value = scalar(value.get_ref()).ok_or_else(|| wrong(at, format!("{name} is no text or number")))?;
                entry.items.push(Item { line: line_of(text, at), key: name, value });
            }
            // As written: a table does not keep the order.
            entry.items.sort_by_key(|item| item.line);
            list.push(entry);
        }
    }
    Ok(written)
}

/// A text, a number or a list of them, as Slurm would write it.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Array(list) => {
            let parts: Option<Vec<String>> = list.iter().map(|part| scalar(part.get_ref())).collect();
            Some(parts?.join(","))
        }
        _ => None,
    }
}

/// Reads the output of Slurm's commands.
fn printed(file: &str, text: &str) -> Result<Written> {
    let mut written = Written::default();
    let mut header: Vec<&str> = Vec::new();
    let mut kind = Kind::Qos;
    let (mut in_partition, mut in_config) = (false, false);
    for (line, content) in (1u64..).zip(text.lines()) {
        let trimmed = content.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            in_partition &= !trimmed.is_empty();
            continue;
        }
        if trimmed.starts_with("PartitionName=") {
            written.partitions.push(Entry { line, ..Entry::default() });
            (in_partition, in_config) = (true, false);
        }
        let cells: Vec<&str> = content.split('|').map(str::trim).collect();
        // The head of a table, or of the configuration, ends what was before.
        let heads = head(&cells);
        in_config = heads.is_none() && (in_config || trimmed.starts_with("Configuration data"));
        in_partition &= heads.is_none() && !in_config;
        if in_partition {
            if let Some(partition) = written.partitions.last_mut() {
                let pairs = trimmed.split_whitespace().filter_map(|word| word.split_once('='));
                partition.items.extend(pairs.map(|(key, value)| Item {
                    line,
                    key: key.to_owned(),
                    value: value.to_owned(),
                }));
            }
            continue;
        }
        if in_config || !content.contains('|') && !header.is_empty() {
            let pair = trimmed.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let is_known = |key: &str| CONFIGURED.contains(&key) || super::priority::KEYS.contains(&key);
            let known = pair.filter(|(key, _)| is_known(key.to_ascii_lowercase().as_str()));
            written.globals.extend(known.map(|(key, value)| Item {
                line,
                key: key.to_owned(),
                value: value.to_owned(),
            }));
            // The configuration has hundreds of others, and titles; a row of a table of one column has no `=`.
            if in_config || trimmed.contains('=') {
                continue;
            }
        }
        if header.is_empty() || heads.is_some() {
            kind = heads.unwrap_or(Kind::Qos);
            header = cells;
            continue;
        }
        // `sacctmgr -p` ends lines with a bar, `-P` does not.
        if cells.len() < header.len() || cells.len() > header.len() + 1 {
            let what = format!(
                "{} columns, and {} in the first line; export with `sacctmgr show {} -P`",
                cells.len(),
                header.len(),
                if kind == Kind::Qos { "qos" } else { "assoc tree" }
            );
            return Err(Error::File { file: file.to_owned(), line, what });
        }
        let named = header.iter().zip(&cells).filter(|(key, _)| !key.is_empty());
        let items = named.map(|(key, value)| Item { line, key: (*key).to_owned(), value: (*value).to_owned() });
        let items: Vec<Item> = items.collect();
        let raw = header.iter().position(|key| *key == "Account").and_then(|at| content.split('|').nth(at));
        let indent = raw.map_or(0, |raw| raw.len() - raw.trim_start().len());
        let has_user = items.iter().any(|item| item.key == "User" && !item.value.is_empty());
        let rows = match kind {
            Kind::Qos => &mut written.qos,
            Kind::Associations if has_user => &mut written.associations,
            Kind::Associations => &mut written.accounts,
        };
        rows.push(Entry { line, items, indent });
    }
    Ok(written)
}
