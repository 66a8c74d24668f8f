//! Text that `tracecast` alone prints: by question, the command that answers it. Each command runs
//! in a clone as it is printed, on the bundled data.

use anyhow::Result;

use crate::output;

/// Questions and commands; the README has the same table, with a guide for each.
const QUESTIONS: [(&str, &str); 14] = [
    ("What should change first?", "report datasets/sample"),
    ("What do the jobs look like, who waits and what fails?", "describe datasets/sample"),
    (
        "Who holds GPU time, who wastes it, and who asks for too much?",
        "describe datasets/sample --section users,lost,repeated,limits",
    ),
    ("Who waits, and would sharing nodes or another order help?", "plan queues datasets/sample"),
    ("How many nodes keep waits within an hour?", "plan nodes datasets/sample --target-p95 1h"),
    ("What would a fifth more work, or another policy, do to waits?", "simulate datasets/sample --scale 1.2"),
    ("How long will jobs run?", "model backtest duration datasets/sample --trees 20"),
    ("Which nodes can sleep?", "plan power datasets/sample"),
    ("Where did the energy go, and how much carbon did it emit?", "audit datasets/sample"),
    ("Which jobs could wait for cleaner electricity?", "plan defer datasets/sample"),
    (
        "How many GPUs to reserve, and what to rent?",
        "plan rent fleet datasets/sample --offers datasets/offers/example.toml",
    ),
    ("Who can share a GPU with whom?", "plan share couples --pairs datasets/pairs/h100/mps/pairs.csv --slo 1.25"),
    (
        "How does one job use spot and keep its deadline?",
        "plan rent job datasets/sample --instance a100x8 --work 48h --deadline 60h",
    ),
    (
        "Anything else, in SQL?",
        "query datasets/sample \"select vc, count(*) as jobs, sum(gpu_hours) as hours from job_facts group by vc order by hours desc\"",
    ),
];

/// Prints each question with its command, and where to go on.
pub(crate) fn run() -> Result<()> {
    let mut text =
        String::from("Traces of a GPU cluster in, answers out. By question, the command that answers it:\n\n");
    for (question, command) in QUESTIONS {
        text.push_str(&format!("{question}\n  tracecast {command}\n"));
    }
    text.push_str(
        "\nPut files of your own in the place of datasets/sample: `tracecast formats` lists what can be read.\n`tracecast --help` lists all commands, and `tracecast COMMAND -h` says what a command takes.\n",
    );
    output::text(&text, None)
}
