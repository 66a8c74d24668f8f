//! Pairs and profiles from files: the documented CSV forms, Gavel's JSON ([`super::gavel`]), Lucid's tables ([`super::lucid`]) and MISO's table of profiles.
//!
//! **Pairs**: columns `gpu_type,job_a,job_b,speed_a,speed_b`; a speed is the share of the speed alone, both empty or one 0 where the pair did not fit;
//! one empty speed beside a number is a mistake.
//! **Profiles**: columns `gpu_type,job,family` and any that [`Quantity`] names; an empty cell is unknown. `family` may be left out. Where a column `forecast` is not empty, the row is
//! no measurement, and a note counts such rows. `jobs` and `readings` say what telemetry it rests on, and are kept as they are written.
//! **MISO profiles**: columns `model,batch` and quantities, of one A100: the job type is `model (batch size N)`.
//! Two columns of one quantity, such as `memory_mb` and `memory_used`, are a mistake. Other columns are passed over, and a note names them. Any file may be compressed (`.gz`, `.zst`).
//!
//! O(bytes). Worked example: `v100,a,b,0.8,0.5` says that `a` runs at 80 % of its speed beside `b`, and `b` at half of its own.

use std::collections::BTreeMap;
use std::path::Path;

use tracecast_analytics::ingest::SourceFile;
use tracecast_analytics::report::format;

use super::gavel;
use super::lucid::{self, LUCID_GPU, LucidJob};
use super::table::{JobProfile, Quantity, RestsOn, SharedPair, SharingTable, Speeds};
use crate::error::{Error, Result};
use crate::sheet::{Sheet, SheetRow, text, unreadable};

/// GPU type of MISO's tables, which name none.
pub const MISO_GPU: &str = "a100";
/// The column of profiles that names what of a row is a forecast.
pub const FORECAST: &str = "forecast";
/// The column of profiles with the jobs that telemetry read.
pub const JOBS: &str = "jobs";
/// The column of profiles with the readings of their GPUs.
pub const READINGS: &str = "readings";

/// A quantity of a profile in a cell: a number of at least 0, and of a share of a whole at most 100 %; `None` where it is empty.
///
/// # Errors
/// If it is none.
pub(super) fn quantity(row: &SheetRow<'_>, column: &str, quantity: Quantity) -> Result<Option<f64>> {
    let value = row.number(column)?;
    if let Some(value) = value.filter(|value| quantity.is_percent() && *value > 100.0) {
        return Err(row.wrong(format!("column `{column}` holds {value}"), "write percent, from 0 to 100"));
    }
    Ok(value)
}

/// All that files say of sharing: pairs (CSV, Gavel's JSON or Lucid's table), and profiles where there is a file of them.
///
/// # Errors
/// If a file cannot be read, or is not what it should be; the error says where, and what would mend it.
pub fn sharing(pairs: &Path, profiles: Option<&Path>) -> Result<SharingTable> {
    sharing_of_all(&[pairs], &Vec::from_iter(profiles))
}

/// All that several files say of sharing, such as those of several GPU types, as if it stood in one: pairs in the order of the files, then profiles.
///
/// # Errors
/// Errors of [`sharing`].
pub fn sharing_of_all<P: AsRef<Path>>(pairs: &[P], profiles: &[P]) -> Result<SharingTable> {
    let mut table = SharingTable::new();
    for pairs in pairs.iter().map(AsRef::as_ref) {
        let content = text(pairs)?;
        let rows = if content.trim_start().starts_with('{') {
            gavel::read(&pairs.display().to_string(), &content, &mut table)?;
            None
        } else {
            read_pairs(pairs, &content, &mut table)?
        };
        if rows == Some(0) || table.pairs().is_empty() {
            return Err(Error::TooFew(format!("{}: there is no pair in it", pairs.display())));
        }
    }
    for path in profiles.iter().map(AsRef::as_ref) {
        let (paired, paired_gpus) = (table.jobs().len(), table.gpu_types().len());
        read_profiles(path, &mut table)?;
        // They say what jobs are like, and no more; misspelt names would do so unseen.
        if let Some(unpaired) = table.jobs().get(paired..).filter(|unpaired| !unpaired.is_empty()) {
            let note = format!(
                "{}: {} of its job types are in no pair, such as `{}`.",
                path.display(),
                unpaired.len(),
                unpaired.first().map_or("", String::as_str)
            );
            table.notes.push(note);
        }
        let strange = table.gpu_types().get(paired_gpus..).unwrap_or_default();
        if let Some(first) = strange.first() {
            let profiles: usize = (paired_gpus..table.gpu_types().len()).map(|gpu| table.profiles_on(gpu)).sum();
            let note = format!(
                "{}: {} of a GPU type that no pair is on, such as `{first}`; pairs are on {}. Spell it as they do, if it is the same.",
                path.display(),
                format::counted(profiles as u64, "profile is", "profiles are"),
                table.gpu_types().get(..paired_gpus).unwrap_or_default().join(", ")
            );
            table.notes.push(note);
        }
    }
    Ok(table.sorted())
}

/// Reads a file of pairs; how many rows it has, where they are counted.
fn read_pairs(path: &Path, content: &str, table: &mut SharingTable) -> Result<Option<usize>> {
    let sheet = Sheet::open(path, content)?;
    if lucid::has_pairs(&sheet) {
        return lucid::pairs(sheet, table).map(|()| None);
    }
    let needed = ["gpu_type", "job_a", "job_b", "speed_a", "speed_b"];
    sheet.needs(&needed, &format!("name a file of pairs with the columns {}, or Gavel's JSON", needed.join(", ")))?;
    let mut result = Vec::new();
    sheet.rows(|row| {
        let gpu = table.gpu_type(row.name("gpu_type")?);
        let (a, b) = (table.job(row.name("job_a")?), table.job(row.name("job_b")?));
        let speeds = Speeds::of(row, ["speed_a", "speed_b"])?;
        result.push(SharedPair { gpu, a, b, speeds });
        Ok(())
    })?;
    let rows = result.len();
    table.add_pairs(result);
    Ok(Some(rows))
}

/// Whether a file is a table of profiles, as its first line tells.
///
/// # Errors
/// If it cannot be read.
pub fn is_profiles(path: &Path) -> Result<bool> {
    let head = SourceFile::new(path).head().map_err(|error| unreadable(path, &error))?;
    let columns: Vec<String> = head.first_line().split(',').map(|column| column.trim().to_ascii_lowercase()).collect();
    let has = |wanted: [&str; 2]| wanted.iter().all(|name| columns.iter().any(|column| column == name));
    let quantity = |column: &String| Quantity::of_column(column).is_some_and(|quantity| quantity != Quantity::Batch);
    Ok((has(["gpu_type", "job"]) || has(["model", "batch"]) || has(["model", "batchsize"]))
        && columns.iter().any(quantity))
}

/// A row of a file of profiles.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileRow {
    /// GPU type.
    pub gpu_type: String,
    /// Job type.
    pub job: String,
    /// Family, where the row states it.
    pub family: Option<String>,
    /// Profile of the job type.
    pub profile: JobProfile,
    /// Quantities of the profile that are forecasts, and were not measured.
    pub forecast: Vec<Quantity>,
    /// Telemetry the row rests on.
    pub rests_on: RestsOn,
}

/// The columns of a sheet that hold a quantity: `part` says of a column which part of a row it is of, and the name of the quantity.
///
/// # Errors
/// If two columns of one part hold the same quantity.
pub(super) fn quantities<'c, P: PartialEq>(
    sheet: &'c Sheet<'_>,
    part: impl Fn(&'c str) -> Option<(P, &'c str)>,
) -> Result<Vec<(String, P, Quantity)>> {
    let mut result: Vec<(String, P, Quantity)> = Vec::new();
    for column in sheet.columns() {
        let Some((part, name)) = part(column) else { continue };
        let Some(quantity) = Quantity::of_column(name) else { continue };
        if let Some((before, ..)) = result.iter().find(|(_, of, known)| (of, *known) == (&part, quantity)) {
            return Err(sheet.twice(&format!("columns `{before}` and `{column}` are both {}", quantity.name())));
        }
        result.push((column.clone(), part, quantity));
    }
    Ok(result)
}

/// Calls `each` with every row of a file of profiles: the documented form, MISO's or Lucid's. Returns the columns that nothing is done with.
///
/// # Errors
/// If the file cannot be read, or is not what it should be.
pub fn profile_rows(path: &Path, mut each: impl FnMut(ProfileRow)) -> Result<Vec<String>> {
    let content = text(path)?;
    let sheet = Sheet::open(path, &content)?;
    let is_lucid = sheet.has(&lucid::JOB) && !sheet.has(&["job"]);
    let is_miso = sheet.has(&["model", "batch"]) && !sheet.has(&["job"]) && !is_lucid;
    if !is_miso && !is_lucid && !sheet.has(&["gpu_type", "job"]) {
        return Err(
            sheet.other("name a file of profiles with the columns gpu_type, job, family and any of those in the guide")
        );
    }
    let known = quantities(&sheet, |column| Some(((), column)))?;
    // The last three say what a row rests on, where telemetry or a forecast wrote it.
    let named = ["gpu_type", "job", "family", "model", JOBS, READINGS, FORECAST];
    let is_named = |column: &str| named.contains(&column) || (is_lucid && lucid::JOB.contains(&column));
    let is_passed = |column: &&String| !is_named(column) && Quantity::of_column(column).is_none();
    let passed: Vec<String> = sheet.columns().iter().filter(is_passed).cloned().collect();
    sheet.rows(|row| {
        let filled = |column: &str| Some(row.cell(column)).filter(|cell| !cell.is_empty()).map(str::to_owned);
        let mut profile = JobProfile::default();
        let (gpu_type, job, family) = if is_lucid {
            let job = LucidJob::new(row, "")?;
            profile = job.profile();
            (LUCID_GPU.to_owned(), job.name, Some(job.family))
        } else if is_miso {
            (MISO_GPU.to_owned(), miso_job(row.name("model")?, row.name("batch")?), filled("family"))
        } else {
            (row.name("gpu_type")?.to_owned(), row.name("job")?.to_owned(), filled("family"))
        };
        for (column, (), of) in &known {
            profile.set(*of, quantity(row, column, *of)?);
        }
        let forecast = row.cell(FORECAST).split_whitespace().map(|name| {
            Quantity::of_column(name).ok_or_else(|| {
                let result = format!("column `{FORECAST}` names `{name}`");
                row.wrong(result, "name columns of quantities in it, such as sm_util_pct, with a blank between them")
            })
        });
        let forecast = forecast.collect::<Result<_>>()?;
        let rests_on = RestsOn { jobs: filled(JOBS), readings: filled(READINGS) };
        each(ProfileRow { gpu_type, job, family, profile, forecast, rests_on });
        Ok(())
    })?;
    Ok(passed)
}

/// Columns of a file that are not used, in a sentence; none if there are none.
pub(crate) fn passed_over(path: &Path, columns: &[String]) -> Option<String> {
    let told = || format!("{}: columns that nothing is done with: {}.", path.display(), columns.join(", "));
    (!columns.is_empty()).then(told)
}

/// Adds profiles to a table: the documented form, MISO's or Lucid's.
///
/// # Errors
/// If the file cannot be read, or is not what it should be.
pub fn read_profiles(path: &Path, table: &mut SharingTable) -> Result<()> {
    let (rows, forecasts) = add_profiles(path, table, true)?;
    if forecasts > 0 {
        table.notes.push(format!(
            "{}: {forecasts} of {rows} profiles hold forecasts of `model predict utilisation`, which were not measured.",
            path.display()
        ));
    }
    Ok(())
}

/// Reads profiles without the quantities that are forecasts, which must not teach.
///
/// # Errors
/// If the file cannot be read, or is not what it should be.
pub fn read_measured(path: &Path, table: &mut SharingTable) -> Result<()> {
    let (rows, forecasts) = add_profiles(path, table, false)?;
    if forecasts > 0 {
        table.notes.push(format!(
            "{}: the forecasts that {forecasts} of {rows} profiles hold do not count, as they were not measured.",
            path.display()
        ));
    }
    Ok(())
}

/// Adds profiles to a table; returns the number of profiles, and the number that hold forecasts.
fn add_profiles(path: &Path, table: &mut SharingTable, with_forecasts: bool) -> Result<(u64, u64)> {
    let (mut rows, mut forecasts, mut says_something) = (0, 0, false);
    let mut read: BTreeMap<(usize, usize), JobProfile> = BTreeMap::new();
    let mut others: Option<(u64, String)> = None;
    let passed = profile_rows(path, |mut row| {
        rows += 1;
        forecasts += u64::from(!row.forecast.is_empty());
        says_something |= row.family.is_some() || row.profile != JobProfile::default();
        if !with_forecasts {
            row.forecast.iter().for_each(|quantity| row.profile.set(*quantity, None));
        }
        let (gpu, job) = (table.gpu_type(&row.gpu_type), table.job(&row.job));
        if let Some(family) = &row.family {
            table.set_family(job, family);
        }
        table.set_profile(gpu, job, &row.profile);
        table.set_rests_on(gpu, job, row.rests_on);
        let before = read.entry((gpu, job)).or_default();
        let differs = |of: &Quantity| before.get(*of).zip(row.profile.get(*of)).is_some_and(|(one, two)| one != two);
        if Quantity::ALL.iter().any(differs) {
            others.get_or_insert_with(|| (0, row.job.clone())).0 += 1;
        }
        Quantity::ALL.iter().for_each(|of| before.set(*of, row.profile.get(*of).or(before.get(*of))));
    })?;
    if rows > 0 && !says_something {
        // Another file with these columns, such as one of groups.
        return Err(Error::Measured {
            file: path.display().to_string(),
            line: None,
            found: "no row says anything of its job".to_owned(),
            remedy: "name a file of profiles, with a family or any quantity of the guide, such as sm_util_pct"
                .to_owned(),
        });
    }
    table.notes.extend(passed_over(path, &passed));
    table.notes.extend(others.map(|(again, job)| {
        format!(
            "{}: {again} of {rows} rows say something else of a job type than a row before them, such as of {job}; the last counts.",
            path.display()
        )
    }));
    Ok((rows, forecasts))
}

/// The job type of a model at a batch size.
pub(super) fn miso_job(model: &str, batch: &str) -> String {
    format!("{model} (batch size {batch})")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sheet::tests::file;

    #[test]
    fn pairs_and_profiles_are_read_and_joined() {
        let pairs = file("gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,b,0.8,0.5\nv100,b,b,,\nv100,a,a,0,0.3\n");
        let profiles = file("gpu_type,job,family,sm_util_pct,colour,memory_mb\nv100,a,x,40,red,\nv100,b,x,,,2000\n");
        let table = sharing(pairs.path(), Some(profiles.path())).unwrap();
        assert_eq!((table.jobs().len(), table.families()), (2, &["x".to_owned()][..]));
        let fitted: Vec<bool> = table.pairs().iter().map(|pair| pair.speeds.is_some()).collect();
        assert_eq!(fitted, [false, true, false]);
        let a = table.profile(0, 0);
        assert_eq!((a.get(Quantity::SmUtilPct), a.get(Quantity::MemoryMb)), (Some(40.0), None));
        assert!(table.notes[0].contains("colour"));
    }

    #[test]
    fn profiles_of_gpu_types_without_a_pair_are_counted() {
        let pairs = file("gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,b,0.8,0.5\n");
        let notes = |rows: &str| {
            let profiles = file(&format!("gpu_type,job,sm_util_pct\n{rows}"));
            sharing(pairs.path(), Some(profiles.path())).unwrap().notes
        };
        assert_eq!(notes("v100,a,40\n"), Vec::<String>::new());
        let told = notes("V100,a,40\nV100,b,70\nv100,b,70\n");
        let such = "2 profiles are of a GPU type that no pair is on, such as `V100`; pairs are on v100.";
        assert!(told.len() == 1 && told[0].contains(such), "{told:?}");
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_remedy() {
        let told = |text: &str| sharing(file(text).path(), None).unwrap_err().to_string();
        let head = "gpu_type,job_a,job_b,speed_a,speed_b\n";
        assert!(told("a,b\n1,2\n").contains("line 1: its columns are a, b; name a file of pairs"));
        assert!(told(&format!("{head}v100,a,b,fast,1\n")).contains("line 2: column `speed_a` holds `fast`"));
        assert!(told(&format!("{head}v100,a,b,85,90\n")).contains("shares of the speed alone"));
        assert!(told(&format!("{head}v100,,b,1,1\n")).contains("line 2: column `job_a` is empty"));
        assert!(told(&format!("{head}v100,a,b,-1,1\n")).contains("no number of at least 0"));
        assert!(told(&format!("{head}v100,a,b,nan,1\n")).contains("no number"));
        assert!(told(&format!("{head}v100,a,b,1,1,7\n")).contains("6 cells"));
        // Cut short, and half measured: neither is a pair that did not fit.
        assert!(told(&format!("{head}v100,a,b,1\n")).contains("line 2: 4 cells, where the first line names 5"));
        assert!(told(&format!("{head}v100,a,b,,0.5\n")).contains("line 2: one of the two speeds is empty; write both"));
        assert!(told(head).contains("no pair"));
        let profiles = file("gpu_type,job,sm_util_pct\nv100,a,140\n");
        let mut table = SharingTable::new();
        let told = read_profiles(profiles.path(), &mut table).unwrap_err().to_string();
        assert!(told.contains("line 2: column `sm_util_pct` holds 140; write percent"), "{told}");
    }

    #[test]
    fn a_file_of_something_else_is_no_file_of_profiles() {
        let groups = file("gpu_type,group,job,speed\nv100,1,a,0.4\n");
        let told = read_profiles(groups.path(), &mut SharingTable::new()).unwrap_err().to_string();
        assert!(told.contains("no row says anything of its job; name a file of profiles"), "{told}");
        let families = file("gpu_type,job,family\nv100,a,x\n");
        assert!(read_profiles(families.path(), &mut SharingTable::new()).is_ok());
    }

    #[test]
    fn a_job_type_that_two_rows_tell_differently_is_told() {
        let rows = "gpu_type,job,sm_util_pct,memory_mb\nv100,a,40,\nv100,a,40,900\nk80,a,70,\n";
        let read = |text: &str| {
            let mut table = SharingTable::new();
            read_profiles(file(text).path(), &mut table).unwrap();
            (table.profile(0, 0).get(Quantity::SmUtilPct), table.notes)
        };
        assert_eq!(read(rows), (Some(40.0), Vec::new()));
        let (last, notes) = read(&format!("{rows}v100,a,60,\n"));
        assert!(last == Some(60.0) && notes[0].contains("1 of 4 rows say something else"), "{notes:?}");
    }

    #[test]
    fn what_is_forecast_is_told_and_teaches_nothing() {
        let profiles = file("gpu_type,job,sm_util_pct,memory_mb,forecast\nv100,a,40,900,\nv100,b,60,800,memory_mb\n");
        let read = |read: fn(&Path, &mut SharingTable) -> Result<()>| {
            let mut table = SharingTable::new();
            read(profiles.path(), &mut table).unwrap();
            let of = |job: usize| [Quantity::SmUtilPct, Quantity::MemoryMb].map(|of| table.profile(0, job).get(of));
            (of(0), of(1), table.notes.clone())
        };
        let (a, b, notes) = read(read_profiles);
        assert_eq!((a, b), ([Some(40.0), Some(900.0)], [Some(60.0), Some(800.0)]));
        assert!(notes.len() == 1 && notes[0].contains("1 of 2 profiles hold forecasts"), "{notes:?}");
        let (a, b, notes) = read(read_measured);
        assert_eq!((a, b), ([Some(40.0), Some(900.0)], [Some(60.0), None]));
        assert!(notes[0].contains("do not count"), "{notes:?}");
        let strange = file("gpu_type,job,forecast\nv100,a,yes\n");
        let told = read_profiles(strange.path(), &mut SharingTable::new()).unwrap_err().to_string();
        assert!(told.contains("line 2: column `forecast` names `yes`; name columns"), "{told}");
    }

    /// An empty cell of the second column would make the first unknown.
    #[test]
    fn two_columns_of_one_quantity_are_refused() {
        let told = |text: &str| read_profiles(file(text).path(), &mut SharingTable::new()).unwrap_err().to_string();
        let both = told("gpu_type,job,memory_mb,memory_used\nv100,a,900,\n");
        let expected = "line 1: columns `memory_mb` and `memory_used` are both memory_mb; keep one of the two";
        assert!(both.contains(expected), "{both}");
        assert!(told("model,batch,batch_size,sm_util\nm,8,8,40\n").contains("`batch` and `batch_size` are both batch"));
        assert!(told("gpu_type,job,sm_util_pct,SM_util_pct\nv100,a,40,\n").contains("`sm_util_pct` is named twice"));
    }

    #[test]
    fn misos_profiles_are_of_an_a100() {
        let profiles =
            file("model,batch,sm_util_pct,mem_util_pct,power_w,memory_used\nbert,2,69.71,33.94,160.56,6347.0\n");
        let mut table = SharingTable::new();
        read_profiles(profiles.path(), &mut table).unwrap();
        assert_eq!((table.gpu_types(), table.families()), (&["a100".to_owned()][..], &["bert".to_owned()][..]));
        let bert = table.profile(0, 0);
        assert_eq!((bert.get(Quantity::Batch), bert.get(Quantity::MemoryMb)), (Some(2.0), Some(6347.0)));
    }
}
