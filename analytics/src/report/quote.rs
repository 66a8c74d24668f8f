//! Names of users, VCs, partitions, jobs and nodes in files for other programs: quoted, or refused, by the grammar of each.
//!
//! | grammar | a text | bare words |
//! |---|---|---|
//! | Slurm's `.conf` | [`slurm`]: none with a double quote or a control character | [`is_slurm_value`] |
//! | sh | [`sh`]: none with a NUL | [`is_word`] |
//! | Lua | [`lua`] | |
//! | YAML 1.2, JSON | [`yaml`] | |
//! | TOML | [`fn@toml`] | [`is_word`] without points |
//! | systemd | [`systemd`] | [`is_word`] |
//!
//! Comments are of one grammar: a mark, and text that cannot end the line ([`comments`]). Whoever emits a file takes its quotes from here, so that there is one place to look
//! at, and tests parse back what it writes. O(length).
//!
//! Worked example: the VC `a"; os.exit() --` is `"a\"; os.exit() --"` in Lua, and `'a"; os.exit() --'` in sh.

use std::fmt::Write as _;

use super::markup::printable;

/// Lines as comments that begin with `mark`: what comes from the user's files stays on its line.
pub fn comments(mark: &str, lines: &[String]) -> String {
    lines.iter().map(|line| format!("{mark} {}\n", printable(line))).collect()
}

/// Whether a text is letters, digits, `.`, `_` and `-`, and no option: a word of the shell, of systemd and of Slurm as it stands.
pub fn is_word(text: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(good)
}

/// Whether a text can be a value of Slurm's files as it stands.
pub fn is_slurm_value(text: &str) -> bool {
    let bad = |letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, '"' | '#' | '\\');
    !text.is_empty() && !text.contains(bad)
}

/// A text as a value of Slurm's files; `None` if they cannot hold it, as they escape no quotes and no ends of lines.
pub fn slurm(text: &str) -> Option<String> {
    if text.contains(|letter: char| letter == '"' || letter.is_control()) {
        return None;
    }
    let escaped = text.replace('\\', "\\\\").replace('#', "\\#");
    Some(if text.is_empty() || text.contains(char::is_whitespace) { format!("\"{escaped}\"") } else { escaped })
}

/// A text as one word of the shell; `None` if it holds a NUL, which no word can.
pub fn sh(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| format!("'{}'", text.replace('\'', "'\\''")))
}

/// A text as a string of Lua, of any version.
pub fn lua(text: &str) -> String {
    in_double_quotes(text, |letter, out| {
        // Three digits, so that one behind them is not taken for another. Writing to a string cannot fail.
        let mut bytes = [0; 4];
        for byte in letter.encode_utf8(&mut bytes).bytes() {
            let _ = write!(out, "\\{byte:03}");
        }
    })
}

/// A text as a string of YAML 1.2, in ASCII; JSON reads the same but for letters beyond 16 bits.
pub fn yaml(text: &str) -> String {
    let mut out = String::new();
    for letter in in_double_quotes(text, by_code).chars() {
        // Readers of YAML differ in which letters may stand as they are.
        if letter.is_ascii() { out.push(letter) } else { by_code(letter, &mut out) }
    }
    out
}

/// A text as a string of TOML, on one line.
pub fn toml(text: &str) -> String {
    in_double_quotes(text, by_code)
}

/// A text as one word of a command line in a unit of systemd, which expands `%` and `$` within quotes, too.
pub fn systemd(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "./_-+=:@,".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let doubled = text.replace('%', "%%").replace('$', "$$");
    in_double_quotes(&doubled, |letter, out| {
        let mut bytes = [0; 4];
        for byte in letter.encode_utf8(&mut bytes).bytes() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    })
}

/// `\u` and four digits, or `\U` and eight: YAML reads a pair of surrogates as two letters.
fn by_code(letter: char, out: &mut String) {
    let code = u32::from(letter);
    // Writing to a string cannot fail.
    let _ = if code > 0xffff { write!(out, "\\U{code:08x}") } else { write!(out, "\\u{code:04x}") };
}

/// A text in double quotes, with a backslash before quotes and backslashes, and what `escape` makes of letters that do not print.
fn in_double_quotes(text: &str, escape: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            // What is replaced where it is shown: controls, ends of lines, marks that turn the direction of writing.
            letter if !printable(letter.encode_utf8(&mut [0; 4])).starts_with(letter) => {
                escape(letter, &mut out);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::*;

    /// Names as an attacker would choose them, and any.
    fn hostile() -> impl Strategy<Value = String> {
        let parts = vec![
            "vision",
            "'",
            "\"",
            "\\",
            "\n",
            "\r",
            "\t",
            " ",
            "#",
            "%",
            "$",
            "$(reboot)",
            "`reboot`",
            ";",
            "]]",
            "--",
            "=",
            "{{",
            "é",
            "\u{85}",
            "\u{2028}",
            "\u{1b}[2J",
            "\u{7f}",
            "\u{202e}",
            "\u{1f600}",
            "\0",
            "-rf",
            "NodeName=x",
            ": ",
            "- ",
            "|",
            "&",
            "*",
            "%i",
            "0",
        ];
        prop_oneof![
            proptest::collection::vec(proptest::sample::select(parts), 0..7).prop_map(|parts| parts.concat()),
            any::<String>()
        ]
    }

    /// Escapes of Lua: `\ddd`, and a letter behind a backslash.
    fn unescaped(inner: &str) -> Vec<u8> {
        let (mut bytes, mut out) = (inner.bytes().peekable(), Vec::new());
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            let mut digits = String::new();
            while digits.len() < 3 && bytes.peek().is_some_and(u8::is_ascii_digit) {
                digits.extend(bytes.next().map(char::from));
            }
            out.push(if digits.is_empty() { bytes.next().unwrap() } else { digits.parse().unwrap() });
        }
        out
    }

    #[test]
    fn the_worked_example() {
        let name = "a\"; os.exit() --";
        assert_eq!(lua(name), r#""a\"; os.exit() --""#);
        assert_eq!(sh(name).unwrap(), r#"'a"; os.exit() --'"#);
        assert_eq!(slurm("a b#\\").unwrap(), "\"a b\\#\\\\\"");
        assert_eq!((slurm(name), slurm("a\nb"), sh("\0")), (None, None, None));
        assert_eq!(systemd("/etc/a b/%i $x"), "\"/etc/a b/%%i $$x\"");
        assert_eq!(systemd("/etc/plan.tcm"), "/etc/plan.tcm");
        assert_eq!(comments("#", &["a\njob".to_owned(), "b\u{85}c".to_owned()]), "# a job\n# b\u{fffd}c\n");
        assert_eq!(["a-b.c_1", "-rf", "", "a b", "é"].map(is_word), [true, false, false, false, false]);
    }

    proptest! {
        #[test]
        fn texts_are_read_back(text in hostile()) {
            let table = format!("name = {}\n", toml(&text)).parse::<::toml::Table>().unwrap();
            prop_assert_eq!(table.get("name").unwrap().as_str().unwrap(), &text);
            let quoted = yaml(&text);
            prop_assert!(quoted.is_ascii() && !quoted.contains('\n'));
            if !quoted.contains("\\U") {
                prop_assert_eq!(&serde_json::from_str::<String>(&quoted).unwrap(), &text);
            }
            let string = lua(&text);
            prop_assert!(!string.contains(['\n', '\r', '\0']));
            prop_assert_eq!(unescaped(&string[1..string.len() - 1]), text.as_bytes());
            prop_assert_eq!(comments("--", std::slice::from_ref(&text)).lines().count(), 1);
            if let Some(value) = slurm(&text) {
                // As Slurm takes a line: no comment begins in it, and it is one word.
                prop_assert!(!value.replace("\\\\", "").replace("\\#", "").contains('#'));
                let bare = value.trim_matches('"').replace("\\#", "#").replace("\\\\", "\\");
                prop_assert!(value.starts_with('"') || !value.contains(char::is_whitespace));
                prop_assert_eq!(bare, text.clone());
            }
            prop_assert!(!is_slurm_value(&text) || slurm(&text).as_ref() == Some(&text));
            let word = systemd(&text);
            prop_assert!(!word.replace("%%", "").contains('%') && !word.replace("$$", "").contains('$') && !word.contains(['\n', '\r']));
        }
    }

    /// The shell's own words, and Lua's where there is one.
    #[test]
    fn the_programs_themselves_read_them_back() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..100 {
            let text = hostile().new_tree(&mut runner).unwrap().current();
            if let Some(word) = sh(&text) {
                let said = Command::new("sh").args(["-c", &format!("printf '%s.' {word}")]).output().unwrap();
                assert_eq!(said.stdout, format!("{text}.").as_bytes(), "{text:?}");
            }
            let script = format!("io.write({})", lua(&text));
            let luas = ["lua", "lua5.4", "lua5.3", "lua5.1"];
            match luas.iter().find_map(|lua| Command::new(lua).args(["-e", &script]).output().ok()) {
                Some(said) => assert_eq!(said.stdout, text.as_bytes(), "{text:?}"),
                None => println!("not run: there is no Lua on this machine"),
            }
        }
    }
}
