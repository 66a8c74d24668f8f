//! The mapping file: what it may say, and the plan it becomes once checked against the canonical tables.
//!
//! Every mistake is an error that names the key and what would be right there; nothing is guessed. The format is
//! documented with an example in `datasets/mappings/README.md`.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::ingest::unit::{TimeUnit, factor};
use crate::schema::{ColumnKind, ColumnSpec, JobState, all_specs};
use crate::time::{TimeBasis, Zone, parse_local};

/// Columns without which a row of a table says nothing; capacity and activity can do with a constant name.
const REQUIRED: &[(&str, &[&str])] = &[
    ("jobs", &["job_key", "submit"]),
    ("attempts", &["job_key", "attempt"]),
    ("placements", &["job_key", "node"]),
    ("nodes", &["node"]),
    ("capacity", &["scope", "name", "from"]),
    ("activity", &["scope", "name", "ts"]),
    ("gpu_samples", &["ts", "node", "gpu"]),
    ("node_samples", &["ts", "node"]),
    ("carbon", &["zone", "ts", "g_per_kwh"]),
    ("prices", &["instance", "usd_per_h"]),
    ("availability", &["zone", "ts", "count"]),
];

/// Pointer to the manual, for error messages.
const MANUAL: &str = "see datasets/mappings/README.md";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    name: Option<String>,
    table: String,
    #[serde(default)]
    source: SourceSpec,
    detect: Option<Detect>,
    columns: BTreeMap<String, RuleSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceSpec {
    separator: Option<String>,
    decimal: Option<String>,
    comment: Option<String>,
    #[serde(default)]
    null: Vec<String>,
    zone: Option<String>,
    basis: Option<String>,
    time_unit: Option<String>,
    origin: Option<String>,
    counts_gpus: Option<bool>,
    #[serde(default)]
    notes: Vec<String>,
}

/// Contents by which a file is recognised as that of a built-in mapping.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detect {
    /// Columns its header has, in any order and case.
    pub(super) columns: Vec<String>,
    /// Texts that occur in its beginning, comments included.
    #[serde(default)]
    pub(super) text: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    column: Option<String>,
    constant: Option<toml::Value>,
    unit: Option<String>,
    scale: Option<f64>,
    #[serde(default)]
    add: Vec<String>,
    add_unit: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
    #[serde(default)]
    optional: bool,
}

/// A checked mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Name in messages.
    pub(super) name: String,
    /// Canonical table that rows go to.
    pub(super) table: &'static str,
    /// Separator of fields; `None` for whichever of comma and tab the header has more of.
    pub(super) separator: Option<u8>,
    /// Whether numbers are written with a comma before their fraction.
    pub(super) decimal_comma: bool,
    /// Beginning of comment lines; empty for none.
    pub(super) comment: String,
    /// Further spellings of unknown.
    pub(super) null: Vec<String>,
    /// The source's zone, if it names one.
    pub(super) zone: Option<String>,
    /// Format of times without a unit of their own.
    pub(super) time_unit: TimeUnit,
    /// The local time that time 0 stands for.
    pub(super) origin: Option<DateTime>,
    basis: Option<TimeBasis>,
    /// Whether the source counts GPUs at all.
    pub(super) counts_gpus: bool,
    /// Caveats for the reader of a report.
    pub(super) notes: Vec<String>,
    /// Contents by which its files are recognised.
    pub(super) detect: Option<Detect>,
    /// One for each column of the table, in its order.
    pub(super) rules: Vec<(ColumnSpec, Option<Rule>)>,
    /// Canonical columns that every row must have.
    pub(super) required: &'static [&'static str],
}

/// Origin of the value of a canonical column.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Source column and whether a file may lack it, or the same text for all rows.
    pub(super) from: Given,
    /// Factor of a number.
    pub(super) factor: f64,
    /// Format of the column's times, where it differs from the mapping's.
    pub(super) time_unit: Option<TimeUnit>,
    /// Durations added to a time: their source columns, and milliseconds in their unit.
    pub(super) add: Vec<String>,
    /// Milliseconds in the unit of the durations added.
    pub(super) add_factor_ms: f64,
    /// Source text to canonical text.
    pub(super) values: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
pub(super) enum Given {
    Column { name: String, optional: bool },
    Constant(String),
}

impl Mapping {
    /// Reads and checks the text of a mapping file, called `file` in messages. O(bytes).
    ///
    /// # Errors
    /// When it is not TOML, has unknown keys, or names tables, columns or units that do not exist.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self> {
        let spec: FileSpec = toml::from_str(text).map_err(|e| Error::Format {
            file: file.to_owned(),
            line: e
                .span()
                .and_then(|span| text.get(..span.start))
                .map(|before| before.matches('\n').count() as u64 + 1),
            column: None,
            found: e.message().to_owned(),
            remedy: MANUAL.to_owned(),
        })?;
        let wrong = |found: String, remedy: String| Error::format(file, found, remedy);
        let tables = all_specs();
        let Some((table, columns)) = tables.iter().copied().find(|(name, _)| *name == spec.table) else {
            let known: Vec<&str> = tables.iter().map(|(name, _)| *name).collect();
            return Err(wrong(
                format!("there is no table `{}`", spec.table),
                format!("use one of {}", known.join(", ")),
            ));
        };
        for name in spec.columns.keys() {
            if !columns.iter().any(|column| column.name == name) {
                let known: Vec<&str> = columns.iter().map(|column| column.name).collect();
                let remedy = format!("use one of {}", known.join(", "));
                return Err(wrong(format!("table `{table}` has no column `{name}`"), remedy));
            }
        }
        let required = REQUIRED.iter().find(|(name, _)| *name == table).map_or(&[][..], |(_, columns)| *columns);
        if let Some(missing) = required.iter().find(|name| !spec.columns.contains_key(**name)) {
            let remedy = format!("add `{missing} = {{ column = \"…\" }}` under [columns]");
            return Err(wrong(format!("table `{table}` needs `{missing}`, which is not mapped"), remedy));
        }
        let rules = columns
            .iter()
            .map(|column| {
                let rule = spec.columns.get(column.name).map(|rule| check_rule(table, column, rule)).transpose();
                let rule =
                    rule.map_err(|(found, remedy)| wrong(format!("column `{}`: {found}", column.name), remedy))?;
                Ok((*column, rule))
            })
            .collect::<Result<Vec<_>>>()?;
        let has_times = rules.iter().any(|(column, rule)| column.kind == ColumnKind::Time && rule.is_some());
        let source = check_source(&spec.source, has_times).map_err(|(found, remedy)| wrong(found, remedy))?;
        Ok(Self {
            name: spec.name.unwrap_or_else(|| file.to_owned()),
            table,
            separator: source.separator,
            decimal_comma: source.decimal_comma,
            comment: spec.source.comment.unwrap_or_else(|| "#".to_owned()),
            null: spec.source.null,
            zone: spec.source.zone,
            time_unit: source.time_unit,
            origin: source.origin,
            basis: source.basis,
            counts_gpus: spec.source.counts_gpus.unwrap_or(true),
            notes: spec.source.notes,
            detect: spec.detect,
            rules,
            required,
        })
    }

    /// Reference of the times, once the zone is known; `None` if the table has no times.
    pub(super) fn basis(&self, zone: &Zone) -> Option<TimeBasis> {
        match &self.basis {
            Some(TimeBasis::Local) if zone.name() == "UTC" => Some(TimeBasis::Utc),
            other => other.clone(),
        }
    }
}

/// Finding and remedy.
type Wrong = (String, String);

struct CheckedSource {
    separator: Option<u8>,
    decimal_comma: bool,
    time_unit: TimeUnit,
    origin: Option<DateTime>,
    basis: Option<TimeBasis>,
}

fn check_source(spec: &SourceSpec, has_times: bool) -> Result<CheckedSource, Wrong> {
    let separator = match spec.separator.as_deref().map(str::as_bytes) {
        None => None,
        Some([one]) if one.is_ascii() && !one.is_ascii_alphanumeric() => Some(*one),
        Some(_) => {
            return Err((
                format!("separator `{}`", spec.separator.as_deref().unwrap_or_default()),
                "use one character such as \",\", \";\", \"|\" or \"\\t\"".to_owned(),
            ));
        }
    };
    let decimal_comma = match spec.decimal.as_deref() {
        None | Some(".") => false,
        Some(",") => true,
        Some(other) => return Err((format!("decimal `{other}`"), "use \".\" or \",\"".to_owned())),
    };
    let text = spec.time_unit.as_deref().unwrap_or("text");
    let time_unit = TimeUnit::named(text)
        .ok_or_else(|| (format!("time_unit `{text}`"), format!("use one of {}", TimeUnit::NAMES.join(", "))))?;
    let origin = match spec.origin.as_deref() {
        None => None,
        Some(origin) => Some(parse_local(origin).ok_or_else(|| {
            (format!("origin `{origin}` is not a time"), "write it as \"2020-09-01 00:00:00\"".to_owned())
        })?),
    };
    let as_text = if time_unit.is_text() { TimeUnit::Text } else { time_unit };
    let basis = match (as_text, &origin, spec.basis.as_deref()) {
        (TimeUnit::Text, Some(_), _) => {
            return Err((
                "origin is given, but times are text".to_owned(),
                "set time_unit to s, ms, us or ns, or leave out origin".to_owned(),
            ));
        }
        (TimeUnit::Text, None, None) | (_, Some(_), None) => TimeBasis::Local,
        (TimeUnit::Text, None, Some("utc")) => TimeBasis::Utc,
        (TimeUnit::Text, None, Some("local")) | (_, Some(_), Some("local")) => TimeBasis::Local,
        (_, None, Some("utc")) => TimeBasis::Utc,
        (_, None, Some("relative")) => TimeBasis::Relative,
        (_, None, Some("relative_week")) => TimeBasis::RelativeWeek,
        (_, None, None) if has_times => {
            return Err((
                "times are numbers, but the mapping does not say since when".to_owned(),
                "set basis to \"utc\" (since 1970), \"relative\" or \"relative_week\", or give origin".to_owned(),
            ));
        }
        (_, None, None) => TimeBasis::Utc,
        (unit, origin, Some(other)) => {
            let allowed = match (unit, origin) {
                (TimeUnit::Text, _) => "utc or local",
                (_, Some(_)) => "local, or leave it out, where origin is given",
                (_, None) => "utc, relative or relative_week, or give origin",
            };
            return Err((format!("basis `{other}`"), format!("use {allowed}")));
        }
    };
    Ok(CheckedSource { separator, decimal_comma, time_unit, origin, basis: has_times.then_some(basis) })
}

fn check_rule(table: &str, column: &ColumnSpec, spec: &RuleSpec) -> Result<Rule, Wrong> {
    if table == "jobs" && column.name == "run_s" {
        return Err((
            "it is computed from start and end".to_owned(),
            "map the source's own duration to `reported_run_s`".to_owned(),
        ));
    }
    let from = match (&spec.column, &spec.constant) {
        (Some(name), None) => Given::Column { name: name.trim().to_ascii_lowercase(), optional: spec.optional },
        (None, Some(value)) => Given::Constant(match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(value) => value.to_string(),
            toml::Value::Float(value) => value.to_string(),
            toml::Value::Boolean(value) => value.to_string(),
            other => {
                let remedy = "give a text, number or boolean".to_owned();
                return Err((format!("constant is a {}", other.type_str()), remedy));
            }
        }),
        _ => {
            return Err((
                "it needs either a source column or a constant".to_owned(),
                "write { column = \"…\" } or { constant = … }".to_owned(),
            ));
        }
    };
    if matches!((table, column.name), ("jobs", "state") | ("attempts", "end_reason")) {
        check_states(&from, spec)?;
    }
    let is_number = matches!(column.kind, ColumnKind::Int | ColumnKind::Num);
    let is_time = column.kind == ColumnKind::Time;
    let mut by = 1.0;
    let mut time_unit = None;
    if let Some(unit) = &spec.unit {
        if is_time {
            time_unit = Some(
                TimeUnit::named(unit)
                    .ok_or_else(|| (format!("unit `{unit}`"), format!("use one of {}", TimeUnit::NAMES.join(", "))))?,
            );
        } else if is_number {
            by =
                factor(column.name, unit).map_err(|known| (format!("unit `{unit}`"), format!("use one of {known}")))?;
        } else {
            return Err(("it is no number and has no unit".to_owned(), "leave out unit".to_owned()));
        }
    }
    if let Some(scale) = spec.scale {
        if !is_number || !scale.is_finite() {
            return Err((format!("scale {scale}"), "give a finite scale, and only to numbers".to_owned()));
        }
        by *= scale;
    }
    let mut add_factor_ms = 1_000.0;
    if !spec.add.is_empty() || spec.add_unit.is_some() {
        let unit = spec.add_unit.as_deref().unwrap_or("s");
        if !is_time {
            return Err(("only times can have durations added".to_owned(), "leave out add and add_unit".to_owned()));
        }
        let seconds =
            factor("add_s", unit).map_err(|known| (format!("add_unit `{unit}`"), format!("use one of {known}")))?;
        add_factor_ms = seconds * 1_000.0;
    }
    let add = spec.add.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
    Ok(Rule { from, factor: by, time_unit, add, add_factor_ms, values: spec.values.clone() })
}

/// Checks that the words that states are renamed to are canonical: a typing error would silently
/// make them unknown.
fn check_states(from: &Given, spec: &RuleSpec) -> Result<(), Wrong> {
    let constant = if let Given::Constant(word) = from { Some(word) } else { None };
    let given = spec.values.values().chain(constant.filter(|word| !spec.values.contains_key(word.as_str())));
    let known: Vec<&str> = JobState::ALL.into_iter().map(JobState::id).collect();
    given.filter(|word| !word.is_empty()).try_for_each(|word| {
        if known.contains(&word.as_str()) {
            return Ok(());
        }
        Err((
            format!("`{word}` is no canonical state"),
            format!("use one of {}, or \"\" for unknown", known.join(", ")),
        ))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn states_are_renamed_to_canonical_words_only() {
        let jobs = |state: &str| {
            format!(
                "table = \"jobs\"\n[columns]\njob_key = {{ column = \"j\" }}\nsubmit = {{ column = \"s\" }}\nstate = {state}"
            )
        };
        for state in ["{ column = \"o\", values = { ok = \"done\" } }", "{ constant = \"COMPLETED\" }"] {
            let wrong = error(&jobs(state));
            assert!(wrong.contains("no canonical state") && wrong.contains("out_of_memory, node_fail"), "{wrong}");
        }
        Mapping::parse("m", &jobs("{ column = \"o\", values = { ok = \"completed\", bad = \"\" } }")).unwrap();
    }

    #[test]
    fn the_manual_lists_the_canonical_states() {
        let manual = include_str!("../../../../datasets/mappings/README.md");
        for state in JobState::ALL {
            assert!(manual.contains(&format!("`{}`", state.id())), "{}", state.id());
        }
    }

    fn error(text: &str) -> String {
        Mapping::parse("m.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        let unknown = error("table = \"prices\"\n[columns]\nprice = { column = \"p\" }");
        assert!(unknown.contains("`prices` has no column `price`") && unknown.contains("usd_per_h"), "{unknown}");
        assert!(error("table = \"job\"\n[columns]").contains("attempts, placements"));
        assert!(error("table = \"nodes\"\n[columns]\ngpus = { column = \"g\" }").contains("needs `node`"));
        let key = error("table = \"nodes\"\n[columns]\nnode = { colum = \"n\" }");
        assert!(key.contains("line 3") && key.contains("colum"), "{key}");
        assert!(error("table = \"nodes\"\n[columns]\nnode = { column = \"n\", constant = 1 }").contains("either"));
        let unit = error(
            "table = \"nodes\"\n[columns]\nnode = { column = \"n\" }\nmem_bytes = { column = \"m\", unit = \"h\" }",
        );
        assert!(unit.contains("unit `h`") && unit.contains("GiB"), "{unit}");
        let since = error(
            "table = \"activity\"\n[source]\ntime_unit = \"s\"\n[columns]\nscope = { constant = \"vc\" }\n\
             name = { column = \"n\" }\nts = { column = \"t\" }",
        );
        assert!(since.contains("since when"), "{since}");
        let run = error(
            "table = \"jobs\"\n[columns]\njob_key = { column = \"j\" }\nsubmit = { column = \"s\" }\nrun_s = { column = \"r\" }",
        );
        assert!(run.contains("reported_run_s"), "{run}");
    }

    #[test]
    fn every_required_column_exists() {
        for (table, columns) in all_specs() {
            let required = REQUIRED.iter().find(|(name, _)| *name == table).unwrap().1;
            for name in required {
                assert!(columns.iter().any(|column| column.name == *name), "{table}.{name}");
            }
        }
    }
}
