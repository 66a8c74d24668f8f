//! The guides and maps tell what is there: help of every command, modules that exist, links that lead somewhere.

use super::*;

/// The pages that people read first.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("datasets/README.md"), root().join("cli/CHANGELOG.md")];
    for name in ["analytics", "predictors", "planner"] {
        pages.extend([root().join(name).join("README.md"), root().join(name).join("RESULTS.md")]);
    }
    for entry in std::fs::read_dir(root().join("cli/guide")).unwrap() {
        pages.push(entry.unwrap().path());
    }
    pages
}

/// Holds the help of a command and of its subcommands, and adds a line with the hash of each in the order in which they are listed.
fn help(command: &[&str], hashes: &mut String) {
    let output = tracecast(&[command, &["--help"]].concat());
    let text = stdout(&output);
    let usage = format!("Usage: {}", [&["tracecast"], command].concat().join(" "));
    assert!(output.status.success() && text.contains(&usage), "{command:?}: {text}");
    assert!(text.starts_with(char::is_uppercase), "{command:?} begins with what it does: {text}");
    hashes.push_str(&format!("{} {}\n", command.join(" "), &sha256(text.as_bytes())[..16]));
    let listed = text.split("\nCommands:\n").nth(1).unwrap_or_default();
    // A line of the list begins with two blanks and a name; deeper ones go on with what the line above says.
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let subs = names.filter_map(|line| line.split_whitespace().next()).filter(|sub| *sub != "help");
    subs.for_each(|sub| help(&[command, &[sub]].concat(), hashes));
}

/// No option is lost or changed unseen: `TRACECAST_WRITE=1 cargo test --release --test cli help` writes the hashes anew.
#[test]
fn help_changes_only_on_purpose() {
    let mut hashes = String::new();
    help(&[], &mut hashes);
    let path = root().join("tests/cli/help.txt");
    if std::env::var_os("TRACECAST_WRITE").is_some() {
        std::fs::write(&path, &hashes).unwrap();
    }
    let held = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<&str> = hashes.lines().filter(|line| !held.lines().any(|old| old == *line)).collect();
    assert!(hashes == held && hashes.lines().count() > 40, "changed: {changed:?}");
}

#[test]
fn maps_of_crates_name_every_module() {
    for name in ["analytics", "predictors", "planner"] {
        let map = std::fs::read_to_string(root().join(name).join("README.md")).unwrap();
        let mut named: Vec<&str> = map.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let code = std::fs::read_to_string(root().join(name).join("src/lib.rs")).unwrap();
        let mut there: Vec<&str> = code
            .lines()
            .filter_map(|line| line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?.strip_suffix(';'))
            .collect();
        named.sort_unstable();
        there.sort_unstable();
        assert_eq!(named, there, "{name}/README.md");
    }
}

#[test]
fn links_of_the_pages_lead_to_files() {
    let mut links = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let target = page.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{}: {link}", page.display());
            links += 1;
        }
    }
    assert!(links > 30, "{links} links found");
}
