//! What to set for the day to come: as a table, and as lines for Slurm's `job_submit.lua`.
//!
//! A plan by a **table** is written as `defer.csv`, a line for each hour of submission and each class that waits, and as lines that set the begin time of a job by the hour in which it is submitted. A plan by a **limit** is written
//! as `defer.csv`, a line for each class with its longest wait and the limit; as lines that let a job of such a class begin when its longest wait is over, and mark it; and as `defer_release.sh`, which starts what is marked in the
//! first hour at or below the limit. It is run at the beginning of each hour with the value of that hour, and leaves in a file until when the hour lasts, so that what is submitted in it starts at once.
//!
//! Slurm knows no expected run, so its lines take the time limit: a job with a limit beyond its class's runs is taken for a longer one, and one without a limit starts at once. After the day the lines do nothing, so a day that
//! nobody writes anew delays nobody.
//!
//! O(classes × 24). Worked example: a job of 1 GPU and a limit of 2 h that is submitted at 8:20 finds the entry of 8:00 in its class, 13:00, and gets that as its begin time.

use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, format_rfc3339};

use super::answer::{DeferAim, DeferAnswer, NextDay, NextLimit, NextTable, NextWay};
use super::job::{RUNS_MS, runs_in_words};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emitted::comments;

/// What marks a job that waits.
const MARK: &str = "tracecast-defer";
/// The file that says until when jobs start at once.
const OPEN_UNTIL: &str = "/var/spool/slurm/defer_open_until";

/// GPUs and class of a job, for Slurm.
const CLASS_OF: &str = r#"local now = os.time()
local asked = job_desc.tres_per_node or job_desc.tres_per_job or ""
-- The count stands at the end: names of types may hold digits (gpu:3090:2, gpu:1g.10gb:1).
local gpus
for item in string.gmatch(asked, "[^,]+") do
  if string.match(item, "gpu") then
    gpus = (gpus or 0) + tonumber(string.match(item, "[:=](%d+)$") or 1)
  end
end
-- GPUs of all nodes, where they are asked for by the node.
if gpus and job_desc.tres_per_node and job_desc.min_nodes and job_desc.min_nodes > 1 and job_desc.min_nodes < 65536 then
  gpus = gpus * job_desc.min_nodes
end
local limit, begin = job_desc.time_limit, job_desc.begin_time
if not begin or begin == 4294967294 then begin = 0 end
"#;

fn day(answer: &DeferAnswer) -> Result<&NextDay> {
    answer
        .next_day
        .as_ref()
        .ok_or_else(|| Error::NotEmitted("waiting is not advised, so there is nothing to set".to_owned()))
}

/// The start of what is submitted in an hour, ms.
fn start_ms(day: &NextDay, at: usize, after_h: f64) -> i64 {
    day.first_ms() + at as i64 * HOUR_MS + (after_h * HOUR_MS as f64).round() as i64
}

/// Seconds of the epoch from which on, and before which, the day is.
fn seconds(day: &NextDay) -> (i64, i64) {
    (day.first_ms() / 1_000, day.first_ms() / 1_000 + 86_400)
}

fn unit(answer: &DeferAnswer) -> String {
    match answer.aim {
        DeferAim::Carbon => "g/kWh".to_owned(),
        DeferAim::Price => format!("{}/kWh", answer.unit),
    }
}

/// The table: `defer.csv`.
///
/// # Errors
/// If waiting is not advised.
pub fn table(answer: &DeferAnswer) -> Result<Emitted> {
    let day = day(answer)?;
    let text = match &day.way {
        NextWay::Table(table) => starts(day, table),
        NextWay::Limit(limit) => limits(answer, day, limit),
    };
    Ok(("defer.csv".to_owned(), text))
}

fn starts(day: &NextDay, table: &NextTable) -> String {
    let mut text = "submitted_utc,gpus,expected_run,start_utc,expected_at_submission,expected_at_start\n".to_owned();
    for (at, expected) in table.expected.iter().enumerate().take(24) {
        for class in &table.starts {
            let Some(after_h) = class.after_h.get(at) else { continue };
            let then = table.expected.get(at + after_h.floor() as usize).copied().unwrap_or(*expected);
            text.push_str(&format!(
                "{},{},{},{},{expected},{then}\n",
                format_rfc3339(day.first_ms() + at as i64 * HOUR_MS),
                class.size.id(),
                class.runs,
                format_rfc3339(start_ms(day, at, *after_h)),
            ));
        }
    }
    text
}

fn limits(answer: &DeferAnswer, day: &NextDay, limit: &NextLimit) -> String {
    let mut text = "from_utc,to_utc,gpus,expected_run,start_at_or_below,longest_wait_s\n".to_owned();
    for class in &answer.plan.classes {
        text.push_str(&format!(
            "{},{},{},{},{},{}\n",
            format_rfc3339(day.first_ms()),
            format_rfc3339(day.first_ms() + 24 * HOUR_MS),
            class.size.id(),
            class.runs,
            limit.limit,
            class.most_wait_s
        ));
    }
    text
}

/// What stands above lines, as comments.
fn head(answer: &DeferAnswer, mark: &str, more: &[String]) -> String {
    let mut said = vec![answer.action.replace("**", "")];
    said.extend_from_slice(more);
    let plain = |line: &String| line.replace('−', "-").replace('…', "...").replace('₂', "2");
    comments(mark, &said.iter().map(plain).collect::<Vec<_>>())
}

/// Lines that find the row of a job's class in a Lua table, in which `then` says what to do with it.
fn of_class(day: &NextDay, rows: &str, then: &str) -> String {
    let (first, last) = seconds(day);
    let minutes = RUNS_MS.map(|ms| (ms / 60_000).to_string()).join(", ");
    let runs = (0..=RUNS_MS.len()).map(|class| format!("\"{}\"", runs_in_words(class))).collect::<Vec<_>>().join(", ");
    format!(
        "{CLASS_OF}if gpus and limit and limit < 4294967294 and now >= {first} and now < {last} then\n  \
         local size = gpus > 8 and \">8\" or gpus > 4 and \"5-8\" or gpus > 1 and \"2-4\" or \"1\"\n  \
         local ends, runs, class = {{{minutes}}}, {{{runs}}}, 1\n  \
         for _, minute in ipairs(ends) do\n    \
         if limit >= minute then class = class + 1 end\n  \
         end\n  \
         local row = {rows}[size .. \", \" .. runs[class]]\n\
         {then}\
         end\n"
    )
}

/// Lines for Slurm: `defer_job_submit.lua`, and for a limit `defer_release.sh`.
///
/// # Errors
/// If waiting is not advised.
pub fn slurm(answer: &DeferAnswer) -> Result<Vec<Emitted>> {
    let day = day(answer)?;
    let lines = |text: String| ("defer_job_submit.lua".to_owned(), text);
    Ok(match &day.way {
        NextWay::Table(table) => vec![lines(lua_starts(answer, day, table))],
        NextWay::Limit(limit) => {
            vec![lines(lua_holds(answer, day, limit)), ("defer_release.sh".to_owned(), release(answer, day, limit))]
        }
    })
}

/// What both kinds of lines say of themselves.
fn into_slurm() -> [String; 3] {
    [
        "Into slurm_job_submit of job_submit.lua. Write it anew each day; after the day it does nothing.".to_owned(),
        "The expected run is taken from the time limit; a job without one starts at once.".to_owned(),
        "To undo: take these lines out; what waits starts with scontrol update JobId=... StartTime=now.".to_owned(),
    ]
}

fn lua_starts(answer: &DeferAnswer, day: &NextDay, table: &NextTable) -> String {
    let mut said = vec![format!(
        "Starts of jobs that are submitted on the day from {} on, as forecast by {}.",
        day.from, table.by
    )];
    said.extend(into_slurm());
    let mut lua = head(answer, "--", &said);
    lua.push_str("local starts = {\n");
    for class in &table.starts {
        let starts: Vec<String> = class
            .after_h
            .iter()
            .enumerate()
            .map(|(at, after_h)| (start_ms(day, at, *after_h) / 1_000).to_string())
            .collect();
        lua.push_str(&format!("  [\"{}, {}\"] = {{{}}},\n", class.size.id(), class.runs, starts.join(", ")));
    }
    lua.push_str("}\n");
    let then = format!(
        "  local start = row and row[math.floor((now - {}) / 3600) + 1]\n  \
         if start and start > now and begin < start then\n    \
         job_desc.begin_time = start\n  \
         end\n",
        seconds(day).0
    );
    lua.push_str(&of_class(day, "starts", &then));
    lua
}

fn lua_holds(answer: &DeferAnswer, day: &NextDay, limit: &NextLimit) -> String {
    let mut said = vec![
        format!(
            "Longest waits of jobs that are submitted on the day from {} on, seconds. defer_release.sh starts them in the first hour at or below {} {}.",
            day.from,
            format::compact(limit.limit),
            unit(answer)
        ),
        format!("Slurm's user must be able to read {OPEN_UNTIL}, which defer_release.sh writes."),
    ];
    said.extend(into_slurm());
    let mut lua = head(answer, "--", &said);
    lua.push_str("local waits = {\n");
    for class in &answer.plan.classes {
        lua.push_str(&format!("  [\"{}, {}\"] = {},\n", class.size.id(), class.runs, class.most_wait_s));
    }
    lua.push_str("}\n");
    let then = format!(
        "  local file = io.open(\"{OPEN_UNTIL}\", \"r\")\n  \
         local open_until = file and tonumber(file:read(\"*l\")) or 0\n  \
         if file then file:close() end\n  \
         if row and now >= open_until and begin <= now then\n    \
         job_desc.begin_time = now + row\n    \
         job_desc.admin_comment = \"{MARK}\"\n  \
         end\n"
    );
    lua.push_str(&of_class(day, "waits", &then));
    lua
}

/// The script that starts what waits.
fn release(answer: &DeferAnswer, day: &NextDay, limit: &NextLimit) -> String {
    let (first, last) = seconds(day);
    let said = [
        format!("Run it at the beginning of each hour with the {} of that hour: defer_release.sh 312.5", unit(answer)),
        format!(
            "At or below the limit it starts the jobs that defer_job_submit.lua marked. It is for the day from {} on: write it anew each day.",
            day.from
        ),
        format!("It needs to write {OPEN_UNTIL} and to run scontrol as an operator."),
    ];
    format!(
        "#!/bin/sh\n{}set -eu\n\
         limit={}\n\
         now=$(date +%s)\n\
         case ${{1:-}} in\n\
         '' | *[!0-9.-]*) echo \"usage: defer_release.sh {}\" >&2; exit 2 ;;\n\
         esac\n\
         if [ \"$now\" -lt {first} ] || [ \"$now\" -ge {last} ]; then\n  \
         rm -f {OPEN_UNTIL}\n  \
         echo \"this limit is for another day; write it anew\" >&2\n  \
         exit 1\n\
         fi\n\
         if awk -v value=\"$1\" -v limit=\"$limit\" 'BEGIN {{ exit !(value + 0 <= limit + 0) }}'; then\n  \
         echo $(( (now / 3600 + 1) * 3600 )) > {OPEN_UNTIL}\n  \
         scontrol -o show jobs | awk '/ JobState=PENDING / && / AdminComment={MARK}( |$)/ {{ sub(\"JobId=\", \"\", $1); print $1 }}' |\n  \
         while read -r job; do\n    \
         scontrol update \"JobId=$job\" StartTime=now\n  \
         done\n\
         else\n  \
         rm -f {OPEN_UNTIL}\n\
         fi\n",
        head(answer, "#", &said),
        limit.limit,
        unit(answer)
    )
}
