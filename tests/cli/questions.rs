//! `tracecast` alone: which command answers which question.

use super::*;

/// The commands it prints, each after its question.
fn printed() -> Vec<(String, String)> {
    let output = tracecast(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    let pairs =
        lines.windows(2).filter_map(|of| Some((of[0].to_owned(), of[1].strip_prefix("  tracecast ")?.to_owned())));
    pairs.collect()
}

/// The README lists the questions as rows of its table, in the same order.
#[test]
fn the_readme_has_the_same_questions() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let rows: Vec<(String, String)> = readme
        .lines()
        .filter_map(|line| {
            let (question, rest) = line.strip_prefix("| ")?.split_once(" | `tracecast ")?;
            Some((question.to_owned(), rest.split_once('`')?.0.to_owned()))
        })
        .collect();
    assert_eq!(rows, printed());
    assert!(readme.lines().count() <= 120);
}

/// Each command runs in a clone as it is printed; those that a guide shows are run with the guides.
#[test]
fn each_command_answers() {
    let folder = Folder::new();
    let pages: Vec<String> =
        guide::guides("cli/guide").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let shown: Vec<&str> = pages.iter().filter_map(|page| Some(guide::shown(page)?.0)).collect();
    for (question, command) in printed().into_iter().filter(|(_, command)| !shown.contains(&command.as_str())) {
        let mut words = guide::words(&command);
        if words[0] == "report" {
            words.extend(["--out".to_owned(), folder.path("report")]);
        }
        let output = tracecast_in_short(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{question}: {}", stderr(&output));
    }
}
