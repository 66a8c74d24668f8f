//! `tracecast.toml` and `TRACECAST_*`: what a site sets once.

use std::process::Command;

use super::*;

fn run(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(arguments)
        .current_dir(folder.0.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn what_is_typed_comes_before_the_environment_and_that_before_the_file() {
    let folder = Folder::new();
    let source = folder.file("log.swf", "; MaxProcs: 8\n1 0 5 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n; end\n");
    folder.file("tracecast.toml", "timezone = \"Asia/Tokyo\"\n[describe]\nformat = \"json\"\n");
    let zone = |arguments: &[&str], environment: &[(&str, &str)]| {
        let output = run(&folder, &[&["describe", source.as_str()], arguments].concat(), environment);
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))["calendar"]["zone"].as_str().unwrap().to_owned()
    };
    assert_eq!(zone(&[], &[]), "Asia/Tokyo");
    assert_eq!(zone(&[], &[("TRACECAST_TIMEZONE", "Europe/Berlin")]), "Europe/Berlin");
    assert_eq!(zone(&["--timezone", "UTC"], &[("TRACECAST_TIMEZONE", "Europe/Berlin")]), "UTC");
    let told = stdout(&run(&folder, &["config"], &[("TRACECAST_THREADS", "1")]));
    for part in ["Asia/Tokyo", "--timezone", "TRACECAST_THREADS", "describe"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_key_that_nothing_takes_is_an_error() {
    let folder = Folder::new();
    folder.file("tracecast.toml", "timezon = \"UTC\"\n");
    let output = run(&folder, &["formats"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("timezon"), "{}", stderr(&output));
}

#[test]
fn man_pages_and_completions_are_written_for_every_command() {
    let folder = Folder::new();
    let output = run(&folder, &["manual", "--out", "share"], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(folder.path("share/man/man1/tracecast-plan-power.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("service"));
    assert!(std::fs::read_to_string(folder.path("share/completions/tracecast.bash")).unwrap().contains("backtest"));
}
