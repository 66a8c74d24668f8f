//! `tracecast manual`: man pages and completions, for a package or a site's own install.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;

use super::Arguments;
use crate::{early, glossary, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, for this user:
  tracecast manual --out ~/.local/share
  man tracecast-plan-power")]
pub(crate) struct Manual {
    /// Folder into which man/man1 and completions are written, beside what is there and in place of earlier ones
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
}

pub(crate) fn run(request: &Manual, quiet: bool) -> Result<()> {
    early::writable_folder(&request.out)?;
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let mut command = glossary::shortened(Arguments::command(), "");
    command.build();
    pages(&command, &request.out.join("man/man1"), &mut files)?;
    for shell in Shell::value_variants() {
        files.push((request.out.join("completions").join(format!("tracecast.{shell}")), completions(*shell)));
    }
    let written: Vec<_> = files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect();
    output::write_all(&written)?;
    output::say(quiet, &format!("{} files written to {}", files.len(), request.out.display()));
    Ok(())
}

/// The script that completes commands in a shell. In memory: the generator panics where it cannot write.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tracecast", &mut script);
    script
}

/// The page of a command and those of its subcommands.
fn pages(command: &clap::Command, folder: &std::path::Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).context("write a man page")?;
    files.push((folder.join(format!("{name}.1")), page));
    let mut shown = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    shown.try_for_each(|sub| pages(sub, folder, files))
}
