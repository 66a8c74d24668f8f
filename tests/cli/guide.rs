//! The guides and maps tell what is there: option lists as `--help` prints them, modules that exist, links that lead somewhere.

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

/// `--help` of a command and of its subcommands, in the order in which they are listed.
fn helps(command: &[&str], into: &mut String) {
    let mut arguments = command.to_vec();
    arguments.push("--help");
    let text = stdout(&tracecast(&arguments));
    let name = if command.is_empty() { "tracecast".to_owned() } else { format!("tracecast {}", command.join(" ")) };
    into.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", text.trim_end()));
    let listed = text.split("\nCommands:\n").nth(1).unwrap_or_default();
    // A line of the list begins with two blanks and a name; deeper ones go on with what the line above says.
    let names = listed.lines().take_while(|line| !line.is_empty());
    for line in names.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let Some(sub) = line.split_whitespace().next().filter(|sub| *sub != "help") else { continue };
        let mut deeper = command.to_vec();
        deeper.push(sub);
        helps(&deeper, into);
    }
}

/// `TRACECAST_WRITE=1 cargo test --release --test cli guide` writes the page anew.
#[test]
fn the_page_of_options_is_what_help_prints() {
    let mut page = "# All options\n\nAs `--help` prints them; a test holds this page against the command.\n".to_owned();
    helps(&[], &mut page);
    assert!(page.contains("## tracecast plan power"), "commands below commands are listed");
    let path = root().join("cli/guide/options.md");
    if std::env::var_os("TRACECAST_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == page, "cli/guide/options.md is old: TRACECAST_WRITE=1 cargo test --release --test cli guide");
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
