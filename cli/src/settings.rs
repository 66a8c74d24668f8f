//! Options that a site sets once: in a file `tracecast.toml`, or in variables of the environment.
//!
//! A setting is a long option by its name. At the top of the file it holds for every command that has the option, in a table named like a command
//! (`[audit]`, `[plan.power]`) for that command. `TRACECAST_TIMEZONE` sets `--timezone`. What is typed comes first, then the environment, then the
//! command's table, then the top of the file. Options that say where an answer is written cannot be set, so that no command overwrites a file unasked.
//!
//! Worked example: with `timezone = "Asia/Shanghai"` in the file, `tracecast describe log.csv` reads local times as those of Shanghai.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory, FromArgMatches};
use serde::Serialize;

use crate::exit::Usage;
use crate::{glossary, output};

/// Name of the file.
const FILE: &str = "tracecast.toml";
/// Names a settings file elsewhere.
const PATH: &str = "TRACECAST_CONFIG";
/// Options that cannot be set: where answers are written, and what only one call can mean or takes the place of another option.
const ONE_CALL: [&str; 29] = [
    "add",
    "by-job",
    "charts",
    "compare",
    "draws",
    "emit-to",
    "file",
    "force",
    "help",
    "jobs",
    "journal",
    "json",
    "manifest",
    "merge",
    "out",
    "quarantine",
    "results",
    "save",
    "save-profiles",
    "scale",
    "schedule",
    "section",
    "share",
    "tables",
    "textfile",
    "trace",
    "version",
    "where",
    "with",
];

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Setting {
    /// The command, as it is typed; empty for the options of all commands.
    pub(crate) command: String,
    /// The option, without dashes.
    pub(crate) option: String,
    /// Values of the setting.
    pub(crate) values: Vec<String>,
    /// The file or variable it comes from.
    pub(crate) from: String,
}

/// Settings of a site.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The file, if there is one, and what it says.
    file: Option<(PathBuf, toml::Table)>,
    /// Settings that a command takes, by command and option.
    pub(crate) in_force: Vec<Setting>,
    /// Keys of the file that some command takes, as paths.
    used: BTreeSet<Vec<String>>,
}

/// Parses the arguments, with settings in the place of defaults. Ends the program, as clap does,
/// when that is no command.
pub(crate) fn parse<A: CommandFactory + FromArgMatches>() -> Result<(A, Settings)> {
    let mut settings = Settings::read(&std::env::current_dir().context("find the current folder")?)?;
    let command = settings.applied(glossary::shortened(A::command(), ""), &mut Vec::new());
    settings.check()?;
    settings.in_force.sort();
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            if let Some(why) = below_zero(&error, std::env::args_os()).or_else(|| beside_share(&error)) {
                return Err(Usage(why).into());
            }
            settings.name_the_source(&error);
            error.exit()
        }
    };
    Ok((A::from_arg_matches(&matches)?, settings))
}

/// Why an option takes no value below zero, where one was given: clap takes it for an option that there is not, and its advice does not help.
fn below_zero(error: &clap::Error, typed: impl Iterator<Item = OsString>) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_number = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    if error.kind() != ErrorKind::UnknownArgument || !is_number(unknown) {
        return None;
    }
    let typed: Vec<String> = typed.map(|word| word.to_string_lossy().into_owned()).collect();
    let pair = typed.windows(2).find(|pair| pair[0].starts_with("--") && pair[1].starts_with(unknown.as_str()))?;
    Some(format!(
        "{} {}: a value here is never below zero; write it without the minus sign, or leave the option out",
        pair[0], pair[1]
    ))
}

/// Remedy where an option of other replays stands beside `simulate --share`: clap says no more than
/// that they do not go together.
fn beside_share(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let sides = [ContextKind::InvalidArg, ContextKind::PriorArg].into_iter().filter_map(|kind| error.get(kind));
    let mut others: Vec<&str> = Vec::new();
    for side in sides {
        match side {
            ContextValue::String(one) => others.push(one),
            ContextValue::Strings(several) => others.extend(several.iter().map(String::as_str)),
            _ => {}
        }
    }
    let mut others: Vec<&str> = others.into_iter().filter_map(|side| side.split_whitespace().next()).collect();
    let all = others.len();
    others.retain(|option| *option != "--share");
    let [other, ..] = others.as_slice() else { return None };
    (others.len() < all).then(|| {
        format!(
            "{other} does not go with --share: there, jobs of one GPU start in order of submission on --gpus GPUs of one type, and no other order, scan or site has a part in it; leave {other} out, or --share. Ways to share are compared by naming several, and --eval-from says from when on jobs are reported"
        )
    })
}

impl Settings {
    /// The file that the environment names, else that of the folder or of one above it.
    fn read(folder: &Path) -> Result<Self> {
        let named = std::env::var_os(PATH).filter(|path| !path.is_empty()).map(PathBuf::from);
        let result = named.or_else(|| folder.ancestors().map(|above| above.join(FILE)).find(|path| path.is_file()));
        let Some(path) = result else { return Ok(Self::default()) };
        let text = crate::source::text(&path)?;
        let table = text
            .parse()
            .map_err(|error: toml::de::Error| Usage(format!("{}: {}", path.display(), error.to_string().trim())))?;
        Ok(Self { file: Some((path, table)), ..Self::default() })
    }

    /// The file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// `command` with settings as the defaults of its options and those of its subcommands. `path` is how it is called.
    fn applied(&mut self, mut command: Command, path: &mut Vec<String>) -> Command {
        let options: Vec<(String, String, bool)> = command
            .get_arguments()
            .filter_map(|option| {
                let takes = matches!(option.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue);
                let long = option.get_long().filter(|long| takes && !ONE_CALL.contains(long))?;
                Some((option.get_id().to_string(), long.to_owned(), matches!(option.get_action(), ArgAction::SetTrue)))
            })
            .collect();
        for (id, long, is_flag) in options {
            let Some((values, from)) = self.value(path, &long) else { continue };
            let values = match values.as_slice() {
                // A flag that is not set is what its default says already.
                [value] if is_flag && ["false", "0", "no"].contains(&value.as_str()) => continue,
                [value] if is_flag && ["true", "1", "yes"].contains(&value.as_str()) => vec!["true".to_owned()],
                _ => values,
            };
            self.in_force.push(Setting { command: path.join(" "), option: long, values: values.clone(), from });
            command = command.mut_arg(id, |option| option.default_values(values).required(false));
        }
        let subcommands: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        for name in subcommands {
            path.push(name.clone());
            command = command.mut_subcommand(name, |sub| self.applied(sub, path));
            path.pop();
        }
        command
    }

    /// The values of an option of a command, and where they come from.
    fn value(&mut self, command: &[String], long: &str) -> Option<(Vec<String>, String)> {
        let (mut result, mut from) = (None, String::new());
        if let Some((path, table)) = &self.file {
            // The top of the file first, then the tables on the way to the command, of which the last counts.
            for depth in 0..=command.len() {
                let mut table = Some(table);
                for name in command.iter().take(depth) {
                    table = table.and_then(|table| table.get(name)).and_then(toml::Value::as_table);
                }
                let value = |key: &String| table.and_then(|table| table.get(key)).and_then(texts);
                let keys = [long.to_owned(), long.replace('-', "_")];
                if let Some((values, key)) = keys.into_iter().find_map(|key| Some((value(&key)?, key))) {
                    self.used.insert(command.iter().take(depth).cloned().chain([key]).collect());
                    (result, from) = (Some(values), path.display().to_string());
                }
            }
        }
        let variable = format!("TRACECAST_{}", long.replace('-', "_").to_ascii_uppercase());
        if let Ok(value) = std::env::var(&variable)
            && !value.is_empty()
        {
            (result, from) = (Some(vec![value]), variable);
        }
        result.map(|values| (values, from))
    }

    /// Says where a value that an option refuses comes from, if nobody typed it.
    fn name_the_source(&self, error: &clap::Error) {
        let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return };
        if let Some(setting) = self.in_force.iter().find(|setting| setting.values.contains(value)) {
            output::say(false, &format!("tracecast: `{value}` is set in {}, for --{}", setting.from, setting.option));
        }
    }

    /// Refuses keys that no command takes: a setting that is misspelt would otherwise do nothing.
    fn check(&self) -> Result<()> {
        let Some((path, table)) = &self.file else { return Ok(()) };
        let mut keys = Vec::new();
        leaves(table, &mut Vec::new(), &mut keys);
        if let Some(unknown) = keys.iter().find(|key| !self.used.contains(*key)) {
            let key = unknown.join(".");
            let why = if unknown.last().is_some_and(|last| ONE_CALL.contains(&last.as_str())) {
                "it is typed with each call, as it says what one call asks or where it writes"
            } else {
                "no command has an option of that name there, or its value is no text, number, flag or list of these"
            };
            return Err(Usage(format!(
                "{}: `{key}`: {why}; `tracecast COMMAND --help` lists the options",
                path.display()
            ))
            .into());
        }
        Ok(())
    }
}

/// A value as it would be typed; `None` for what cannot be typed.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) | toml::Value::Datetime(_) => {
            Some(value.to_string())
        }
        toml::Value::Array(_) | toml::Value::Table(_) => None,
    };
    match value {
        toml::Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    }
}

/// Paths of all values that are no tables.
fn leaves(table: &toml::Table, path: &mut Vec<String>, result: &mut Vec<Vec<String>>) {
    for (key, value) in table {
        path.push(key.clone());
        match value {
            toml::Value::Table(table) => leaves(table, path, result),
            _ => result.push(path.clone()),
        }
        path.pop();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cmd::Arguments;

    fn with(text: &str) -> Settings {
        Settings { file: Some((PathBuf::from("tracecast.toml"), text.parse().unwrap())), ..Settings::default() }
    }

    #[test]
    fn a_commands_table_comes_before_the_top_and_what_is_typed_before_both() {
        let mut settings =
            with("timezone = \"Asia/Shanghai\"\n[plan.power]\nslot = \"1h\"\ntimezone = \"Europe/Berlin\"\n");
        let command = settings.applied(Arguments::command(), &mut Vec::new());
        settings.check().unwrap();
        let zone = |typed: &[&str]| {
            let matches = command.clone().try_get_matches_from(typed).unwrap();
            let mut inner = &matches;
            while let Some((_, sub)) = inner.subcommand() {
                inner = sub;
            }
            inner.get_one::<tracecast_analytics::time::Zone>("timezone").unwrap().name().to_owned()
        };
        assert_eq!(zone(&["tracecast", "describe", "x"]), "Asia/Shanghai");
        assert_eq!(zone(&["tracecast", "plan", "power", "x"]), "Europe/Berlin");
        assert_eq!(zone(&["tracecast", "describe", "x", "--timezone", "UTC"]), "UTC");
    }

    #[test]
    fn values_below_zero_are_told() {
        let told = |typed: &[&str]| {
            let error = Arguments::command().try_get_matches_from(typed).unwrap_err();
            below_zero(&error, typed.iter().map(OsString::from))
        };
        let plan = ["tracecast", "plan", "nodes", "x", "--target-p95"];
        assert!(
            told(&[&plan[..], &["-1h"]].concat())
                .unwrap()
                .starts_with("--target-p95 -1h: a value here is never below zero")
        );
        assert!(told(&[&plan[..], &["1h", "--scale", "-0.5"]].concat()).unwrap().starts_with("--scale -0.5: "));
        // Nothing of the kind.
        assert_eq!(told(&[&plan[..], &["1h", "-z"]].concat()), None);
        assert_eq!(told(&[&plan[..], &["1h", "--nothing"]].concat()), None);
    }

    #[test]
    fn misspelt_keys_and_places_to_write_are_refused() {
        for text in ["timezon = \"UTC\"\n", "[describ]\ntimezone = \"UTC\"\n", "out = \"x\"\n", "timezone = [[1]]\n"] {
            let mut settings = with(text);
            let _ = settings.applied(Arguments::command(), &mut Vec::new());
            assert!(settings.check().is_err(), "{text}");
        }
    }
}
