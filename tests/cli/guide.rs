//! Guides and maps name what exists: help of every command, modules, links that lead somewhere.

use super::*;

/// The pages that people read first.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("datasets/README.md"), root().join("cli/CHANGELOG.md")];
    for name in ["analytics", "predictors", "planner"] {
        pages.extend([root().join(name).join("README.md"), root().join(name).join("RESULTS.md")]);
    }
    pages.extend(guides("cli/guide"));
    pages.extend(guides("cli/guide/reference"));
    pages
}

/// The pages of a folder, in order.
pub(crate) fn guides(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|of| of == "md")).collect();
    pages.sort();
    pages
}

/// The words of a command line, where quotes hold words together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// First bytes of a page's console block.
const CONSOLE: &str = "```console\n$ tracecast ";

/// The command of a page and the output that the page shows, if it shows one.
pub(crate) fn shown(page: &str) -> Option<(&str, &str)> {
    page.split_once(CONSOLE)?.1.split_once("\n```")?.0.split_once('\n')
}

/// Each guide fits on a page, and shows what its command prints today: `TRACECAST_WRITE=1 cargo
/// test --release --test cli guides` writes the outputs anew, with as many lines as before.
#[test]
fn guides_show_what_their_commands_print() {
    let (mut total, mut run) = (0, 0);
    for path in guides("cli/guide") {
        let page = std::fs::read_to_string(&path).unwrap();
        let count = page.split_whitespace().count();
        assert!(count <= if path.ends_with("formats.md") { 1500 } else { 700 }, "{}: {count} words", path.display());
        total += count;
        let Some((command, output)) = shown(&page) else { continue };
        run += 1;
        let words = words(command);
        let printed = tracecast_in_short(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(printed.status.success(), "{command}: {}", stderr(&printed));
        let printed = stdout(&printed);
        let expected = match output.strip_suffix("\n…") {
            Some(shown) => {
                let lines: Vec<&str> = printed.lines().take(shown.lines().count()).collect();
                lines.join("\n") + "\n…"
            }
            None => printed.trim_end().to_owned(),
        };
        if std::env::var_os("TRACECAST_WRITE").is_some() {
            std::fs::write(&path, page.replace(output, &expected)).unwrap();
        } else {
            assert_eq!(output, expected, "{}", path.display());
        }
    }
    for path in guides("cli/guide/reference") {
        total += std::fs::read_to_string(&path).unwrap().split_whitespace().count();
    }
    assert!(run >= 10 && total <= 25_000, "{run} outputs shown, {total} words");
}

/// The short help of every command fits two screens.
#[test]
fn short_help_fits_two_screens() {
    let listed = std::fs::read_to_string(root().join("tests/cli/help.txt")).unwrap();
    for line in listed.lines() {
        let (name, _) = line.rsplit_once(' ').unwrap();
        let short =
            stdout(&tracecast(&[&words(name).iter().map(String::as_str).collect::<Vec<_>>()[..], &["-h"]].concat()));
        assert!(short.lines().count() <= 60, "{name}: {} lines", short.lines().count());
    }
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
