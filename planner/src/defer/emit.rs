//! The starts of the day to come as a table, and as lines for Slurm's `job_submit.lua`.
//!
//! The **table** (`defer.csv`) has a line for each hour of submission and each class that waits. The **lines for Slurm** (`defer_job_submit.lua`) set the begin time of a job by the hour in which it is submitted, its GPUs and its
//! expected run. Slurm knows no expected run, so they take the time limit: a job with a limit beyond its class's runs is taken for a longer one, and one without a limit starts at once. After the day they do nothing, so a
//! day that nobody writes anew delays nobody.
//!
//! O(classes × 24). Worked example: a job of 1 GPU and a limit of 2 h that is submitted at 8:20 finds the entry of 8:00 in its class, 13:00, and gets that as its begin time.

use tracecast_analytics::time::{HOUR_MS, format_rfc3339};

use super::answer::{DeferAnswer, NextDay};
use super::job::{RUNS_MS, runs_in_words};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emitted::comments;

fn day(answer: &DeferAnswer) -> Result<&NextDay> {
    answer
        .next_day
        .as_ref()
        .ok_or_else(|| Error::NotEmitted("nobody waits, so there is no hour to start in".to_owned()))
}

/// The start of what is submitted in an hour, ms.
fn start_ms(day: &NextDay, at: usize, after_h: f64) -> i64 {
    day.first_ms() + at as i64 * HOUR_MS + (after_h * HOUR_MS as f64).round() as i64
}

/// The table: `defer.csv`.
///
/// # Errors
/// If nobody waits.
pub fn table(answer: &DeferAnswer) -> Result<Emitted> {
    let day = day(answer)?;
    let mut text = "submitted_utc,gpus,expected_run,start_utc,expected_at_submission,expected_at_start\n".to_owned();
    for (at, expected) in day.expected.iter().enumerate().take(24) {
        for class in &day.starts {
            let Some(after_h) = class.after_h.get(at) else { continue };
            let then = day.expected.get(at + after_h.floor() as usize).copied().unwrap_or(*expected);
            text.push_str(&format!(
                "{},{},{},{},{expected},{then}\n",
                format_rfc3339(day.first_ms() + at as i64 * HOUR_MS),
                class.size.id(),
                class.runs,
                format_rfc3339(start_ms(day, at, *after_h)),
            ));
        }
    }
    Ok(("defer.csv".to_owned(), text))
}

/// Lines for Slurm: `defer_job_submit.lua`.
///
/// # Errors
/// If nobody waits.
pub fn slurm(answer: &DeferAnswer) -> Result<Emitted> {
    let day = day(answer)?;
    let (first, last) = (day.first_ms() / 1_000, day.first_ms() / 1_000 + 86_400);
    let mut said = vec![answer.action.replace("**", "")];
    said.push(format!("Starts of jobs that are submitted on the day from {} on, as forecast by {}.", day.from, day.by));
    said.push(
        "Into slurm_job_submit of job_submit.lua. Write it anew each day; after the day it does nothing.".to_owned(),
    );
    said.push("The expected run is taken from the time limit; a job without one starts at once.".to_owned());
    said.push(
        "To undo: take these lines out; what waits starts with scontrol update JobId=... StartTime=now.".to_owned(),
    );
    let said: Vec<String> =
        said.iter().map(|line| line.replace('−', "-").replace('…', "...").replace('₂', "2")).collect();
    let mut lua = comments("--", &said);
    lua.push_str("local starts = {\n");
    for class in &day.starts {
        let starts: Vec<String> = class
            .after_h
            .iter()
            .enumerate()
            .map(|(at, after_h)| (start_ms(day, at, *after_h) / 1_000).to_string())
            .collect();
        lua.push_str(&format!("  [\"{}, {}\"] = {{{}}},\n", class.size.id(), class.runs, starts.join(", ")));
    }
    lua.push_str("}\n");
    let minutes = RUNS_MS.map(|ms| (ms / 60_000).to_string()).join(", ");
    let runs = (0..=RUNS_MS.len()).map(|class| format!("\"{}\"", runs_in_words(class))).collect::<Vec<_>>().join(", ");
    lua.push_str(&format!(
        "local now = os.time()\n\
         local asked = job_desc.tres_per_node or job_desc.tres_per_job or \"\"\n\
         local gpus = tonumber(string.match(asked, \"gpu[:=](%d+)\") or string.match(asked, \"gpu:[^:=,]+[:=](%d+)\"))\n\
         -- GPUs of all nodes, where they are asked for by the node.\n\
         if gpus and job_desc.tres_per_node and job_desc.min_nodes and job_desc.min_nodes > 1 and job_desc.min_nodes < 65536 then\n  \
         gpus = gpus * job_desc.min_nodes\n\
         end\n\
         local limit, begin = job_desc.time_limit, job_desc.begin_time\n\
         if not begin or begin == 4294967294 then begin = 0 end\n\
         if gpus and limit and limit < 4294967294 and now >= {first} and now < {last} then\n  \
         local size = gpus > 8 and \">8\" or gpus > 4 and \"5-8\" or gpus > 1 and \"2-4\" or \"1\"\n  \
         local ends, runs, class = {{{minutes}}}, {{{runs}}}, 1\n  \
         for _, minute in ipairs(ends) do\n    \
         if limit >= minute then class = class + 1 end\n  \
         end\n  \
         local row = starts[size .. \", \" .. runs[class]]\n  \
         local start = row and row[math.floor((now - {first}) / 3600) + 1]\n  \
         if start and start > now and begin < start then\n    \
         job_desc.begin_time = start\n  \
         end\n\
         end\n"
    ));
    Ok(("defer_job_submit.lua".to_owned(), lua))
}
