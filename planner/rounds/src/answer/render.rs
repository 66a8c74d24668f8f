//! The answer of `plan allocation` as a report.
//!
//! In tables, times are in hours, or in minutes where the longest mean is below two hours. O(rows). Worked example: 27,808 s with an interval from 26,000 to 29,500 s is "7.72 (7.22 to 8.19)" hours in a table, and
//! "7 h 43 min (7 h 13 min to 8 h 11 min)" in a sentence.

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::job::{DrawnRuns, JobDraw};
use super::super::policy::AllocationPolicy;
use super::super::pool::{self, TypedFleet};
use super::{AllocationAnswer, AllocationFigure, AllocationRun, KEPT_MS};
use tracecast_plan::recommendation::{WORTH, worth};

/// Describes the drawn jobs.
pub(super) fn drawn_in_words(what: &JobDraw, fleet: &TypedFleet, seeds: &[u64]) -> String {
    let first = fleet.pools.first().map_or("", |pool| pool.name.as_str());
    let runs = match what.runs {
        DrawnRuns::Simulation => "half an hour to a week, as Gavel's simulator draws them",
        DrawnRuns::Hours => "one to four hours, as in the traces of Gavel's physical cluster",
    };
    let come = what
        .per_hour
        .map_or_else(|| "all there at once".to_owned(), |rate| format!("{} an hour", format::compact(rate)));
    let come = match &what.users {
        Some(users) => format!(
            "{come} in bursts of {} by {}",
            users.burst,
            format::counted(u64::from(users.users), "user", "users")
        ),
        None => come,
    };
    let dues = what.deadlines.map_or_else(String::new, |dues| {
        let (least, most) = dues.runs;
        let multiple = |of: f64| format::float(of, 2);
        let runs = if least < most { format!("{} to {}", multiple(least), multiple(most)) } else { multiple(least) };
        format!(", {} with deadlines {runs} runs alone after submission", format::percent(dues.share))
    });
    let classes = what.classes.map_or_else(String::new, |classes| {
        let [image, language, speech] = classes.shares.map(format::percent);
        format!(", of invented classes ({image} image, {language} language, {speech} speech models)")
    });
    let gangs = if what.gangs { "of 1, 2, 4 or 8 GPUs" } else { "of one GPU" };
    format!(
        "{} {gangs}, {come}, {runs} on {first}{dues}{classes}; {}",
        format::counted(what.jobs as u64, "job", "jobs"),
        format::counted(seeds.len() as u64, "seed", "seeds")
    )
}

/// A figure and its interval, by how a number is told.
pub(super) fn told(figure: &AllocationFigure, number: &dyn Fn(f64) -> String) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", number(figure.value), number(low), number(high)),
        _ => number(figure.value),
    }
}

/// Seconds as a length of time, in a sentence.
pub(super) fn time(figure: &AllocationFigure) -> String {
    told(figure, &format::duration)
}

impl AllocationAnswer {
    /// Returns the recommended action, in a sentence.
    pub(super) fn advised(&self) -> String {
        let fleet = pool::in_words(&self.pools);
        let Some(advice) = &self.advice else {
            let divides = self.host.as_ref().is_some_and(|host| host.advice.is_some());
            if let Some(said) = self.host_in_words().filter(|_| divides) {
                return said;
            }
            return "**No advice on GPU types**: name a policy that knows types and one that does not (`--policies`); `genie` counts for neither, as it changes how many GPUs jobs have.".to_owned();
        };
        let (typed, blind) = (advice.policy.name(), advice.blind.name());
        let saving = advice.saving.value;
        let sure = worth(saving, advice.saving.low.unwrap_or(saving), 1.0);
        let several = self.pools.len() > 1;
        if !sure && !several {
            return format!(
                "**Change nothing**: on {fleet}, where all GPUs are alike, `{typed}` has a mean time from submission to end of {}, and `{blind}` of {}; a change is worth it from {} on, if that is sure.",
                time(&advice.jct_s),
                time(&advice.blind_jct_s),
                format::percent(WORTH)
            );
        }
        if !sure {
            return format!(
                "**Change nothing for the sake of GPU types**: on {fleet}, `{typed}` has a mean time from submission to end of {}, and `{blind}`, which knows no types, of {}; a change is worth it from {} on, if that is sure.",
                time(&advice.jct_s),
                time(&advice.blind_jct_s),
                format::percent(WORTH)
            );
        }
        let (how, best) = if several {
            ("Let the allocation know GPU types, as", "the best rule without types")
        } else {
            ("Serve jobs as", "the best of the rules that ignore types, which here are all alike")
        };
        let mut said = format!(
            "**{how} `{typed}` does**: on {fleet}, that cuts the mean time from submission to end by {}, from {} under `{blind}`, {best}, to {}.",
            told(&advice.saving, &format::percent),
            time(&advice.blind_jct_s),
            time(&advice.jct_s)
        );
        if let Some(fifo) = advice.fifo_jct_s.filter(|fifo| fifo.value > advice.blind_jct_s.value) {
            let (turns, types) = (fifo.value - advice.blind_jct_s.value, advice.blind_jct_s.value - advice.jct_s.value);
            let (most, share) =
                if types >= turns { ("knowing types", types) } else { ("sharing the GPUs in turns", turns) };
            if !several {
                return format!("{said} FIFO needs {}.", time(&fifo));
            }
            said += &format!(
                " FIFO needs {}; of what is saved over it, {} comes from {most}.",
                time(&fifo),
                format::percent(share / (turns + types))
            );
        }
        said
    }

    /// Returns the saving where allocations are kept, in words.
    fn kept_in_words(&self) -> Option<String> {
        let advice = self.advice.as_ref()?;
        let kept = advice.kept_saving?;
        let share = |figure: AllocationFigure| told(&figure, &format::percent);
        let less = |figure: AllocationFigure| AllocationFigure {
            value: -figure.value,
            low: figure.high.map(|high| -high),
            high: figure.low.map(|low| -low),
        };
        let anew = if self.reallocate_s > 0.0 {
            format!("at least {} between allocations", format::duration(self.reallocate_s))
        } else {
            "allocations anew whenever a job comes or ends".to_owned()
        };
        let then = if kept.value < 0.0 {
            format!("the mean is {} longer than under `{}`", share(less(kept)), advice.blind.name())
        } else {
            format!("it saves {} against `{}`", share(kept), advice.blind.name())
        };
        Some(format!(
            "These figures are of {anew}. With at least {} between them, as Gavel's simulator has it, under `{}` {then} (`--reallocate {}min`).",
            format::duration(KEPT_MS as f64 / 1e3),
            advice.policy.name(),
            KEPT_MS / 60_000
        ))
    }

    /// How long allocations took on this machine, in words.
    pub fn allocating_in_words(&self) -> String {
        let sum = |of: fn(&AllocationRun) -> f64| self.runs.iter().map(of).sum::<f64>();
        let longest = self.runs.iter().max_by(|a, b| a.allocating_s.1.total_cmp(&b.allocating_s.1));
        format!(
            "{} took {} on average, and {} at most ({})",
            format::counted(self.runs.iter().map(|run| run.allocations).sum(), "allocation", "allocations"),
            format::duration(sum(|run| run.allocating_s.0) / sum(|run| run.allocations as f64).max(1.0)),
            format::duration(longest.map_or(0.0, |run| run.allocating_s.1)),
            longest.map_or("", |run| run.policy.name())
        )
    }

    /// Who misses the fewest deadlines, and what the advice does to them.
    fn late_in_words(&self) -> Option<String> {
        let fewest = self.fewest_missed.as_ref()?;
        let advised = self.advice.as_ref().zip(fewest.advised_missed);
        let beside = advised.map_or_else(String::new, |(advice, missed)| {
            format!(
                " **`{}`, which stands above for its mean time, misses {}**: it knows no deadlines, or gives them up.",
                advice.policy.name(),
                told(&missed, &format::percent)
            )
        });
        let (policy, missed) = (fewest.policy.name(), told(&fewest.missed, &format::percent));
        let fewest = if fewest.chosen_apart {
            format!(
                "Deadlines: `{policy}` missed the fewest on the first half of the seeds, and {missed} on the other."
            )
        } else {
            format!("Deadlines: `{policy}` misses the fewest of these jobs' deadlines, {missed}.")
        };
        Some(fewest + &beside)
    }

    /// Under which policy between users the worst-off user has most.
    fn users_in_words(&self) -> Option<String> {
        let of = |policy: AllocationPolicy| self.row(policy)?.users.as_ref();
        let between =
            [AllocationPolicy::Karma, AllocationPolicy::UserMaxMin, AllocationPolicy::Drf, AllocationPolicy::Partition];
        let had: Vec<String> = between
            .into_iter()
            .filter_map(|policy| {
                let users = of(policy)?;
                Some(format!("{} under `{}`", told(&users.had_least, &format::percent), policy.name()))
            })
            .collect();
        (had.len() > 1).then(|| {
            format!(
                "Users: of the GPU time that the worst-off user asked for it had {}. A difference within these intervals is none.",
                had.join(", ")
            )
        })
    }

    /// The answer as a report.
    pub fn report(&self) -> Report {
        let what = self.drawn.clone().unwrap_or_else(|| format::counted(self.jobs as u64, "job", "jobs"));
        let mut report = Report::new(
            format!("Who gets which GPU type? {}", self.title),
            format!("{}, rounds of {}; {what}", pool::in_words(&self.pools), format::duration(self.round_s)),
        );
        report.summary = vec![self.action.clone()];
        if let Some(advice) = &self.advice {
            let chosen = if advice.chosen_apart {
                "Both policies were chosen on the first half of the seeds, and these figures are of the other half."
            } else if self.drawn.is_none() {
                "Both policies were chosen on the jobs that these figures are of, which flatters them; one set of jobs gives no interval."
            } else {
                "Both policies were chosen on the jobs that these figures are of, which flatters them; four seeds or more keep the two apart."
            };
            report.summary.push(chosen.to_owned());
            report.summary.push(format!(
                "The worst-off job takes {} times as long as alone on an equal share under `{}`, and {} times under `{}`.",
                format::float(advice.worst_ratio, 2),
                advice.policy.name(),
                format::float(advice.blind_worst_ratio, 2),
                advice.blind.name()
            ));
        }
        report.summary.extend(self.kept_in_words());
        report.summary.extend(self.late_in_words());
        report.summary.extend(self.host_in_words().filter(|said| *said != self.action));
        report.summary.extend(self.users_in_words());
        report.summary.push(format!(
            "No schedule, whatever it knows of the future, has a mean time below {} or ends before {} (a relaxed bound: gangs are cut, and nobody waits for a round).",
            format::duration(self.limits.mean_jct_s.value),
            format::duration(self.limits.makespan_s.value)
        ));
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.times(), self.fairness()];
        report.sections.extend(self.host_section());
        report.sections.extend(self.users());
        report.sections.extend(self.deadlines());
        report.sections.push(self.runs_section());
        report
    }

    fn times(&self) -> Section {
        let first = self.policies.first().map_or("", |row| row.policy.name());
        let longest = self.policies.iter().map(|row| row.mean_jct_s.value).fold(0.0, f64::max);
        let (unit, unit_s) = if longest < 2.0 * 3600.0 { ("min", 60.0) } else { ("h", 3600.0) };
        let number = |seconds: f64| format::float(seconds / unit_s, 2);
        let time = |figure: &AllocationFigure| -> Cell { told(figure, &number).into() };
        let mut table = ReportTable::new(
            "Times by policy",
            vec![
                Column::text("Policy"),
                Column::text("Types"),
                Column::text(format!("Mean ({unit})")),
                Column::text(format!("Against {first}")),
                Column::with_unit("Median", unit),
                Column::with_unit("95 %", unit),
                Column::text(format!("All done after ({unit})")),
            ],
        );
        for (at, row) in self.policies.iter().enumerate() {
            table.rows.push(vec![
                row.policy.name().into(),
                if row.knows_types { "yes" } else { "no" }.into(),
                time(&row.mean_jct_s),
                if at == 0 { "".into() } else { told(&row.against_first, &format::percent).into() },
                Cell::float(row.p50_jct_s.value / unit_s, 2),
                Cell::float(row.p95_jct_s.value / unit_s, 2),
                time(&row.makespan_s),
            ]);
        }
        table.rows.push(vec![
            "(bound)".into(),
            "".into(),
            time(&self.limits.mean_jct_s),
            "".into(),
            "".into(),
            "".into(),
            time(&self.limits.makespan_s),
        ]);
        Section::new("allocation-times", "How long jobs take under each policy")
            .with_table(table)
            .with_definition("**Mean**, median and 95 % quantile are of the times from submission to end. Where jobs were drawn several times, figures are means over the seeds, and in brackets stands where 95 % of 1,000 draws of the seeds lie. **Types**: whether the policy knows how fast a job is on each.")
            .with_definition("The **bound** is no policy. It is what no schedule undercuts: GPU time is weighed by what the makespan programme pays for each type, and one machine that serves the shortest remaining job first does all the work.")
    }

    fn fairness(&self) -> Section {
        let mut columns = vec![
            Column::text("Policy"),
            Column::text("Worst finish-time ratio"),
            Column::text("Jobs above 1.1"),
            Column::number("Restarts a job"),
        ];
        columns.extend(self.pools.iter().map(|pool| Column::number(format!("{} held", pool.name))));
        let mut table = ReportTable::new("Fairness and use by policy", columns);
        for row in &self.policies {
            let mut cells: Vec<Cell> = vec![
                row.policy.name().into(),
                told(&row.worst_ratio, &|value| format::float(value, 2)).into(),
                told(&row.unfair, &format::percent).into(),
                Cell::float(row.restarts_per_job, 1),
            ];
            cells.extend(row.held.iter().map(|held| Cell::Percent(*held)));
            table.rows.push(cells);
        }
        Section::new("allocation-fairness", "Whom a policy makes wait, and how it uses each type")
            .with_table(table)
            .with_definition("The **finish-time ratio** of a job is its time from submission to end over the time that it takes alone on its equal share of every GPU type: above 1, it would have been better off with a share of its own. What the equal share is depends on how many others are there, under that policy.")
            .with_definition("**Held**: the share of a type's GPU time until the last end in which a job had it. A slow type that is held all the time may be no gain.")
    }

    fn users(&self) -> Option<Section> {
        let mut table = ReportTable::new(
            "Users by policy",
            vec![
                Column::text("Policy"),
                Column::text("Worst-off user had"),
                Column::text("Mean"),
                Column::text("Best-off user had"),
                Column::text("Longest mean of a user (h)"),
                Column::text("Shortest (h)"),
            ],
        );
        for (row, users) in self.policies.iter().filter_map(|row| Some((row, row.users?))) {
            let share = |figure: &AllocationFigure| -> Cell { told(figure, &format::percent).into() };
            let hours = |figure: &AllocationFigure| -> Cell {
                told(figure, &|seconds| format::float(seconds / 3600.0, 2)).into()
            };
            table.rows.push(vec![
                row.policy.name().into(),
                share(&users.had_least),
                share(&users.had_mean),
                share(&users.had_most),
                hours(&users.longest_jct_s),
                hours(&users.shortest_jct_s),
            ]);
        }
        let section = Section::new("allocation-users", "What each user gets").with_definition("**Had**: of the GPU time that a user's jobs asked for, all GPUs of each from its submission to its end, the share in which they held GPUs. A user who asks now and then may get more of what it asks for than one who asks all the time, and be treated fairly.");
        (!table.rows.is_empty()).then(|| section.with_table(table))
    }

    fn deadlines(&self) -> Option<Section> {
        let mut table = ReportTable::new(
            "Deadlines by policy",
            vec![
                Column::text("Policy"),
                Column::text("Missed"),
                Column::text("Late by (h)"),
                Column::text("Mean with deadline (h)"),
                Column::text("Mean of best effort (h)"),
                Column::text("Admitted"),
                Column::text("Of these late"),
            ],
        );
        let share = |figure: &AllocationFigure| -> Cell { told(figure, &format::percent).into() };
        let hours =
            |figure: &AllocationFigure| -> Cell { told(figure, &|seconds| format::float(seconds / 3600.0, 2)).into() };
        let known = |figure: &Option<AllocationFigure>, cell: &dyn Fn(&AllocationFigure) -> Cell| -> Cell {
            figure.as_ref().map_or_else(|| "".into(), cell)
        };
        for (row, dues) in self.policies.iter().filter_map(|row| Some((row, row.deadlines?))) {
            table.rows.push(vec![
                row.policy.name().into(),
                share(&dues.missed),
                known(&dues.late_s, &hours),
                hours(&dues.due_jct_s),
                known(&dues.best_effort_jct_s, &hours),
                known(&dues.admitted, &share),
                known(&dues.broken, &share),
            ]);
        }
        let missed = self.limits.missed.as_ref()?;
        table.rows.push(vec!["(bound)".into(), share(missed), "".into(), "".into(), "".into(), "".into(), "".into()]);
        Some(
            Section::new("allocation-deadlines", "Who is late")
                .with_table(table)
                .with_definition("**Missed**: the share of the jobs with deadlines that ended after them. **Late by**: by how much those did on average, over the sets of jobs in which some did. **Admitted**: the share of the jobs with deadlines to which the policy promised that they would be in time. Policies other than `edf`, `genie` and `chronus` know no deadlines.")
                .with_definition("The **bound** is no policy: no schedule, whatever it knows of the future, misses a smaller share. Gangs are cut for it, and nobody waits for a round."),
        )
    }

    fn runs_section(&self) -> Section {
        let mut table = ReportTable::new(
            "Every replay",
            vec![
                Column::text("Seed"),
                Column::text("Policy"),
                Column::with_unit("Mean", "s"),
                Column::with_unit("Median", "s"),
                Column::with_unit("95 %", "s"),
                Column::with_unit("All done after", "s"),
                Column::number("Worst ratio"),
                Column::number("Allocations"),
                Column::number("Programmes"),
            ],
        );
        for run in &self.runs {
            table.rows.push(vec![
                run.seed.map_or_else(String::new, |seed| seed.to_string()).into(),
                run.policy.name().into(),
                Cell::float(run.mean_jct_s, 0),
                Cell::float(run.p50_jct_s, 0),
                Cell::float(run.p95_jct_s, 0),
                Cell::float(run.makespan_s, 0),
                Cell::float(run.worst_ratio, 2),
                Cell::Int(run.allocations as i64),
                Cell::Int(run.programmes as i64),
            ]);
        }
        Section::new("allocation-runs", "Seed by seed").with_table(table)
    }
}
