//! The answer for people: fidelity first, then what was replayed, waits, causes, VCs, users, and the comparison.

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Zone;

use super::super::fidelity::Verdict;
use super::super::metric::{GroupFigures, Metrics, delay};
use super::{Answer, charts, words};

impl Answer {
    /// A section on what some replays have: what is found of the first, and a table of each; none if `of` has none of any.
    pub(super) fn by_replay(
        &self,
        section: Section,
        of: impl Fn(&Metrics) -> Option<(String, ReportTable)>,
    ) -> Option<Section> {
        let result: Vec<(&str, (String, ReportTable))> =
            self.replays().into_iter().filter_map(|replay| Some((replay.name, of(replay.metrics)?))).collect();
        let (first, (finding, _)) = result.first()?;
        let several = result.len() > 1;
        let finding = if several { format!("Under {first}: {finding}") } else { finding.clone() };
        Some(result.into_iter().fold(section.with_finding(finding), |section, (name, (_, mut table))| {
            if several {
                table.title = format!("{}, under {name}", table.title);
            }
            section.with_table(table)
        }))
    }

    /// The report.
    pub fn report(&self) -> Report {
        let compares = self.compares();
        let mut report = if compares {
            let names: Vec<&str> = self.replays().iter().map(|replay| replay.name).collect();
            let title = format!(
                "{}: {} compared",
                self.subject.title,
                format::counted(names.len() as u64, "policy", "policies")
            );
            Report::new(title, format!("The same jobs under {}", names.join(", ")))
        } else {
            Report::new(self.subject.title.clone(), format!("Replay under {}", self.policy))
        };
        report.notes.clone_from(&self.subject.notes);
        let comparison = self.comparison_section();
        report.sections.extend(self.growth_section());
        // Who asks what more work would do is told that first.
        report.summary = self.growth.as_ref().map(super::grown::sentences).unwrap_or_default();
        report.summary.extend(if compares { self.comparison_summary() } else { self.summary() });
        if compares {
            report.sections.extend(comparison);
            report.sections.extend(self.yardstick_section());
            report.sections.extend([self.fidelity_section(), self.subject_section()]);
        } else {
            report.sections.extend([self.wait_section(), self.fidelity_section(), self.subject_section()]);
            report.sections.extend(self.yardstick_section());
            report.sections.extend(comparison);
        }
        report.sections.extend(self.rejected_section());
        report.sections.extend(self.load_section());
        report.sections.extend(self.quota_section());
        report.sections.extend(self.limit_section());
        report.sections.extend(self.topology_section());
        report.sections.extend(self.share_section());
        let of_the_first = |section: Section| match compares {
            true => Section { title: format!("{}, under {}", section.title, self.name), ..section },
            false => section,
        };
        report.sections.extend(compares.then(|| of_the_first(self.wait_section())));
        report.sections.push(of_the_first(self.use_section()));
        // Of the causes each policy has its row.
        report.sections.push(self.cause_section());
        report.sections.push(of_the_first(self.fairness_section()));
        if self.fidelity.warns() {
            report.caution = Some(self.worth());
        }
        report.provenance = self
            .subject
            .sources
            .iter()
            .map(|source| {
                let size = format::bytes(source.size_bytes);
                (source.name.clone(), format!("{}, {size}, SHA-256 {}", source.reader, source.sha256))
            })
            .collect();
        report.provenance.extend([
            ("Form".to_owned(), self.schema.clone()),
            ("Policy".to_owned(), self.policy.clone()),
            ("Recorded policy, as replayed".to_owned(), self.recorded_policy.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        words::name(&mut report, self.subject.resource);
        report
    }

    /// Returns the fidelity of the replay in a sentence, for the summary.
    fn worth(&self) -> String {
        format!("**{}**", self.fidelity.sentence())
    }

    /// Adds that sentence to a summary; a replay that is far off says so first.
    pub(super) fn add_worth(&self, summary: &mut Vec<String>) {
        let place = if self.fidelity.warns() { 0 } else { summary.len() };
        summary.insert(place, self.worth());
    }

    fn summary(&self) -> Vec<String> {
        let all = &self.metrics.overall;
        let mut summary = Vec::new();
        if let Some(wait) = all.group.wait {
            summary.push(format!(
                "{} jobs wait {} on average, {} at the median and {} at the 95 % quantile; {} of the GPU time in service is used.",
                format::count(all.group.finished),
                format::duration(wait.mean_s),
                format::duration(wait.median_s),
                format::duration(wait.p95_s),
                all.utilisation.map_or_else(|| "an unknown part".to_owned(), format::percent),
            ));
        }
        self.add_worth(&mut summary);
        if let Some(cause) =
            self.metrics.delay.all.causes.iter().max_by(|a, b| a.gpu_wait_hours.total_cmp(&b.gpu_wait_hours))
            && let Some(share) = cause.gpu_wait_share
        {
            let what = match cause.cause {
                delay::Cause::Capacity => "the whole cluster was full",
                delay::Cause::Quota => "their own VC was full while GPUs were free elsewhere",
                delay::Cause::Fragmentation => "free GPUs were on the wrong nodes",
                delay::Cause::HeadOfLine => "they stood behind others though they would have fitted",
                delay::Cause::Limit => "a limit of their QOS, account or partition was reached",
                delay::Cause::Topology => {
                    "free GPUs were not near enough to each other, in one block, rack or network of switches"
                }
                delay::Cause::Processors => "free GPUs were on nodes without enough free processors",
                delay::Cause::Memory => "free GPUs were on nodes without enough free memory",
            };
            summary
                .push(format!("{} of the GPU-hours jobs waited were waited because {what}.", format::percent(share)));
        }
        summary.extend(self.overload_sentences());
        if self.oracle && self.known_by_run.is_none() {
            summary.push(
                "This replay knows how long jobs will run, so it is an oracle: a bound and no choice. `--predictions` replays what a model expected, `--estimate requested` the time limits."
                    .to_owned(),
            );
        }
        summary.extend(self.true_runs_sentence());
        summary.extend(self.rejected_sentence());
        match all.group.stranded {
            0 => {}
            stranded => summary.push(format!("{} still waited at the end.", format::counted(stranded, "job", "jobs"))),
        }
        summary
    }

    fn fidelity_section(&self) -> Section {
        let fidelity = &self.fidelity;
        let mut section = Section::new("fidelity", "Can the replay be believed?").with_finding(fidelity.sentence());
        if !fidelity.is_measured() {
            return section
                .with_text("Without recorded starts to compare with, what follows is what the policy would do to these jobs, not what it would have changed.")
                .with_definition(format!("Compared would have been {}.", self.recorded_policy));
        }
        let mut table = ReportTable::new(
            "The recorded policy replayed, against what was recorded",
            vec![Column::text("Measure"), Column::number("Value")],
        );
        let duration = |value: Option<f64>| Cell::opt(value, Cell::Duration);
        let digits = |value: Option<f64>| Cell::opt(value, |value| Cell::Float { value, digits: 3 });
        for (name, cell) in [
            ("Jobs compared", Cell::Int(fidelity.jobs as i64)),
            ("Jobs without a recorded start", Cell::Int(fidelity.without_start as i64)),
            ("Jobs that started then and never start here", Cell::Int(fidelity.never_started as i64)),
            ("Mean wait, recorded", duration(fidelity.recorded_mean_wait_s)),
            ("Mean wait, replayed", duration(fidelity.replayed_mean_wait_s)),
            ("Error of the start, median", duration(fidelity.median_abs_error_s)),
            ("Error of the start, mean", duration(fidelity.mean_abs_error_s)),
            ("Error of the start, 90 % quantile", duration(fidelity.p90_abs_error_s)),
            ("Error of the start, largest", duration(fidelity.max_abs_error_s)),
            ("Starts met within a minute", Cell::opt(fidelity.within_60_s_share, Cell::Percent)),
            ("Order of starts, Kendall's τ-b", digits(fidelity.start_order_tau)),
            ("Order of waits, Kendall's τ-b", digits(fidelity.wait_order_tau)),
        ] {
            table.rows.push(vec![name.into(), cell]);
        }
        section = section.with_table(table);
        if let Verdict::Unknown { .. } = fidelity.verdict {
            section = section.with_text("What follows is what the policies would do to these jobs on these nodes. How far that is from what they would really do is not known.");
        }
        if fidelity.verdict == Verdict::FarOff {
            section = section.with_text("**Do not act on what follows.** The cluster did something else than this policy on these nodes; say what it did with --recorded and --site.");
        }
        section.with_definition(format!("Replayed was {}.", self.recorded_policy)).with_definition(
            "Exact: every start met to the millisecond. Good: mean wait within 10 % (or 60 s), τ of starts at least 0.95, and τ of waits at least 0.5 or nine starts of ten within a minute. Both take a recorded start of at least half of the jobs. Rough: within 50 % and 0.80, or less than that takes. Else far off.",
        )
    }

    fn subject_section(&self) -> Section {
        let subject = &self.subject;
        let load = subject.load.map_or_else(String::new, |load| format!(", an offered load of {load:.2}"));
        // Not known of a trace that a test made up.
        let zone = Zone::named(&subject.zone).unwrap_or_else(|_| Zone::utc());
        let when = if subject.has_dates {
            format!("; submitted {}", zone.show_between(subject.from_ms, subject.to_ms))
        } else {
            String::new()
        };
        let amount = format::counted(subject.gpus, "GPU", "GPUs");
        let machine = match subject.resource {
            Resource::Gpus => format!("{} with {amount}", format::counted(subject.nodes, "node", "nodes")),
            Resource::Cpus | Resource::Nodes => amount,
        };
        let finding = format!(
            "{} on {machine} in {}, over {}{load}{when}.",
            format::counted(subject.jobs, "job", "jobs"),
            format::counted(subject.vcs, "VC", "VCs"),
            format::duration(subject.span_s),
        );
        let mut section = Section::new("jobs", "What was replayed").with_finding(finding);
        if subject.running_at_start + subject.waiting_at_start > 0 {
            section = section.with_text(format!(
                "When the replay begins, {} run and {} wait. Those that run hold their GPUs and are not counted.",
                format::counted(subject.running_at_start, "job", "jobs"),
                format::count(subject.waiting_at_start)
            ));
        }
        if !subject.left_out.is_empty() {
            let columns = vec![Column::text("Reason"), Column::number("Jobs"), Column::text("Such as")];
            let mut table = ReportTable::new("Jobs that are not replayed", columns);
            for left_out in &subject.left_out {
                let example = Cell::Text(left_out.example.clone());
                table.rows.push(vec![left_out.reason.as_str().into(), Cell::Int(left_out.jobs as i64), example]);
            }
            section = section.with_table(table);
        }
        section
            .with_definition("Nodes and GPU-hours are those with GPUs and of the jobs replayed; `tracecast describe` also counts nodes without GPUs and jobs that had not ended.")
            .with_definition("Offered load: GPU time asked for / GPU time there is from the first to the last submission, with the cluster at its largest.")
    }

    fn yardstick_section(&self) -> Option<Section> {
        let yardstick = self.yardstick.as_ref()?;
        let finding = match yardstick.gap_closed {
            None if yardstick.without_predictions => {
                "This QSSF knows true durations, which no scheduler does; give it --predictions to see what they are worth."
                    .to_owned()
            }
            Some(share) => format!(
                "The predictions close {} of the gap between no prediction at all and true durations.",
                format::percent(share)
            ),
            None => "There is no gap between no prediction at all and true durations, so predictions cannot help."
                .to_owned(),
        };
        let mut table = ReportTable::new("Mean wait", vec![Column::text("Order"), Column::number("Mean wait")]);
        for (name, value, shown) in [
            ("Fewest GPUs first, no prediction", yardstick.fewest_gpus_mean_wait_s, true),
            ("QSSF as asked for", yardstick.qssf_mean_wait_s, !yardstick.without_predictions),
            ("QSSF on true durations (oracle)", yardstick.oracle_mean_wait_s, true),
        ] {
            if !shown {
                continue;
            }
            table.rows.push(vec![name.into(), Cell::Duration(value)]);
        }
        let section = Section::new("yardstick", "What QSSF owes to its predictions").with_finding(finding);
        Some(section.with_table(table).with_definition(
            "Much of the gain of QSSF comes from the number of GPUs alone, which needs no prediction; share of the gap = (fewest − QSSF) / (fewest − oracle).",
        ))
    }

    fn wait_section(&self) -> Section {
        let wait = self.metrics.overall.group.wait;
        let finding = wait.map_or_else(
            || "No job ended.".to_owned(),
            |wait| {
                format!(
                    "The mean wait is {}, the 99 % quantile {}.",
                    format::duration(wait.mean_s),
                    format::duration(wait.p99_s)
                )
            },
        );
        let mut section = Section::new("waits", "Waits and completion times").with_finding(finding);
        let sizes = self.metrics.by_size.iter().map(|of| (of.size.name().to_owned(), &of.group));
        section = section.with_table(groups(
            "By size",
            "Size",
            std::iter::once(("all".to_owned(), &self.metrics.overall.group)).chain(sizes),
        ));
        let durations = self.metrics.by_duration.iter().map(|of| (of.duration.name().to_owned(), &of.group));
        section = section.with_table(groups("By run time", "Run", durations));
        let metrics = &self.metrics;
        for (title, what, of) in [
            ("By VC", "VC", &metrics.by_vc),
            ("By QOS", "QOS", &metrics.by_qos),
            ("By account", "Account", &metrics.by_account),
        ] {
            if of.len() > 1 {
                let rows = of.iter().map(|of| (of.name.clone(), &of.group));
                section = section.with_table(groups(title, what, rows));
            }
        }
        if let Some(chart) = charts::vcs(self) {
            section = section.with_chart(chart);
        }
        if let Some(chart) = charts::wait_by_size(self) {
            section = section.with_chart(chart);
        }
        section
            .with_definition("Wait: from submission to end less the run, so that work which a failure or a stop undid counts. JCT: submission to end. Of jobs that ended.")
            .with_definition("Bounded slowdown: max(1, JCT / max(run, 10 s)).")
    }

    fn use_section(&self) -> Section {
        let all = &self.metrics.overall;
        let finding = format!(
            "{} GPU-hours of {} in service were used{}.",
            format::compact(all.gpu_hours_in_use),
            format::compact(all.gpu_hours_in_service),
            all.utilisation.map_or_else(String::new, |share| format!(" ({})", format::percent(share)))
        );
        let mut table = ReportTable::new("Use", vec![Column::text("Measure"), Column::number("Value")]);
        let fragmentation = &all.fragmentation;
        for (name, cell) in [
            ("Makespan", Cell::opt(all.makespan_s, Cell::Duration)),
            ("GPU-hours lost to preemption and failures", Cell::Compact(all.lost_gpu_hours)),
            ("Free GPUs, mean", Cell::opt(fragmentation.free_gpus, |value| Cell::Float { value, digits: 1 })),
            ("Of free GPU time, on partly used nodes", Cell::opt(fragmentation.partly_used_share, Cell::Percent)),
            (
                "GPUs free where jobs waited for fragmentation only, mean",
                Cell::opt(fragmentation.stranded_gpus, |value| Cell::Float { value, digits: 1 }),
            ),
            ("Preemptions", Cell::Int(all.group.preemptions as i64)),
            ("Restarts after node failures", Cell::Int(all.group.restarts as i64)),
        ] {
            table.rows.push(vec![name.into(), cell]);
        }
        if let Some(value) = fragmentation.hostless_gpus {
            let name = "GPUs free without processors or memory for any job, mean";
            table.rows.push(vec![name.into(), Cell::Float { value, digits: 1 }]);
        }
        let section = Section::new("use", "Use of the GPUs")
            .with_finding(finding)
            .with_chart(charts::in_use(self))
            .with_chart(charts::queue(self))
            .with_table(table);
        if self.subject.resource != Resource::Gpus {
            return section;
        }
        let section = section.with_table(self.room_table());
        match charts::gangs(self) {
            Some(chart) => section.with_chart(chart),
            None => section,
        }
    }

    /// Returns the table of gangs that would have fitted beside what ran.
    fn room_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Room for one more gang, mean over time",
            vec![
                Column::text("Gang"),
                Column::number("Gangs that fit"),
                Column::number("If free GPUs lay together"),
                Column::number("Time in which none fits"),
                Column::number("Fit at the end of the record"),
            ],
        );
        for room in &self.metrics.overall.fragmentation.room {
            table.rows.push(vec![
                format!("{} GPUs", room.gpus).into(),
                Cell::Float { value: room.gangs_mean, digits: 1 },
                Cell::Float { value: room.gangs_if_together_mean, digits: 1 },
                Cell::Percent(room.none_share),
                Cell::Int(room.gangs_at_end as i64),
            ]);
        }
        table.note = Some(
            "On as few nodes of one pool as a gang needs, whatever the quotas: a VC with nodes of its own has those alone. Between the first two columns lies what fragmentation takes. The record ends with the last submission; the replay runs on until all jobs have ended.".to_owned(),
        );
        table
    }

    fn cause_section(&self) -> Section {
        let delay = &self.metrics.delay;
        let compares = self.compares();
        let under = if compares { format!(", under {}", self.name) } else { String::new() };
        let finding = format!(
            "{} waited{under}, {} GPU-hours in all.",
            format::counted(delay.all.jobs, "job", "jobs"),
            format::compact(delay.all.gpu_wait_hours)
        );
        let mut columns =
            vec![Column::text("Size"), Column::number("Jobs that waited"), Column::with_unit("Waited", "GPU-hours")];
        columns.extend(delay.all.causes.iter().map(|of| Column::number(of.cause.name())));
        let title = format!("Why jobs waited{under}: share of the GPU-hours waited");
        let mut table = ReportTable::new(title, columns);
        let row = |name: &str, delay: &delay::Delay| {
            let mut row: Vec<Cell> =
                vec![name.into(), Cell::Int(delay.jobs as i64), Cell::Compact(delay.gpu_wait_hours)];
            row.extend(delay.causes.iter().map(|cause| Cell::opt(cause.gpu_wait_share, Cell::Percent)));
            row
        };
        table.rows.push(row("all", &delay.all));
        table.rows.extend(delay.by_size.iter().map(|of| row(of.size.name(), &of.delay)));
        let mut section = Section::new("causes", "Why jobs waited").with_finding(finding);
        if compares {
            section = section.with_table(self.causes_by_replay());
        }
        section = section.with_table(table);
        if delay.by_vc.len() > 1 {
            let mut columns =
                vec![Column::text("VC"), Column::number("Jobs that waited"), Column::with_unit("Waited", "GPU-hours")];
            columns.extend(delay.all.causes.iter().map(|of| Column::number(of.cause.name())));
            let mut table = ReportTable::new(format!("By VC{under}"), columns);
            table.rows.extend(delay.by_vc.iter().map(|of| row(&of.vc, &of.delay)));
            section = section.with_table(table);
        }
        if self.metrics.overall.fragmentation.hostless_gpus.is_some() {
            section = section.with_definition("Processors: nodes had its GPUs free, but not with the processors it asks for. Memory: they had these too, but not with its memory.");
        }
        section
            .with_definition("Capacity: the whole cluster had too few free GPUs. Quota: the job's VC had, while the cluster had enough.")
            .with_definition("Fragmentation: its VC had enough free GPUs, on the wrong nodes. Head of line: it would have fitted, and stood behind others.")
            .with_definition("`tracecast describe` gives the same causes, in the same order and also as shares of the GPU-hours waited, of the recorded schedule, for waits of at least a minute. The two agree as far as the replay does what the cluster did.")
    }

    /// Why jobs waited under each policy: what was waited in all, and the share of each cause that any of them has.
    fn causes_by_replay(&self) -> ReportTable {
        let replays = self.replays();
        let mut causes: Vec<delay::Cause> = Vec::new();
        for of in replays.iter().flat_map(|replay| &replay.metrics.delay.all.causes) {
            if !causes.contains(&of.cause) {
                causes.push(of.cause);
            }
        }
        let mut columns =
            vec![Column::text("Policy"), Column::number("Jobs that waited"), Column::with_unit("Waited", "GPU-hours")];
        columns.extend(causes.iter().map(|cause| Column::number(cause.name())));
        let mut table = ReportTable::new("Why jobs waited under each policy: share of the GPU-hours waited", columns);
        for replay in &replays {
            let all = &replay.metrics.delay.all;
            let mut row: Vec<Cell> =
                vec![replay.name.into(), Cell::Int(all.jobs as i64), Cell::Compact(all.gpu_wait_hours)];
            row.extend(causes.iter().map(|cause| {
                let of = all.causes.iter().find(|of| of.cause == *cause);
                Cell::opt(of.and_then(|of| of.gpu_wait_share), Cell::Percent)
            }));
            table.rows.push(row);
        }
        table
    }

    fn fairness_section(&self) -> Section {
        let fairness = &self.metrics.overall.fairness;
        let finding = match fairness.jain_users {
            Some(jain) => format!("Jain's index of the users' mean slowdown is {jain:.3} (1 is equal for all)."),
            None => "Too few jobs ended to tell.".to_owned(),
        };
        let mut section = Section::new("fairness", "Users").with_finding(finding);
        let mut table = ReportTable::new("Fairness", vec![Column::text("Measure"), Column::number("Value")]);
        let number = |value: Option<f64>| Cell::opt(value, |value| Cell::Float { value, digits: 2 });
        for (name, cell) in [
            ("Jain's index over users", number(fairness.jain_users)),
            ("Jain's index over VCs", number(fairness.jain_vcs)),
            ("Largest finish-time ratio", number(fairness.max_finish_time_ratio)),
            ("Finish-time ratio, 95 % quantile", number(fairness.p95_finish_time_ratio)),
            ("Jobs with a finish-time ratio above 1", Cell::opt(fairness.over_fair_share, Cell::Percent)),
        ] {
            table.rows.push(vec![name.into(), cell]);
        }
        section = section.with_table(table);
        if self.metrics.by_user.len() > 1 {
            let users = self.metrics.by_user.iter().map(|of| (of.name.clone(), &of.group));
            let rest = self.metrics.other_users.iter().map(|group| ("all others".to_owned(), group));
            section = section.with_table(groups("Users with most GPU time", "User", users.chain(rest)));
        }
        section.with_definition(
            "Finish-time ratio (Themis): JCT over what the job would take alone on an equal share of its pool.",
        )
    }
}

fn groups<'a>(title: &str, what: &str, rows: impl Iterator<Item = (String, &'a GroupFigures)>) -> ReportTable {
    let mut table = ReportTable::new(
        title,
        vec![
            Column::text(what),
            Column::number("Jobs"),
            Column::number("Mean wait"),
            Column::number("Median"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("Mean JCT"),
            Column::number("Slowdown"),
        ],
    );
    for (name, group) in rows {
        let wait = |of: fn(&super::super::metric::Times) -> f64| {
            Cell::opt(group.wait.as_ref(), |times| Cell::Duration(of(times)))
        };
        table.rows.push(vec![
            name.into(),
            Cell::Int(group.jobs as i64),
            wait(|times| times.mean_s),
            wait(|times| times.median_s),
            wait(|times| times.p95_s),
            wait(|times| times.p99_s),
            Cell::opt(group.jct, |jct| Cell::Duration(jct.mean_s)),
            Cell::opt(group.bounded_slowdown, |slowdown| Cell::Float { value: slowdown.mean, digits: 1 }),
        ]);
    }
    table
}
