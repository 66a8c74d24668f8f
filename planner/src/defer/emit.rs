//! What to set for the day to come: as a table, and as a function for Slurm's `job_submit.lua`.
//!
//! A plan by a **table** is written as `defer.csv`, a line for each hour of submission and each class that waits, and as lines that set the begin time of a job by the hour in which it is submitted. A plan by a **limit** is written
//! as `defer.csv`, a line for each class with its longest wait and the limit; as lines that let a job of such a class begin when its longest wait is over, and mark it; and as `defer_release.sh`, which starts what is marked in the
//! first hour at or below the limit. It is run at the beginning of each hour with the value of that hour, and leaves in a file until when the hour lasts, so that what is submitted in it starts at once.
//!
//! Slurm knows no expected run, so its lines take the time limit, and one without a limit starts at once. Where classes were of predicted runs, a job with a limit beyond its class's runs is taken for a longer one. After the day the lines do nothing, so a day that
//! nobody writes anew delays nobody.
//!
//! O(classes × 24). Worked example: a job of 1 GPU and a limit of 2 h that is submitted at 8:20 finds the entry of 8:00 in its class, 13:00, and gets that as its begin time.

use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, format_rfc3339};

use super::answer::{DeferAim, DeferAnswer, NextDay, NextLimit, NextTable, NextWay};
use super::job::{DeferClassBy, RUNS_MS, runs_in_words};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emit::comments;

/// What marks a job that waits.
const MARK: &str = "tracecast-defer";
/// The file that says until when jobs start at once.
const OPEN_UNTIL: &str = "/var/spool/slurm/defer_open_until";

/// What a user writes into the comment of a job that is to start at once.
const AT_ONCE: &str = "start-now";

/// GPUs of a job, for Slurm, and whether it may wait; `AT_ONCE` stands for what [`AT_ONCE`] is.
const CLASS_OF: &str = r#"local now = os.time()
local asked = job_desc.tres_per_node or job_desc.tres_per_job or job_desc.tres_per_task or ""
-- The count stands at the end: names of types may hold digits (gpu:3090:2, gpu:1g.10gb:1).
local gpus
for item in string.gmatch(asked, "[^,]+") do
  if string.match(item, "gpu") and not string.match(item, "none$") then
    gpus = (gpus or 0) + tonumber(string.match(item, "[:=](%d+)$") or 1)
  end
end
if gpus == 0 then gpus = nil end
-- GPUs of all nodes or tasks, where they are asked for by the node or task.
local function times(count)
  if gpus and count and count > 1 and count < 65536 then gpus = gpus * count end
end
if job_desc.tres_per_node then
  times(job_desc.min_nodes)
elseif not job_desc.tres_per_job then
  times(job_desc.num_tasks)
end
local limit, begin, deadline = job_desc.time_limit, job_desc.begin_time, job_desc.deadline
if not begin or begin == 4294967294 then begin = 0 end
-- Interactive jobs start at once, and those with a deadline, a reservation, a begin time of their own, or the comment.
local may_wait = job_desc.script and begin <= now and (not deadline or deadline == 0 or deadline == 4294967294)
  and not job_desc.reservation and not string.find(job_desc.comment or "", "AT_ONCE", 1, true)
"#;

fn day(answer: &DeferAnswer) -> Result<&NextDay> {
    answer
        .body
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
    match answer.body.aim {
        DeferAim::Carbon => "g/kWh".to_owned(),
        // The currency is from the heading of a file, and stands in a script.
        DeferAim::Price => {
            let plain = |of: &char| of.is_alphanumeric() || *of == '€';
            format!("{}/kWh", answer.body.unit.chars().filter(plain).collect::<String>())
        }
    }
}

/// The table: `defer.csv`.
///
/// # Errors
/// If waiting is not advised.
pub fn table(answer: &DeferAnswer) -> Result<Emitted> {
    let day = day(answer)?;
    let text = match &day.way {
        NextWay::Table(table) => starts(answer, day, table),
        NextWay::Limit(limit) => limits(answer, day, limit),
    };
    Ok(("defer.csv".to_owned(), text))
}

fn starts(answer: &DeferAnswer, day: &NextDay, table: &NextTable) -> String {
    let class = answer.body.class_by.column();
    let mut text = format!("submitted_utc,gpus,{class},start_utc,expected_at_submission,expected_at_start\n");
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
    let class = answer.body.class_by.column();
    let mut text = format!("from_utc,to_utc,gpus,{class},start_at_or_below,unit,longest_wait_s\n");
    for class in &answer.body.plan.classes {
        text.push_str(&format!(
            "{},{},{},{},{},{},{}\n",
            format_rfc3339(day.first_ms()),
            format_rfc3339(day.first_ms() + 24 * HOUR_MS),
            class.size.id(),
            class.runs,
            limit.limit,
            unit(answer),
            class.most_wait_s
        ));
    }
    text
}

/// What stands above lines, as comments.
fn head(answer: &DeferAnswer, mark: &str, more: &[String]) -> String {
    let mut said = vec![answer.action.replace("**", "")];
    // Which zone, and whether direct or of the life cycle: the values of each hour must be of the same.
    said.extend(answer.notes.iter().filter(|note| note.starts_with("Carbon intensity is of")).cloned());
    said.extend_from_slice(more);
    let plain = |line: &String| line.replace('−', "-").replace('…', "...").replace('₂', "2");
    comments(mark, &said.iter().map(plain).collect::<Vec<_>>())
}

/// A function of a job that finds the row of its class in a Lua table; `then` says what to do with it.
fn of_class(day: &NextDay, rows: &str, then: &str) -> String {
    let (first, last) = seconds(day);
    let minutes = RUNS_MS.map(|ms| (ms / 60_000).to_string()).join(", ");
    let runs = (0..=RUNS_MS.len()).map(|class| format!("\"{}\"", runs_in_words(class))).collect::<Vec<_>>().join(", ");
    let class_of = CLASS_OF.replace("AT_ONCE", AT_ONCE);
    let body = format!(
        "{class_of}if may_wait and gpus and limit and limit < 4294967294 and now >= {first} and now < {last} then\n  \
         local size = gpus > 8 and \">8\" or gpus > 4 and \"5-8\" or gpus > 1 and \"2-4\" or \"1\"\n  \
         local ends, runs, class = {{{minutes}}}, {{{runs}}}, 1\n  \
         for _, minute in ipairs(ends) do\n    \
         if limit >= minute then class = class + 1 end\n  \
         end\n  \
         local row = {rows}[size .. \", \" .. runs[class]]\n\
         {then}\
         end\n"
    );
    let indented: String = body.lines().map(|line| format!("  {line}\n")).collect();
    format!("return function(job_desc)\n{indented}end\n")
}

/// Lines for Slurm: `defer_job_submit.lua`, for a limit `defer_release.sh`, and `NOTES.txt`, which says how to install them.
///
/// # Errors
/// If waiting is not advised.
pub fn slurm(answer: &DeferAnswer) -> Result<Vec<Emitted>> {
    let day = day(answer)?;
    let lines = |text: String| ("defer_job_submit.lua".to_owned(), text);
    let notes = |with_limit: bool| ("NOTES.txt".to_owned(), install(day, with_limit));
    Ok(match &day.way {
        NextWay::Table(table) => vec![lines(lua_starts(answer, day, table)), notes(false)],
        NextWay::Limit(limit) => {
            let script = ("defer_release.sh".to_owned(), release(answer, day, limit));
            vec![lines(lua_holds(answer, day, limit)), script, notes(true)]
        }
    })
}

/// Lines that let a job begin at a moment at the latest, mark it and tell its user.
fn hold(until: &str) -> String {
    format!(
        "    local said = job_desc.admin_comment\n    \
         job_desc.begin_time = {until}\n    \
         job_desc.admin_comment = \"{MARK}\" .. (said and said ~= \"\" and \" \" .. said or \"\")\n    \
         if slurm and slurm.log_user then\n      \
         slurm.log_user(\"held for a better hour, until %s at the latest; --comment={AT_ONCE} starts it at once\", os.date(\"%Y-%m-%d %H:%M\", job_desc.begin_time))\n    \
         end\n"
    )
}

/// What both kinds of lines say of themselves.
fn into_slurm(by: DeferClassBy) -> [String; 3] {
    let class = match by {
        DeferClassBy::Limit => "The class is of the time limit, as in the test",
        DeferClassBy::Predicted => "The expected run of the test is taken from the time limit here",
    };
    [
        "A function that slurm_job_submit of job_submit.lua calls: see NOTES.txt. Write it anew each day; after the day it does nothing.".to_owned(),
        format!("{class}; a job without one starts at once, and so does one with --comment={AT_ONCE}."),
        format!(
            "To undo: call it no more; what waits has {MARK} in its AdminComment and starts with scontrol update JobId=... StartTime=now."
        ),
    ]
}

fn lua_starts(answer: &DeferAnswer, day: &NextDay, table: &NextTable) -> String {
    let mut said = vec![format!(
        "Starts of jobs that are submitted on the day from {} on, as forecast by {}.",
        day.from, table.by
    )];
    said.extend(into_slurm(answer.body.class_by));
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
         if start and start > now then\n{}  \
         end\n",
        seconds(day).0,
        hold("start")
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
    said.extend(into_slurm(answer.body.class_by));
    let mut lua = head(answer, "--", &said);
    lua.push_str("local waits = {\n");
    for class in &answer.body.plan.classes {
        lua.push_str(&format!("  [\"{}, {}\"] = {},\n", class.size.id(), class.runs, class.most_wait_s));
    }
    lua.push_str("}\n");
    let then = format!(
        "  local file = io.open(\"{OPEN_UNTIL}\", \"r\")\n  \
         local open_until = file and tonumber(file:read(\"*l\")) or 0\n  \
         if file then file:close() end\n  \
         if row and now >= open_until then\n{}  \
         end\n",
        hold("now + row")
    );
    lua.push_str(&of_class(day, "waits", &then));
    lua
}

/// How the files are installed.
fn install(day: &NextDay, with_limit: bool) -> String {
    let hourly = if with_limit {
        format!(
            "3. Each hour, as an operator of Slurm, with a command of yours that prints the value of the hour that begins:\n\n       \
             0 * * * *  /etc/slurm/defer_release.sh \"$(value-of-this-hour)\"\n\n   \
             It writes {OPEN_UNTIL}; the folder must be there, and Slurm's user must be able to read the file. Put another path into both files if you like.\n"
        )
    } else {
        String::new()
    };
    format!(
        "How to set what `tracecast plan defer` wrote for the day from {} on\n\n\
         1. Copy the files to /etc/slurm. In slurm_job_submit of job_submit.lua (JobSubmitPlugins=lua), add once, and run scontrol reconfigure:\n\n       \
         local is_read, defer = pcall(dofile, \"/etc/slurm/defer_job_submit.lua\")\n       \
         if is_read and type(defer) == \"function\" then pcall(defer, job_desc) end\n\n   \
         It reads the file for each job, so a file written anew needs no reconfigure, and without the file, or with half of it, every job starts at once.\n\
         2. Each day, a little before {} UTC, with hours up to then: the same tracecast command with --emit-to; copy each file under another name into /etc/slurm first, and then mv it over the old one, so that nobody reads half of it.\n\
         {hourly}\n\
         To undo: take the lines out of job_submit.lua. What waits has {MARK} in its AdminComment; scontrol update JobId=... StartTime=now starts it. What is held starts when its longest wait is over, whatever happens.\n\
         To try first: slurm.conf of a test cluster; a test of this project has a Slurm 22.05 hold and start jobs with these files.\n",
        day.from,
        day.from.get(11..16).unwrap_or_default()
    )
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
    // A value far below all that were seen is in another unit, or a gap of the feed.
    let least = if answer.body.aim == DeferAim::Carbon { limit.lowest / 10.0 } else { f64::MIN };
    format!(
        "#!/bin/sh\n{}set -u\n\
         limit={}\n\
         least={least}\n\
         now=$(date +%s)\n\
         if ! printf '%s\\n' \"${{1:-}}\" | grep -Eq '^-?[0-9]+(\\.[0-9]+)?$'; then\n  \
         echo \"usage: defer_release.sh VALUE, a number of {}\" >&2\n  \
         exit 2\n\
         fi\n\
         if awk -v value=\"$1\" -v least=\"$least\" 'BEGIN {{ exit !(value + 0 < least + 0) }}'; then\n  \
         echo \"$1 is far below all values that were seen; is it of the unit {}?\" >&2\n  \
         exit 2\n\
         fi\n\
         if [ \"$now\" -lt {first} ] || [ \"$now\" -ge {last} ]; then\n  \
         rm -f {OPEN_UNTIL}\n  \
         echo \"this limit is for another day; write it anew\" >&2\n  \
         exit 1\n\
         fi\n\
         if awk -v value=\"$1\" -v limit=\"$limit\" 'BEGIN {{ exit !(value + 0 <= limit + 0) }}'; then\n  \
         echo $(( (now / 3600 + 1) * 3600 )) > {OPEN_UNTIL} || exit 1\n  \
         scontrol -o show jobs | awk '/ JobState=PENDING / && / AdminComment={MARK}( |$)/ {{ sub(\"JobId=\", \"\", $1); print $1 }}' | {{\n    \
         failed=0\n    \
         while read -r job; do\n      \
         scontrol update \"JobId=$job\" StartTime=now || failed=1\n    \
         done\n    \
         exit $failed\n  \
         }}\n\
         else\n  \
         rm -f {OPEN_UNTIL}\n\
         fi\n",
        head(answer, "#", &said),
        limit.limit,
        unit(answer),
        unit(answer)
    )
}
