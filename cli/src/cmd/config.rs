//! `tracecast config`.

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::{Column, ReportTable, text};

use crate::args::Plain;
use crate::cmd::answer;
use crate::output;
use crate::settings::Settings;

#[derive(Debug, Args)]
#[command(after_help = "\
A file tracecast.toml in the current folder, or in one above it, sets options by their names:
  timezone = \"Asia/Shanghai\"    # for every command that has --timezone
  threads = 8
  [audit]                       # for one command
  price = 0.12

A variable such as TRACECAST_TIMEZONE sets an option, too. What is typed comes first, then the variable, then the command's part of the \
file, then its top. TRACECAST_CONFIG names a file elsewhere. Options that name a file to write cannot be set.

Example, what is set here:
  tracecast config")]
pub(crate) struct Config {
    /// Form in which the answer is written
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
}

pub(crate) fn run(request: &Config, settings: &Settings) -> Result<()> {
    if request.format == Plain::Json {
        return output::text(&answer::json(&settings.in_force, "the settings")?, None);
    }
    let file = settings.path().map_or_else(
        || "No file tracecast.toml in this folder or above it.".to_owned(),
        |path| format!("Settings file: {}", path.display()),
    );
    if settings.in_force.is_empty() {
        return output::text(&format!("{file}\nNothing is set: every option has its own default.\n"), None);
    }
    let mut table =
        ReportTable::new("Options that are set", ["Command", "Option", "Value", "From"].map(Column::text).to_vec());
    for setting in &settings.in_force {
        let command = if setting.command.is_empty() { "all" } else { setting.command.as_str() };
        table.rows.push(vec![
            command.into(),
            format!("--{}", setting.option).into(),
            setting.values.join(", ").into(),
            setting.from.as_str().into(),
        ]);
    }
    output::text(&format!("{file}\n\n{}", text::table(&table, output::terminal())), None)
}
