//! Options that `-h` shows: those by which a command is used every day. `--help` shows all.
//!
//! A name of the glossary means the same in every command that has it. An option that a command
//! needs is shown as well, and one that a command refuses, with the reason, is not listed at all.
//!
//! Worked example: `tracecast simulate -h` lists `--order`, which is in the glossary, and not
//! `--site depth`, which is not.

use clap::Command;

/// The glossary: names, and what each means.
const GLOSSARY: [(&str, &str); 40] = [
    ("against", "the site's own file, to which a plan is written as a patch"),
    ("carbon", "hourly carbon intensity"),
    ("compare", "policies to compare on the same jobs"),
    ("deadline", "time within which a job has to end"),
    ("details", "the whole answer as text"),
    ("emit", "systems for which configuration is written"),
    ("emit-to", "folder for that configuration"),
    ("estimate", "run time that the scheduler knows"),
    ("eval-from", "beginning of the time that is tested on; what is before it chooses"),
    ("format", "form of the answer"),
    ("from", "beginning of the jobs that are read"),
    ("gpu-type", "GPU type"),
    ("gpus", "number of GPUs"),
    ("help", "help"),
    ("host-list", "host names of the planned nodes"),
    ("jobs", "table of jobs beside the source"),
    ("mapping", "what the columns of a table mean"),
    ("model", "model file"),
    ("models", "folder of trained models"),
    ("need", "instances that are needed at once"),
    ("offers", "instance types and their prices"),
    ("order", "order in which jobs are served"),
    ("out", "where the answer is written"),
    ("pairs", "measured pairs of jobs that share a GPU"),
    ("predictions", "predicted run times"),
    ("prices", "prices of spot over time"),
    ("profiles", "what is known of each job type alone"),
    ("promise", "service that a plan keeps"),
    ("recorded", "policy that the cluster had"),
    ("save", "file or folder for what other commands read: a plan, models"),
    ("scale", "factor of the work"),
    ("scan", "what happens when a job does not fit"),
    ("section", "sections of the answer"),
    ("share", "policies by which jobs share GPUs"),
    ("site", "nodes and rules of the site"),
    ("slo", "how many times as slow a job may be"),
    ("target-p95", "wait that 95 % of the jobs keep"),
    ("timezone", "time zone of the cluster"),
    ("to", "end of the jobs that are read"),
    ("work", "work of a job, as a time"),
];

/// Commands that may look at a part of the jobs. Every other one refuses `--where` and says why.
const SELECTING: [&str; 9] = [
    "describe",
    "report",
    "ingest",
    "query",
    "model train duration",
    "model predict duration",
    "model backtest duration",
    "plan defer",
    "plan share mig",
];

/// The command with its short help, and those of its subcommands; `path` is how it is called.
pub(crate) fn shortened(mut command: Command, path: &str) -> Command {
    command = command.mut_args(|option| {
        let Some(name) = option.get_long().map(str::to_owned) else { return option };
        let refused = name == "where" && !SELECTING.contains(&path);
        let listed = GLOSSARY.iter().any(|(listed, _)| *listed == name);
        let lesser = !listed && !option.is_required_set();
        let lesser = lesser || option.is_hide_short_help_set();
        option.hide(refused).hide_short_help(lesser)
    });
    // Examples come first; how times and files are written is for the long help.
    if let Some(after) = command.get_after_help().map(ToString::to_string)
        && let Some((first, _)) = after.split_once("\n\n")
    {
        command = command.after_help(first.to_owned()).after_long_help(after);
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(name, |sub| shortened(sub, &path));
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory as _;

    use super::*;

    type Values = BTreeMap<String, BTreeSet<String>>;

    fn collect(command: &Command, values: &mut Values) {
        for option in command.get_arguments() {
            let Some(name) = option.get_long() else { continue };
            let value = option.get_value_names().unwrap_or_default();
            values.entry(name.to_owned()).or_default().extend(value.iter().map(ToString::to_string));
        }
        command.get_subcommands().for_each(|sub| collect(sub, values));
    }

    /// Options that do not go together are options of one command; only what prints all of them
    /// would notice.
    fn conflicts(command: &Command) -> usize {
        let own: usize = command.get_arguments().map(|option| command.get_arg_conflicts_with(option).len()).sum();
        own + command.get_subcommands().map(conflicts).sum::<usize>()
    }

    #[test]
    fn options_that_do_not_go_together_exist() {
        let mut command = crate::cmd::Arguments::command();
        command.build();
        assert!(conflicts(&command) > 50);
    }

    #[test]
    fn a_name_takes_the_same_value_everywhere() {
        let mut values = Values::new();
        collect(&crate::cmd::Arguments::command(), &mut values);
        for (name, meaning) in GLOSSARY {
            let result = values.get(name).map_or(0, BTreeSet::len);
            assert!(values.contains_key(name) || name == "help", "no command has --{name} ({meaning})");
            // Answers, folders and files are written to different places.
            assert!(result <= 1 || name == "out", "--{name} ({meaning}) takes {:?}", values[name]);
        }
    }
}
