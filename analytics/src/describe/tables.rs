//! A description as Parquet tables, for notebooks and other programs.
//!
//! Every list of records in the JSON form becomes a table named by its path (`size.by_gpus.parquet`), every list of
//! pairs one with columns `x` and `y`, and all single values one table `values.parquet` of (path, number, text). Beside
//! them, `job_facts.parquet` holds what is known and derived of each job ([`columns`]). So nothing the JSON form says is missing here, and a
//! new topic is covered without a line of code.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use serde_json::Value;

use super::{Description, JobFacts};
use crate::error::{Error, Result};
use crate::facts::columns;
use crate::storage;
use crate::trace::Trace;

/// Columns in the order they first appear, and rows as maps of them.
#[derive(Debug, Default)]
struct Records {
    columns: Vec<String>,
    rows: Vec<BTreeMap<String, Value>>,
}

/// Writes the tables of a description, and the facts of each job, into `folder`. How many there are.
///
/// # Errors
/// When the folder or a file cannot be written.
pub fn save(trace: &Trace, description: &Description, folder: &Path) -> Result<usize> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    let value = serde_json::to_value(description).map_err(|e| Error::Json {
        action: "write",
        path: folder.to_owned(),
        source: e,
    })?;
    let mut tables: BTreeMap<String, Records> = BTreeMap::new();
    collect("", &value, &mut tables);
    let mut count = 0;
    for (name, records) in &tables {
        write(name, &records.batch()?, folder)?;
        count += 1;
    }
    if !trace.jobs.job_key.is_empty() {
        let facts = JobFacts::new(trace);
        write(columns::NAME, &columns::batch(&facts, 0, facts.len())?, folder)?;
        count += 1;
    }
    Ok(count)
}

fn collect(path: &str, value: &Value, tables: &mut BTreeMap<String, Records>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, value, tables);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let records = tables.entry(path.to_owned()).or_default();
            for item in items {
                records.push(item);
            }
        }
        Value::Array(items) => {
            let records = tables.entry("values".to_owned()).or_default();
            for (ix, item) in items.iter().enumerate() {
                records.push_value(&format!("{path}[{ix}]"), item);
            }
        }
        Value::Null => {}
        single => tables.entry("values".to_owned()).or_default().push_value(path, single),
    }
}

impl Records {
    fn push(&mut self, item: &Value) {
        let mut row = BTreeMap::new();
        match item {
            Value::Array(parts) => {
                for (ix, part) in parts.iter().enumerate() {
                    let name = match (ix, parts.len()) {
                        (0, 2) => "x".to_owned(),
                        (1, 2) => "y".to_owned(),
                        _ => format!("c{ix}"),
                    };
                    self.set(&mut row, name, part.clone());
                }
            }
            other => self.flatten(&mut row, "", other),
        }
        self.rows.push(row);
    }

    fn push_value(&mut self, path: &str, value: &Value) {
        let mut row = BTreeMap::new();
        self.set(&mut row, "path".to_owned(), Value::from(path));
        self.set(&mut row, "number".to_owned(), value.as_f64().map_or(Value::Null, Value::from));
        let text = value.as_str().map(str::to_owned).or_else(|| value.as_bool().map(|flag| flag.to_string()));
        self.set(&mut row, "text".to_owned(), text.map_or(Value::Null, Value::from));
        self.rows.push(row);
    }

    /// Nested records become columns with dotted names; nested lists stay JSON text.
    fn flatten(&mut self, row: &mut BTreeMap<String, Value>, prefix: &str, value: &Value) {
        let Value::Object(fields) = value else {
            self.set(row, if prefix.is_empty() { "value".to_owned() } else { prefix.to_owned() }, value.clone());
            return;
        };
        for (name, value) in fields {
            let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Object(_) => self.flatten(row, &name, value),
                Value::Array(_) => self.set(row, name, Value::from(value.to_string())),
                single => self.set(row, name, single.clone()),
            }
        }
    }

    fn set(&mut self, row: &mut BTreeMap<String, Value>, column: String, value: Value) {
        if !self.columns.contains(&column) {
            self.columns.push(column.clone());
        }
        row.insert(column, value);
    }

    /// Numbers where every known value of a column is one, booleans likewise, else text.
    fn batch(&self) -> Result<RecordBatch> {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for name in &self.columns {
            let cells: Vec<Option<&Value>> =
                self.rows.iter().map(|row| row.get(name).filter(|value| !value.is_null())).collect();
            let known = || cells.iter().flatten();
            let array: ArrayRef = if known().next().is_some() && known().all(|value| value.is_number()) {
                Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_f64)).collect::<Float64Array>())
            } else if known().next().is_some() && known().all(|value| value.is_boolean()) {
                Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_bool)).collect::<BooleanArray>())
            } else {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Arc::new(cells.iter().map(|cell| cell.map(text)).collect::<StringArray>())
            };
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|e| Error::Arrow { table: "description", source: e })
    }
}

fn write(name: &str, batch: &RecordBatch, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{name}.parquet"));
    storage::write_files(&[(&path, &storage::encode::parquet(name, batch)?)])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::datatypes::DataType;
    use serde_json::json;

    use super::*;

    #[test]
    fn records_pairs_and_single_values_each_find_their_table() {
        let mut tables = BTreeMap::new();
        let value = json!({
            "a": { "list": [{ "n": 1, "in": { "s": "x" } }, { "n": null, "in": { "s": "y" } }], "curve": [[0, 1.5], [1, 2.5]] },
            "one": 7, "flag": true, "none": null, "words": ["p", "q"]
        });
        collect("", &value, &mut tables);
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["a.curve", "a.list", "values"]);
        let list = tables["a.list"].batch().unwrap();
        assert_eq!((list.num_rows(), list.num_columns()), (2, 2));
        assert_eq!(list.schema().field_with_name("n").unwrap().data_type(), &DataType::Float64);
        assert!(list.column_by_name("n").unwrap().is_null(1));
        // one, flag, words[0], words[1]
        assert_eq!(tables["values"].batch().unwrap().num_rows(), 4);
    }
}
