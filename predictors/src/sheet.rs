//! Files of rows that people write or measure: their text, unpacked, and their cells as CSV, with the file, the line and a remedy where something is wrong.
//!
//! A file may be compressed (`.gz`, `.zst`). Names of columns are taken in lower case, no two are the same, and every row must have a cell for each. What the columns mean is for whoever reads them to say.
//!
//! O(bytes). Worked example: of `job,jobs` and `a,-1`, `number("jobs")` is an error of line 2 that names the column, what it holds, and what to write.

use std::io::Read as _;
use std::path::Path;

use tracecast_analytics::ingest::{SourceFile, misspelt};

use crate::error::{Error, Result};

/// Longest file that is read, bytes unpacked.
const LONGEST_FILE: u64 = 1 << 30;

/// The text of a file, unpacked.
///
/// # Errors
/// If it cannot be read, is too long, or is no text.
pub fn text(path: &Path) -> Result<String> {
    text_up_to(path, LONGEST_FILE)
}

/// Error that a file cannot be read.
pub(crate) fn unreadable(path: &Path, error: &tracecast_analytics::Error) -> Error {
    Error::Measured {
        file: path.display().to_string(),
        line: None,
        found: error.to_string(),
        remedy: "name a file that can be read".to_owned(),
    }
}

fn text_up_to(path: &Path, longest: u64) -> Result<String> {
    if path.is_dir() {
        return Err(Error::Measured {
            file: path.display().to_string(),
            line: None,
            found: "it is a folder".to_owned(),
            remedy: "name a file in it".to_owned(),
        });
    }
    let failed = |source| Error::Io { action: "read", path: path.to_owned(), source };
    let file = SourceFile::new(path);
    let content = file.open(&()).map_err(|error| unreadable(path, &error))?;
    let mut bytes = Vec::new();
    // A byte more than may be, so that a longer file is told from one of that length and never cut.
    content.take(longest + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > longest {
        return Err(Error::Measured {
            file: path.display().to_string(),
            line: None,
            found: format!("it is longer than {longest} bytes unpacked"),
            remedy: "split it, or leave out rows that are not needed".to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|_| Error::Measured {
        file: path.display().to_string(),
        line: None,
        found: "it is no text in UTF-8".to_owned(),
        remedy: "write it as UTF-8".to_owned(),
    })
}

/// A CSV file being read: its columns and where it is.
#[derive(Debug)]
pub struct Sheet<'a> {
    file: String,
    columns: Vec<String>,
    reader: csv::Reader<&'a [u8]>,
}

/// A row of a sheet.
#[derive(Debug)]
pub struct SheetRow<'s> {
    file: &'s str,
    columns: &'s [String],
    record: csv::StringRecord,
    line: u64,
}

impl<'a> Sheet<'a> {
    /// The sheet of a file with this text; names of columns are taken in lower case.
    ///
    /// # Errors
    /// If the first line cannot be read, or names a column twice.
    pub fn open(path: &Path, text: &'a str) -> Result<Self> {
        let file = path.display().to_string();
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
        let head = reader.headers().map_err(|error| Error::Measured {
            file: file.clone(),
            line: Some(1),
            found: error.to_string(),
            remedy: "begin the file with the names of its columns".to_owned(),
        })?;
        let columns: Vec<String> = head.iter().map(str::to_ascii_lowercase).collect();
        let sheet = Self { file, columns, reader };
        // A column without a name cannot be asked for, as the last ones of a spreadsheet.
        let named = sheet.columns.iter().enumerate().filter(|(_, column)| !column.is_empty());
        for (at, column) in named {
            if sheet.columns.iter().take(at).any(|before| before == column) {
                return Err(sheet.twice(&format!("column `{column}` is named twice")));
            }
        }
        Ok(sheet)
    }

    /// Error that two columns are one and the same, as `found` says.
    pub(crate) fn twice(&self, found: &str) -> Error {
        Error::Measured {
            file: self.file.clone(),
            line: Some(1),
            found: found.to_owned(),
            remedy: "keep one of the two, as they may differ".to_owned(),
        }
    }

    /// Whether it has all of these columns.
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.columns.iter().any(|column| column == name))
    }

    /// Checks the columns with [`misspelt`].
    ///
    /// # Errors
    /// If there is one, with the name that is read.
    pub fn misspelt(&self, optional: &[&str]) -> Result<()> {
        let columns = self.columns.iter().map(String::as_str);
        match misspelt(&columns, optional) {
            Some((column, name)) => Err(self.is_meant(column, name)),
            None => Ok(()),
        }
    }

    /// Error that a column is not read, and which one is.
    pub(crate) fn is_meant(&self, column: &str, name: &str) -> Error {
        Error::Measured {
            file: self.file.clone(),
            line: Some(1),
            found: format!("column `{column}` is not read, and there is no column `{name}`"),
            remedy: format!("call it {name} if that is meant, or give it a name that is less alike"),
        }
    }

    /// Names of its columns, in lower case.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Checks that it has all of these columns, and says which is written otherwise, or what to name in its place.
    ///
    /// # Errors
    /// If it lacks one.
    pub fn needs(&self, names: &[&str], remedy: &str) -> Result<()> {
        match names.iter().filter(|name| !self.has(&[name])).count() {
            0 => return Ok(()),
            // Where more is missing it is another file.
            1 => self.misspelt(names)?,
            _ => {}
        }
        Err(self.other(remedy))
    }

    /// Error that the file is not of the expected kind.
    pub fn other(&self, remedy: &str) -> Error {
        let named: Vec<&str> = self.columns.iter().map(String::as_str).filter(|column| !column.is_empty()).collect();
        let found =
            if named.is_empty() { "it is empty".to_owned() } else { format!("its columns are {}", named.join(", ")) };
        Error::Measured { file: self.file.clone(), line: Some(1), found, remedy: remedy.to_owned() }
    }

    /// Calls `each` with every row.
    ///
    /// # Errors
    /// If a line is no CSV, has too few or too many cells, or `each` refuses it; with the line.
    pub fn rows(mut self, mut each: impl FnMut(&SheetRow<'_>) -> Result<()>) -> Result<()> {
        let mut record = csv::StringRecord::new();
        loop {
            let more = self.reader.read_record(&mut record).map_err(|error| Error::Measured {
                file: self.file.clone(),
                line: error.position().map(csv::Position::line),
                found: error.to_string(),
                remedy: "mend the line".to_owned(),
            })?;
            if !more {
                return Ok(());
            }
            let line = record.position().map_or(0, csv::Position::line);
            let row = SheetRow { file: &self.file, columns: &self.columns, record, line };
            // A row cut short would read as if what is missing were unknown, such as a pair that did not fit.
            if row.record.len() != self.columns.len() {
                let found = format!("{} cells, where the first line names {}", row.record.len(), self.columns.len());
                return Err(row.wrong(
                    found,
                    "write a cell for every column, empty where it is unknown, and quote cells that hold commas",
                ));
            }
            each(&row)?;
            record = row.record;
        }
    }
}

impl SheetRow<'_> {
    /// Error about this row.
    pub fn wrong(&self, found: String, remedy: &str) -> Error {
        Error::Measured { file: self.file.to_owned(), line: Some(self.line), found, remedy: remedy.to_owned() }
    }

    /// A cell; empty where there is no such column.
    pub fn cell(&self, name: &str) -> &str {
        let at = self.columns.iter().position(|column| column == name);
        at.and_then(|at| self.record.get(at)).unwrap_or_default()
    }

    /// A cell that must not be empty.
    ///
    /// # Errors
    /// If it is.
    pub fn name(&self, name: &str) -> Result<&str> {
        let cell = self.cell(name);
        if cell.is_empty() {
            return Err(self.wrong(format!("column `{name}` is empty"), "write it in every row"));
        }
        Ok(cell)
    }

    /// A number of at least 0, `None` where the cell is empty.
    ///
    /// # Errors
    /// If it is none.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        let cell = self.cell(name);
        if cell.is_empty() {
            return Ok(None);
        }
        let number = cell.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let shown: String = cell.chars().take(40).collect();
        let refused = || {
            self.wrong(
                format!("column `{name}` holds `{shown}`, which is no number of at least 0"),
                "write a number, or leave the cell empty where it is unknown",
            )
        };
        number.ok_or_else(refused).map(Some)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    /// A file with a text.
    pub(crate) fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_folder_is_no_file() {
        let told = text(tempfile::tempdir().unwrap().path()).unwrap_err().to_string();
        assert!(told.contains("it is a folder") && told.contains("name a file in it"), "{told}");
    }

    #[test]
    fn cells_are_read_and_what_is_wrong_is_told_with_its_line() {
        let path = Path::new("rows.csv");
        let told = |text: &str| {
            let each = |row: &SheetRow<'_>| row.name("job").and_then(|_| row.number("jobs")).map(|_| ());
            Sheet::open(path, text).unwrap().rows(each).map_err(|error| error.to_string())
        };
        assert_eq!(told("Job,jobs,site\n a , 3 ,\nb,,x\n"), Ok(()));
        for (text, wanted) in [
            (
                "job,jobs\na,-1\n",
                "rows.csv, line 2: column `jobs` holds `-1`, which is no number of at least 0; write a number",
            ),
            ("job,jobs\na,1\n,2\n", "rows.csv, line 3: column `job` is empty; write it in every row"),
            ("job,jobs\na\n", "rows.csv, line 2: 1 cells, where the first line names 2; write a cell for every column"),
        ] {
            assert!(told(text).unwrap_err().starts_with(wanted), "{text}: {:?}", told(text));
        }
        let told = Sheet::open(path, "job,Jobs,site,jobs\n").unwrap_err().to_string();
        assert!(told.contains("rows.csv, line 1: column `jobs` is named twice; keep one of the two"), "{told}");
        // Columns without a name are not two of one.
        assert!(Sheet::open(path, "job,jobs,,\n").is_ok());
        let needs = |head: &str| {
            let told = Sheet::open(path, head).unwrap().needs(&["job", "speed_a"], "name another");
            told.map_err(|error| error.to_string())
        };
        assert_eq!(needs("speed_a,job,x\n"), Ok(()));
        assert!(needs("job,speeda\n").unwrap_err().contains("`speeda` is not read, and there is no column `speed_a`"));
        assert!(needs("x,y\n").unwrap_err().ends_with("line 1: its columns are x, y; name another"));
        assert!(needs("").unwrap_err().ends_with("line 1: it is empty; name another"));
        let sheet = Sheet::open(path, "job,jobs\n").unwrap();
        assert!(sheet.has(&["job", "jobs"]) && !sheet.has(&["job", "site"]));
        assert_eq!(
            sheet.other("name another").to_string(),
            "rows.csv, line 1: its columns are job, jobs; name another"
        );
    }

    #[test]
    fn a_column_in_other_letters_is_refused() {
        let told = |head: &str| {
            let path = Path::new("jobs.csv");
            Sheet::open(path, head).unwrap().misspelt(&["deadline", "user"]).map_err(|error| error.to_string())
        };
        for head in ["job,dead_line\n", "job,Deadlin\n", "job,deadline_h\n", "job,deadline (s)\n"] {
            assert!(told(head).unwrap_err().contains("call it deadline"), "{head}");
        }
        for head in ["job,deadline\n", "job,deadline,deadline_h\n", "job,note,gpus\n", "job,uses\n"] {
            assert_eq!(told(head), Ok(()), "{head}");
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_and_not_cut() {
        let file = file("12345");
        assert_eq!(text_up_to(file.path(), 5).unwrap(), "12345");
        let told = text_up_to(file.path(), 4).unwrap_err().to_string();
        assert!(told.contains("longer than 4 bytes unpacked; split it"), "{told}");
    }
}
