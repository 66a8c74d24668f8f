//! Files that plans emit, a module a system: [Slurm](slurm), [Kubernetes](kubernetes) and [Karpenter](karpenter), and [patches](own) to files that a site has. Here stands what of a site may be in them, tables, tasks and objects. How names are quoted in
//! each is `tracecast_analytics::report::quote`'s.
//!
//! O(length). Worked example: the jobs `Big run` and `…` are the tasks `big-run` and `job-2`.

pub mod karpenter;
pub mod kubernetes;
pub mod own;
pub mod slurm;

use serde_json::Value;
use tracecast_analytics::report::format;
use tracecast_analytics::report::markup::{csv_text, printable};
pub use tracecast_analytics::report::quote::comments;

use crate::error::{Error, Result};
use crate::slug::slug;
use crate::yaml::stream;

/// A file that a plan emits: its name and content.
pub type Emitted = (String, String);

/// How Kubernetes calls a GPU unless said otherwise.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// A change of seconds, in ASCII as old tools read it.
pub fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format::duration(seconds.abs()))
}

/// Whether a text of the site is a name of letters, digits and `more`.
///
/// # Errors
/// If it is none, with the remedy.
pub fn check_name(what: &'static str, name: &str, more: &str, remedy: &str) -> Result<()> {
    if !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter)) {
        return Ok(());
    }
    Err(Error::malformed(what, name.to_owned(), remedy.to_owned()))
}

/// Whether a node has a GPU.
///
/// # Errors
/// If it has none.
pub fn check_gpus_per_node(gpus: u32) -> Result<()> {
    if gpus > 0 {
        return Ok(());
    }
    Err(Error::malformed("number of GPUs of a node", "0".to_owned(), "give at least 1".to_owned()))
}

/// The namespace of NVIDIA's operator or device plugin.
///
/// # Errors
/// If it is no name.
pub fn check_namespace(namespace: &str) -> Result<()> {
    check_name("namespace", namespace, "-", "give one such as gpu-operator")
}

/// A CSV: its head and its rows. No cell begins as a formula of a spreadsheet does.
///
/// # Errors
/// If it cannot be written, which no input should bring about.
pub fn table<const N: usize>(
    name: &str,
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<Emitted> {
    let guarded = rows.into_iter().map(|row| row.map(|cell| csv_text(&cell)));
    Ok((name.to_owned(), csv_as_it_is(name, head, guarded)?))
}

/// The text of a CSV whose cells stand as they are, whatever a spreadsheet makes of them: for programs that match them.
///
/// # Errors
/// If it cannot be written, which no input should bring about.
pub fn csv_as_it_is<const N: usize>(
    name: &str,
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<String> {
    let broken = |what: String| Error::defect(format!("{name} cannot be written: {what}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head).map_err(|error| broken(error.to_string()))?;
    for row in rows {
        writer.write_record(row).map_err(|error| broken(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| broken(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| broken(error.to_string()))
}

/// A number of a table: four decimals at most, and no zeros behind them.
pub fn number(value: f64) -> String {
    format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the names of the tasks of jobs: the jobs' names in small letters and digits, `job-1`
/// where that leaves nothing.
///
/// # Errors
/// If two would be called the same, as each is a file.
pub fn task_names<'n>(jobs: impl IntoIterator<Item = &'n str>) -> Result<Vec<String>> {
    let mut result: Vec<String> = Vec::new();
    for (at, job) in jobs.into_iter().enumerate() {
        let name = slug(job).unwrap_or_else(|| format!("job-{}", at + 1));
        if result.contains(&name) {
            return Err(Error::NotEmitted(format!(
                "two jobs would be written as {name}.yaml; give each a name of its own in letters and digits"
            )));
        }
        result.push(name);
    }
    Ok(result)
}

/// The file of a task, and what it is for as a comment on one line.
pub fn task(name: &str, what: &str, document: Value) -> Emitted {
    (format!("{name}.yaml"), stream(&[(printable(what), document)]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_site_are_plain() {
        assert!(check_namespace("gpu-operator").is_ok() && check_name("type", "a100_3g.20gb", "-_.", "x").is_ok());
        let told = |checked: Result<()>| checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert!(told(check_namespace("gpu operator")).contains("gpu operator"));
        assert!(told(check_namespace("")).contains("give one such as gpu-operator"));
        assert!(told(check_gpus_per_node(0)).contains("give at least 1"));
    }

    #[test]
    fn tables_and_tasks() {
        let row = ["a, b".to_owned(), "1".to_owned()];
        assert_eq!(table("x.csv", ["name", "n"], [row]).unwrap().1, "name,n\n\"a, b\",1\n");
        assert_eq!([number(4.0), number(0.12345), number(10.5)], ["4", "0.1235", "10.5"].map(str::to_owned));
        assert_eq!(task_names(["Big run", "…"]).unwrap(), ["big-run", "job-2"]);
        assert!(task_names(["a b", "A-b"]).unwrap_err().to_string().contains("a-b.yaml"));
    }
}
