use super::super::tests::names;
use super::*;

#[test]
fn files_of_a_set_are_written_all_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let (page, data) = (folder.path().join("report.html"), folder.path().join("report.json"));
    write_files(&[(&page, b"old page"), (&data, b"old data")]).unwrap();
    // The second cannot be written, as its folder is not there.
    let missing = folder.path().join("no/report.json");
    assert!(write_files(&[(&page, b"new page"), (&missing, b"new data")]).is_err());
    assert_eq!(fs::read(&page).unwrap(), b"old page");
    assert_eq!(names(folder.path()), ["report.html", "report.json"]);
}

#[test]
fn what_is_not_done_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let unfinished = Unfinished::folder(&folder.path().join("trace")).unwrap();
    let half = unfinished.path().to_owned();
    fs::write(half.join("jobs.parquet"), "half").unwrap();
    assert!(all().contains(&half));
    drop(unfinished);
    assert!(!all().contains(&half));
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Found under attack: the passing name held the file's and the process's number, and a link of that name led the bytes elsewhere.
#[cfg(unix)]
#[test]
fn a_link_under_a_name_that_was_foreseen_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    for suffix in ["partial", "old"] {
        let foreseen = folder.path().join(format!(".b.json.{}.{suffix}", std::process::id()));
        std::os::unix::fs::symlink(&precious, foreseen).unwrap();
    }
    let out = folder.path().join("b.json");
    write_files(&[(&out, b"one")]).unwrap();
    write_files(&[(&out, b"two")]).unwrap();
    assert_eq!((fs::read(&out).unwrap(), fs::read(&precious).unwrap()), (b"two".to_vec(), b"mine".to_vec()));
    // No two passing names are alike, and a file has the permissions that it has elsewhere.
    let passing = || Unfinished::file(&out).unwrap();
    let (one, other) = (passing(), passing());
    assert_ne!(one.path(), other.path());
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
    assert_eq!(mode(&out), mode(&plain));
    fs::create_dir(folder.path().join("sub")).unwrap();
    let made = Unfinished::folder(&folder.path().join("made")).unwrap();
    assert_eq!(mode(made.path()), mode(&folder.path().join("sub")));
}

/// Remains of a killed program are removed; files in use, or of somebody else, stay.
#[test]
fn what_was_left_behind_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let is_ours = |name: &str| name == "jobs.parquet";
    let make = |name: &str, file: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(file), "").unwrap();
    };
    make(".tracecast.left.partial", "jobs.parquet");
    make(".tracecast.hers.partial", "notes.txt");
    make("trace", "jobs.parquet");
    fs::write(folder.path().join(".tracecast.file.partial"), "half").unwrap();
    let at_work = [Unfinished::folder, Unfinished::file].map(|begin| begin(&folder.path().join("other")).unwrap());
    let working = at_work.iter().map(|of| of.path().file_name().unwrap().to_string_lossy().into_owned());
    std::thread::sleep(LEFT_BEHIND);
    remove_left_behind(folder.path(), &is_ours);
    let mut expected: Vec<String> = working.chain([".tracecast.hers.partial".to_owned(), "trace".to_owned()]).collect();
    expected.sort();
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn a_folder_is_exchanged_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("trace");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("old"), "").unwrap();
    fs::write(target.join("notes"), "mine").unwrap();
    let new = Unfinished::folder(&target).unwrap();
    fs::write(new.path().join("new"), "").unwrap();
    new.replace(&target, &["old".to_owned()], &["notes".into()]).unwrap();
    assert_eq!((names(&target), names(folder.path())), (vec!["new".into(), "notes".into()], vec!["trace".into()]));
    // As where the system has no exchange.
    assert!(exchange(&folder.path().join("none"), &target).is_err());
    assert_eq!(names(&target), ["new", "notes"]);
}
