//! Predictions for a Slurm controller: a table of expected run times ([`write_table`]) and the `job_submit.lua` that looks jobs up in it ([`script`]).
//!
//! The script finds the entry of a job by user, stem of its name and GPUs; else by user and GPUs; else by partition and GPUs; else by GPUs; else
//! that of all jobs. From it, it appends to the job's comment what is expected, sets the site factor of its priority and, only if asked to,
//! the time limit of a job that has none. It does not train, and nothing here is written to disk or sent to Slurm: that is the caller's part, by writing
//! beside the old file and renaming, so that the controller never sees half a table.
//!
//! The site factor is `most × (1 − ln(1 + s) / ln(1 + ceiling))`, where `s` is the expected run time × GPUs (a job without GPUs counts as one with one),
//! rounded and held within 0 and `most`: quasi-shortest-service-first (Hu et al., SC '21) as a term of Slurm's multifactor priority, for which
//! `PriorityType=priority/multifactor` must be set. It is never below 0, because Slurm takes every priority below 1 for 1 and would
//! forget the order of such jobs. `most` is on the scale of the site's `PriorityWeight…`: with age in the priority too, a long job overtakes short ones once
//! it has waited enough, which it otherwise never does. A job of which nothing is known keeps a site factor of 0.
//!
//! Each job costs at most five hash look-ups, O(1). Whatever goes wrong, the job is accepted as it came. Measured under Lua 5.1: 10 µs a job; a table of
//! 100,000 entries (5 MiB) takes 0.3 s and 13 MiB of the controller, and is taken in over 21 jobs, at most 40 ms each; one of 1.4 million takes 5 s and
//! 180 MiB, and the hash table doubles at the cost of up to 0.7 s for one job: leave out entries of few jobs rather than ship such a table.
//!
//! A user who gives a long job the name of a short one is believed. The damage is bounded by `most`, and ends with the next table.
//!
//! Worked example: with the defaults, most 10,000 and ceiling 10⁸ GPU-seconds, a job expected to run 5,400 s on 4 GPUs gets
//! 10,000 × (1 − ln 21,601 / ln 100,000,001) = 10,000 × (1 − 9.9805 / 18.4207) = 4,582.

mod entry;
mod limit;
mod table;
#[cfg(test)]
mod tests;

use tracecast_analytics::report::quote::lua as quoted;

pub use self::entry::entries;
pub use self::limit::{LimitTest, back_test};
pub use self::table::{Entry, Tested, write_table};
pub use crate::feature::name::stem as name_stem;

/// Largest table the script reads unless told otherwise, bytes: some 1.5 million entries.
pub const MAX_TABLE_BYTES: u64 = 64 << 20;

/// First line of the script: whoever is about to replace a `job_submit.lua` can tell it from the site's own.
pub const SCRIPT_BEGINS: &str = "-- Sets what tracecast expects of a job when it is submitted. Made by tracecast.";

/// Comment in which the script states its expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Comment {
    /// Administrator's comment, which users can read and not write.
    #[default]
    Admin,
    /// User's comment, after what the user wrote.
    User,
    /// Nowhere.
    Nowhere,
}

/// The site factor by expected GPU-seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SiteFactor {
    /// Site factor of a job of no length: the weight beside the site's `PriorityWeight…`; at most
    /// 2,147,483,645.
    pub most: u32,
    /// GPU-seconds at and above which it is 0.
    pub ceiling_gpu_s: f64,
}

impl Default for SiteFactor {
    fn default() -> Self {
        Self { most: 10_000, ceiling_gpu_s: 1e8 }
    }
}

/// Time limits for jobs that ask for none. A job that runs longer than its limit is killed: hence the margin, the least number of jobs, and that no limit is
/// set from an entry that was not back-tested on later jobs ([`back_test`]), or killed too many of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeLimit {
    /// Factor on the run that 95 % of jobs stay under; the limit is the product, rounded up to
    /// minutes.
    pub margin_ratio: f64,
    /// Entries known from fewer jobs set no limit.
    pub least_jobs: u64,
    /// Entries back-tested on fewer later jobs set no limit.
    pub least_tested: u64,
    /// Entries whose limit would have killed a greater share of those jobs set none.
    pub most_killed: f64,
    /// Shortest limit, minutes.
    pub least_min: u32,
    /// Longest limit, minutes; nor longer than the partition allows.
    pub most_min: u32,
}

impl Default for TimeLimit {
    fn default() -> Self {
        Self {
            margin_ratio: 1.5,
            least_jobs: 20,
            least_tested: 20,
            most_killed: 0.05,
            least_min: 10,
            most_min: 7 * 24 * 60,
        }
    }
}

impl TimeLimit {
    /// The limit that the script makes from what 95 % stay under, seconds; partitions may allow less.
    pub fn limit_s(&self, p95_s: f64) -> f64 {
        let minutes = (p95_s * self.margin_ratio / 60.0).ceil().max(f64::from(self.least_min)).max(1.0);
        60.0 * minutes.min(f64::from(self.most_min))
    }

    /// Whether a limit made from an entry held on the jobs it was tested on.
    pub fn passed(&self, tested: Tested) -> bool {
        tested.jobs >= self.least_tested.max(1) && tested.killed as f64 <= self.most_killed * tested.jobs as f64
    }
}

/// Settings at the top of the script.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptOptions {
    /// Path of the table on the controller's host, best on a local disk: the controller waits while it is read.
    pub table_path: String,
    /// Comment in which the expectation is stated.
    pub comment: Comment,
    /// The site factor; `None` leaves it alone.
    pub site_factor: Option<SiteFactor>,
    /// Time limits; `None` sets none.
    pub time_limit: Option<TimeLimit>,
    /// Interval between looks for a new table, seconds.
    pub refresh_s: u32,
    /// Larger tables are refused, bytes.
    pub max_bytes: u64,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            table_path: "/etc/slurm/tracecast-durations.txt".to_owned(),
            comment: Comment::default(),
            site_factor: Some(SiteFactor::default()),
            time_limit: None,
            refresh_s: 60,
            max_bytes: MAX_TABLE_BYTES,
        }
    }
}

/// The `job_submit.lua` for `options`: complete, to be put beside `slurm.conf`, in which `JobSubmitPlugins=lua` is set.
pub fn script(options: &ScriptOptions) -> String {
    let comment = match options.comment {
        Comment::Admin => "admin_comment",
        Comment::User => "comment",
        Comment::Nowhere => "",
    };
    let factor = options.site_factor.unwrap_or(SiteFactor { most: 0, ..SiteFactor::default() });
    let limit = options.time_limit.unwrap_or_default();
    let (table_path, refresh_s, max_bytes) = (quoted(&options.table_path), options.refresh_s, options.max_bytes);
    let (most, ceiling_gpu_s) = (factor.most, factor.ceiling_gpu_s);
    let (set, margin, jobs) = (options.time_limit.is_some(), limit.margin_ratio, limit.least_jobs);
    let (least_min, most_min) = (limit.least_min, limit.most_min);
    let (tested, killed) = (limit.least_tested.max(1), limit.most_killed);
    format!(
        "{SCRIPT_BEGINS}\n\
         local config = {{\n\
         \x20 -- the table of expected run times\n\
         \x20 table_path = {table_path},\n\
         \x20 -- how often it is looked at for a new one, seconds, and the largest that is read, bytes\n\
         \x20 refresh_s = {refresh_s},\n\
         \x20 max_bytes = {max_bytes:?},\n\
         \x20 -- where to say what is expected: \"admin_comment\", \"comment\" or \"\"\n\
         \x20 comment = \"{comment}\",\n\
         \x20 -- site factor of a job of no length (0 sets none), and the GPU-seconds from which on it is 0\n\
         \x20 site_factor_most = {most},\n\
         \x20 ceiling_gpu_s = {ceiling_gpu_s:?},\n\
         \x20 -- a time limit for jobs that ask for none: what 95 % of such jobs stay under, times the margin\n\
         \x20 set_time_limit = {set},\n\
         \x20 limit_margin = {margin:?},\n\
         \x20 limit_least_jobs = {jobs},\n\
         \x20 -- only from entries whose limit was tried on so many later jobs, and would have killed no greater share of them\n\
         \x20 limit_least_tested = {tested},\n\
         \x20 limit_most_killed = {killed:?},\n\
         \x20 limit_least_min = {least_min},\n\
         \x20 limit_most_min = {most_min},\n\
         }}\n{}",
        include_str!("job_submit.lua")
    )
}
