#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::schema::JobRow;

fn trace(jobs: usize) -> Trace {
    let mut trace = Trace::default();
    for key in 0..jobs {
        trace.jobs.push(JobRow { job_key: Some(key.to_string().into()), submit: Some(0), ..JobRow::default() });
    }
    trace
}

/// Names in a folder, in order.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_of_another_program_is_never_replaced() {
    let place_of = |manifest: &str| {
        let folder = tempfile::tempdir().unwrap();
        let extension = folder.path().join("extension");
        fs::create_dir(&extension).unwrap();
        fs::write(extension.join("manifest.json"), manifest).unwrap();
        fs::write(extension.join("background.js"), "run()").unwrap();
        let refused = save(&trace(1), &extension).unwrap_err().to_string();
        assert!(refused.contains("no trace folder of this program"), "{refused}");
        assert_eq!(
            (names(&extension), names(folder.path())),
            (vec!["background.js".into(), "manifest.json".into()], vec!["extension".into()])
        );
        (is_folder(&extension), place(&extension))
    };
    // A browser extension, a file that is no JSON, and the fields that we write without our name in them.
    for manifest in [
        r#"{"manifest_version": 3, "name": "x", "version": "1.0"}"#,
        "no JSON",
        "",
        r#"{"schema": "trace/1", "written_by": "another 1.0", "tables": []}"#,
        r#"{"schema": "asset/1", "written_by": "tracecast 0.1.0", "tables": []}"#,
    ] {
        assert_eq!(place_of(manifest), (false, Place::Other), "{manifest}");
    }
}

#[test]
fn of_a_trace_folder_only_what_its_manifest_lists_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("trace");
    save(&trace(3), &target).unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    fs::create_dir(target.join("figures")).unwrap();
    fs::write(target.join("figures/a.svg"), "<svg/>").unwrap();
    save(&trace(2), &target).unwrap();
    assert_eq!(load(&target).unwrap().jobs.len(), 2);
    assert_eq!(names(&target), ["figures", "jobs.parquet", "manifest.json", "notes.txt"]);
    assert_eq!(fs::read_to_string(target.join("figures/a.svg")).unwrap(), "<svg/>");
    // Nothing of a passing name is left beside it.
    assert_eq!(names(folder.path()), ["trace"]);
    // A table that the manifest does not list is somebody's: it is not overwritten.
    save(&Trace::default(), &target).unwrap();
    fs::write(target.join("jobs.parquet"), "mine").unwrap();
    let refused = save(&trace(1), &target).unwrap_err().to_string();
    assert!(refused.contains("jobs.parquet"), "{refused}");
    assert_eq!(fs::read_to_string(target.join("jobs.parquet")).unwrap(), "mine");
    assert_eq!(names(folder.path()), ["trace"]);
}

#[test]
fn names_in_a_manifest_lead_to_no_file_outside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("trace");
    save(&trace(1), &target).unwrap();
    fs::write(folder.path().join("precious.parquet"), "mine").unwrap();
    let manifest = fs::read_to_string(target.join("manifest.json")).unwrap();
    fs::write(target.join("manifest.json"), manifest.replace("\"name\": \"jobs\"", "\"name\": \"../precious\""))
        .unwrap();
    fs::remove_file(target.join("jobs.parquet")).unwrap();
    save(&trace(1), &target).unwrap();
    assert_eq!(names(folder.path()), ["precious.parquet", "trace"]);
}

#[test]
fn an_empty_folder_and_a_link_to_a_trace_are_filled() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("trace"), folder.path().join("link"));
    fs::create_dir(&target).unwrap();
    save(&trace(1), &target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    save(&trace(2), &link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(load(&target).unwrap().jobs.len(), 2);
    assert_eq!(names(folder.path()), ["link", "trace"]);
}

#[test]
fn a_file_that_never_ends_is_refused_with_the_bound() {
    let refused = read_text(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(refused.contains("/dev/zero") && refused.contains("more than 16 MiB"), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("factors.toml");
    fs::write(&path, "[pue]\n").unwrap();
    assert_eq!(read_text(&path).unwrap(), "[pue]\n");
    fs::write(&path, [0xff]).unwrap();
    assert!(read_text(&path).unwrap_err().to_string().contains("no text"));
}

/// Found under attack: of a flipped byte the Parquet library said `expected {levels_to_read}`.
#[test]
fn damaged_tables_are_told_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("trace");
    save(&trace(300), &target).unwrap();
    let table = target.join("jobs.parquet");
    let whole = fs::read(&table).unwrap();
    let mut refused = 0;
    for at in (4..whole.len()).step_by(1 + whole.len() / 400) {
        for bit in [0x01, 0x40, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= bit;
            fs::write(&table, &bytes).unwrap();
            let Err(error) = load(&target) else { continue };
            refused += 1;
            let mut told = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                told.push_str(&source.to_string());
            }
            assert!(told.contains("jobs.parquet") && !told.contains('{'), "byte {at}: {told}");
        }
    }
    assert!(refused > 10, "{refused}");
    let source = ParquetError::General("expected {levels_to_read}, got {levels_read}".to_owned());
    assert!(unreadable(&table, Some(source)).to_string().contains("damaged, or cut off"));
}
