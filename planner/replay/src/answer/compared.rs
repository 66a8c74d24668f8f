//! Comparison of several replays of the same jobs: who waits least, who is beaten, and which of the
//! differences may not come again.
//!
//! A policy is **beaten** if another that is no oracle waits less on average, beyond what the bootstrap calls chance, and no longer at the 95 % quantile. Where one episode
//! ([`Episode`]) makes most of the difference it is beaten *in this record only*. What would make a comparison unfair comes before all that: failures of nodes that only some
//! replays have, and a first replay on other nodes than the record's.
//!
//! O(policies²). Worked example: a policy waits 40 min longer than FIFO (20 min … 1 h), and 87 % of that comes from the jam of one week: it is beaten in this record only.

use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};
use tracecast_analytics::time::{DAY_MS, Zone};

use super::super::compare::{Episode, Merit, PairedWait};
use super::super::metric::Metrics;
use super::{Answer, KnownByRun, charts};

/// Characters of a date, and of a date with hours and minutes.
const DATE: usize = 10;
const MINUTES: usize = 16;
/// Policies that a sentence names one by one.
const NAMED: usize = 6;

/// A replay, the first or another, as tables show it.
pub(super) struct Shown<'a> {
    pub(super) name: &'a str,
    policy: &'a str,
    oracle: bool,
    known_by_run: Option<KnownByRun>,
    node_failures: u64,
    pub(super) metrics: &'a Metrics,
}

/// Standing of a policy among the others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    /// An oracle, which knows how long jobs run: a bound and no rival.
    Oracle,
    /// More jobs never end than under another policy, so that the waits are of fewer jobs: no
    /// rival.
    FewerEnd,
    /// Beaten by another policy; the days that make most of that.
    Beaten(Option<Episode>),
    /// Beaten by one episode alone; and by how much another waits less without it, seconds a job.
    Once(Episode, f64),
    /// Beaten by none.
    Unbeaten,
}

impl Answer {
    /// Whether several policies are compared, beside those that are added for QSSF.
    pub(super) fn compares(&self) -> bool {
        self.others.len() > if self.yardstick.is_some() { 2 } else { 0 }
    }

    /// Jobs that never end, as they are rejected or stranded, beyond those under the policy with the fewest; by replay.
    fn never_end(&self) -> Vec<u64> {
        let replays = self.replays();
        let never = |replay: &Shown<'_>| {
            let all = &replay.metrics.overall.group;
            all.jobs.saturating_sub(all.finished)
        };
        let fewest = replays.iter().map(never).min().unwrap_or(0);
        replays.iter().map(|replay| never(replay) - fewest).collect()
    }

    /// The replays under which no more jobs never end than under another.
    fn all_end(&self) -> Vec<Shown<'_>> {
        self.replays()
            .into_iter()
            .zip(self.never_end())
            .filter(|(_, more)| *more == 0)
            .map(|(replay, _)| replay)
            .collect()
    }

    /// Returns the sentence that jobs never end under some policies and do under others.
    fn never_end_sentence(&self) -> Option<String> {
        let replays = self.replays();
        let more = replays.iter().zip(self.never_end()).filter(|(_, more)| *more > 0);
        let said: Vec<String> =
            more.map(|(replay, more)| format!("{} ({} more)", replay.name, format::count(more))).collect();
        (!said.is_empty()).then(|| {
            let so = if said.len() == 1 {
                "Its waits are of the jobs that are left, so it is not called best and beats none."
            } else {
                "Their waits are of the jobs that are left, so they are not called best and beat none."
            };
            format!("**Jobs that never start or end are more under {}** than under the others. {so}", said.join(", "))
        })
    }

    /// Returns the first sentences of a comparison: who waits least, who is beaten, who is fairest,
    /// and how much that is worth.
    pub(super) fn comparison_summary(&self) -> Vec<String> {
        let ends = self.all_end();
        let mean = |replay: &Shown<'_>| replay.metrics.overall.group.wait.map_or(f64::INFINITY, |wait| wait.mean_s);
        let least = |oracle: bool| {
            let of = ends.iter().filter(|replay| replay.oracle == oracle && mean(replay).is_finite());
            of.min_by(|a, b| mean(a).total_cmp(&mean(b)))
        };
        let against = |name: &str| {
            PairedWait::find(&self.pairs, name, &self.name).map_or_else(String::new, |pair| {
                let change = pair.mean_wait_s.as_durations();
                let decisive = pair.episode.filter(|episode| pair.mean_wait_s.excludes(0.0) && episode.decides());
                let mostly =
                    decisive.map_or_else(String::new, |episode| format!(", mostly from {}", self.period(&episode)));
                // Means are of all jobs that end, the difference of fewer: the two need not agree.
                let among = self.comparison.as_ref().filter(|comparison| comparison.left_out > 0);
                let among = among.map_or_else(String::new, |comparison| {
                    format!(" over the {} jobs that end under every policy", format::count(comparison.jobs))
                });
                format!(" against {}: {change}{among}{mostly}", self.name)
            })
        };
        // Only what can be had is called best.
        let mut summary = Vec::new();
        let (known, oracle) = (least(false), least(true));
        if let Some(known) = known {
            let wait = format::duration(mean(known));
            let of = if oracle.is_some() { "Of the policies that are no oracles, " } else { "" };
            summary.push(format!("{of}**{}** has the least mean wait, **{wait}**{}.", known.name, against(known.name)));
        }
        if let Some(oracle) = oracle {
            let wait = format::duration(mean(oracle));
            let why = match oracle.known_by_run {
                Some(known) => format!("it knows {} of the jobs by their true run", format::percent(known.share)),
                None => "it knows how long jobs will run".to_owned(),
            };
            summary.push(format!(
                "{} waits **{wait}**, but is an oracle: {why}. That is a bound and no choice.",
                oracle.name
            ));
        }
        summary.push(self.beaten_sentence());
        summary.extend(self.fairest_sentence());
        self.add_worth(&mut summary);
        summary.extend(self.true_runs_sentence());
        let first = [
            self.never_end_sentence(),
            self.rejected_sentence(),
            self.unequal_failures_sentence(),
            self.other_nodes_sentence(),
        ];
        summary.splice(0..0, first.into_iter().flatten());
        summary
    }

    /// Returns the sentence that the first policy was not replayed on the nodes of the record,
    /// where the mean wait differs.
    fn other_nodes_sentence(&self) -> Option<String> {
        let here = format::duration(self.metrics.overall.group.wait?.mean_s);
        let recorded = format::duration(self.fidelity.recorded_mean_wait_s?);
        (self.on_other_nodes && here != recorded).then(|| {
            format!(
                "**{} does not have the recorded cluster**: on its nodes jobs wait {here} on average, and {recorded} in the record. How well the replay repeats what \
                 happened was checked on the recorded nodes.",
                self.name
            )
        })
    }

    /// Returns the sentence that the failures of nodes differ between the replays.
    fn unequal_failures_sentence(&self) -> Option<String> {
        let counts = |replay: &Shown<'_>| match replay.node_failures {
            0 => format!("{} none", replay.name),
            failures => format!("{} {}", replay.name, format::count(failures)),
        };
        self.failures_differ.then(|| {
            let all: Vec<String> = self.replays().iter().map(counts).collect();
            format!(
                "**The failures of nodes are unequal**, so part of the differences may be theirs: {}. Give each cluster file the same [[outage]] entries; `tracecast cluster \
                 SOURCE --over-time` writes those of the trace.",
                all.join(", ")
            )
        })
    }

    /// How many jobs are known by their true run for want of an estimate; `None` if none is.
    pub(super) fn true_runs_sentence(&self) -> Option<String> {
        let replays = self.replays();
        let known = |replay: &Shown<'_>| replay.known_by_run.filter(|known| known.share > 0.0);
        let such: Vec<(&Shown<'_>, KnownByRun)> =
            replays.iter().filter_map(|replay| Some((replay, known(replay)?))).collect();
        let mut said: Vec<String> = Vec::new();
        let kinds: Vec<KnownByRun> = such.iter().map(|(_, known)| *known).collect();
        for (at, kind) in kinds.iter().enumerate().filter(|(at, kind)| !kinds[..*at].contains(kind)) {
            let of: Vec<&Shown<'_>> = such[at..].iter().filter(|(_, known)| known == kind).map(|(of, _)| *of).collect();
            let names: Vec<&str> = of.iter().map(|replay| replay.name).collect();
            let lack = kind.lack();
            let under = if replays.len() > 1 { format!(" under {}", names.join(", ")) } else { String::new() };
            let so = match (of.iter().all(|replay| replay.oracle), of.len()) {
                (false, _) => "",
                (true, 1) => ", more than a twentieth, so that this is an oracle: a bound and no choice",
                (true, _) => ", more than a twentieth, so that these are oracles: bounds and no choices",
            };
            said.push(format!(
                "{} of the jobs have {lack} and are known by their true run{under}{so}.",
                format::percent(kind.share)
            ));
        }
        (!said.is_empty()).then(|| said.join(" "))
    }

    /// Returns the standing of each policy.
    fn standings(&self) -> Vec<Standing> {
        let replays = self.replays();
        let merit = |replay: &Shown<'_>| {
            let wait = replay.metrics.overall.group.wait;
            Merit {
                mean_wait_s: wait.map_or(f64::INFINITY, |wait| wait.mean_s),
                p95_wait_s: wait.map_or(f64::INFINITY, |wait| wait.p95_s),
            }
        };
        let never_end = self.never_end();
        let standing = |(this, more): (&Shown<'_>, &u64)| {
            if this.oracle {
                return Standing::Oracle;
            }
            if *more > 0 {
                return Standing::FewerEnd;
            }
            let rivals = replays
                .iter()
                .zip(&never_end)
                .filter(|(other, more)| **more == 0 && !other.oracle && merit(other).dominates(&merit(this)));
            let rivals = rivals.map(|(other, _)| other);
            let pairs = rivals.filter_map(|other| PairedWait::find(&self.pairs, this.name, other.name));
            // Where the jobs cannot tell two waits apart, neither beats the other.
            let clear: Vec<PairedWait> = pairs.filter(|pair| pair.mean_wait_s.low > 0.0).collect();
            // The rival whose gain hangs least on one episode says most.
            let share = |pair: &PairedWait| pair.episode.map_or(0.0, |episode| episode.share);
            let Some(pair) = clear.into_iter().min_by(|a, b| share(a).total_cmp(&share(b))) else {
                return Standing::Unbeaten;
            };
            match pair.episode.filter(Episode::decides) {
                Some(episode) => Standing::Once(episode, pair.mean_wait_s.value * (1.0 - episode.share)),
                None => Standing::Beaten(pair.episode),
            }
        };
        replays.iter().zip(&never_end).map(standing).collect()
    }

    /// Returns the standings of the policies in a sentence.
    fn beaten_sentence(&self) -> String {
        let replays = self.replays();
        let all: Vec<(&str, Standing)> = replays.iter().map(|replay| replay.name).zip(self.standings()).collect();
        let oracles =
            all.iter().filter(|(_, standing)| matches!(standing, Standing::Oracle | Standing::FewerEnd)).count();
        let has_oracle = all.iter().any(|(_, standing)| *standing == Standing::Oracle);
        let except = if has_oracle { " Oracles are left aside here: they are bounds." } else { "" };
        if all.len() - oracles < 2 && !has_oracle {
            return "None can be called beaten, as of all but one fewer jobs end.".to_owned();
        }
        if all.len() - oracles < 2 {
            let estimates = if replays.iter().any(|replay| replay.oracle && replay.known_by_run.is_some()) {
                "Too many jobs have no time limit for `--estimate requested`; `--predictions` gives each a prediction."
            } else {
                "`--estimate requested` takes time limits for true run times, `--predictions` predictions."
            };
            return format!("Fewer than two of the policies are no oracles, so none can be called beaten. {estimates}");
        }
        let mut said = Vec::new();
        let beaten: Vec<(&str, Option<Episode>)> = all
            .iter()
            .filter_map(|(name, standing)| match standing {
                Standing::Beaten(episode) => Some((*name, *episode)),
                _ => None,
            })
            .collect();
        if !beaten.is_empty() {
            let names: Vec<&str> = beaten.iter().map(|(name, _)| *name).collect();
            let are = if names.len() == 1 { "is" } else { "are" };
            let worst = beaten.iter().take(NAMED).filter_map(|(name, episode)| {
                let (share, period) = (format::percent(episode.as_ref()?.share), self.period(episode.as_ref()?));
                let of = if names.len() == 1 { String::new() } else { format!(" ({name})") };
                Some(format!("{share}{of} comes from {period}"))
            });
            let worst: Vec<String> = worst.collect();
            let worst =
                if worst.is_empty() { String::new() } else { format!(" Of the difference, {}.", worst.join("; ")) };
            said.push(format!(
                "**{}** {are} beaten: another policy waits less on average, beyond what chance would do, and no longer at the 95 % quantile.{worst}",
                format::names(&names, NAMED)
            ));
        }
        let once = all.iter().filter(|(_, standing)| matches!(standing, Standing::Once(..))).count();
        if once > NAMED {
            said.push(format!(
                "{once} are beaten in this record only, mostly in one episode, so it may not come again: those with *in one episode* in the column *Beaten*."
            ));
        }
        for (name, standing) in all.iter().filter(|_| once <= NAMED) {
            let Standing::Once(episode, rest_s) = standing else { continue };
            let how = match *rest_s {
                ..=0.0 => "all of the difference".to_owned(),
                rest_s => {
                    let share = format::percent(episode.share);
                    format!("{share} of the difference; {} a job without it", format::duration(rest_s))
                }
            };
            said.push(format!(
                "**{name}** is beaten in this record only: another policy waits less on average and no longer at the 95 % quantile, but mostly from {} ({how}), so it may not \
                 come again.",
                self.period(episode)
            ));
        }
        if said.is_empty() {
            said.push("None is clearly beaten: none waits less than another on average, beyond what chance would do, and no longer at the 95 % quantile.".to_owned());
        }
        format!("{}{except}", said.join(" "))
    }

    /// The time of an episode: `the week from 2024-03-04`.
    fn period(&self, episode: &Episode) -> String {
        let subject = &self.subject;
        let zone = Zone::named(&subject.zone).unwrap_or_else(|_| Zone::utc());
        let begins = |length: usize| {
            if subject.has_dates {
                zone.show(episode.from_ms).chars().take(length).collect()
            } else {
                format!("day {} of the replay", (episode.from_ms - subject.origin_ms).div_euclid(DAY_MS) + 1)
            }
        };
        match episode.days {
            1 => format!("the 24 hours from {}", begins(MINUTES)),
            7 => format!("the week from {}", begins(DATE)),
            days => format!("the {days} days from {}", begins(DATE)),
        }
    }

    /// Returns a sentence on the policy that treats users most alike, with its Jain index.
    fn fairest_sentence(&self) -> Option<String> {
        let ends = self.all_end();
        let choices = ends.iter().filter(|replay| !replay.oracle);
        let known = choices.filter_map(|replay| Some((replay.name, replay.metrics.overall.fairness.jain_users?)));
        let known: Vec<(&str, f64)> = known.collect();
        let (name, most) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let least = known.iter().map(|(_, jain)| *jain).fold(f64::INFINITY, f64::min);
        Some(format!(
            "Users are treated most alike under {name}: Jain's index of their mean slowdowns is {most:.2}, {least:.2} at the least (1 is equal for \
             all). The index does not count where policies are called beaten."
        ))
    }

    /// All replays, the first first.
    pub(super) fn replays(&self) -> Vec<Shown<'_>> {
        let first = Shown {
            name: &self.name,
            policy: &self.policy,
            oracle: self.oracle,
            known_by_run: self.known_by_run,
            node_failures: self.node_failures,
            metrics: &self.metrics,
        };
        let others = self.others.iter().map(|replay| Shown {
            name: &replay.name,
            policy: &replay.policy,
            oracle: replay.oracle,
            known_by_run: replay.known_by_run,
            node_failures: replay.node_failures,
            metrics: &replay.metrics,
        });
        std::iter::once(first).chain(others).collect()
    }

    /// The section on several replays; none of one.
    pub(super) fn comparison_section(&self) -> Option<Section> {
        let comparison = self.comparison.as_ref()?;
        let replays = self.replays();
        let mut table = ReportTable::new(
            "The same jobs under each policy",
            vec![
                Column::text("Policy"),
                Column::number("Mean wait"),
                Column::number("p95 wait"),
                Column::number("Mean JCT"),
                Column::number("Slowdown"),
                Column::number("GPUs used"),
                Column::with_unit("Lost", "GPU-h"),
                Column::number("Jain"),
                Column::number("Preemptions"),
                Column::text("Beaten"),
            ],
        );
        for (replay, standing) in replays.iter().zip(self.standings()) {
            let all = &replay.metrics.overall;
            table.rows.push(vec![
                replay.name.into(),
                Cell::opt(all.group.wait, |wait| Cell::Duration(wait.mean_s)),
                Cell::opt(all.group.wait, |wait| Cell::Duration(wait.p95_s)),
                Cell::opt(all.group.jct, |jct| Cell::Duration(jct.mean_s)),
                Cell::opt(all.group.bounded_slowdown, |slowdown| Cell::Float { value: slowdown.mean, digits: 1 }),
                Cell::opt(all.utilisation, Cell::Percent),
                Cell::Compact(all.lost_gpu_hours),
                Cell::opt(all.fairness.jain_users, |value| Cell::Float { value, digits: 3 }),
                Cell::Int(all.group.preemptions as i64),
                match standing {
                    Standing::Oracle => "oracle",
                    Standing::FewerEnd => "fewer jobs end",
                    Standing::Beaten(_) => "yes",
                    Standing::Once(..) => "in one episode",
                    Standing::Unbeaten => "no",
                }
                .into(),
            ]);
        }
        let columns = vec![
            Column::text("Against the first"),
            Column::text("Mean wait"),
            Column::text("p95 wait"),
            Column::text("Mean JCT"),
            Column::number("Wait less"),
            Column::number("Wait more"),
        ];
        let mut paired =
            ReportTable::new(format!("Differences to {}, with 95 % intervals", comparison.baseline), columns);
        for difference in &comparison.differences {
            paired.rows.push(vec![
                difference.name.as_str().into(),
                difference.mean_wait_s.as_durations().into(),
                difference.p95_wait_s.as_durations().into(),
                difference.mean_jct_s.as_durations().into(),
                Cell::Percent(difference.less_wait_share),
                Cell::Percent(difference.more_wait_share),
            ]);
        }
        let mut section = Section::new("comparison", "The same jobs under other policies")
            .with_finding(self.beaten_sentence())
            .with_table(table)
            .with_table(paired);
        if let Some(chart) = charts::pareto(self) {
            section = section.with_chart(chart);
        }
        if let Some(ties) = &self.ties {
            section = section.with_text(format!(
                "The order of jobs submitted in the same second is chance. Over {} such orders, the mean wait of {} lies between {} and {}; differences smaller than that mean nothing.",
                ties.orders,
                self.name,
                format::duration(ties.min_mean_wait_s),
                format::duration(ties.max_mean_wait_s)
            ));
        }
        for Shown { name, policy, .. } in &replays {
            section = section.with_definition(format!("{name}: {policy}."));
        }
        let section = section.with_definition(
            "Episode: the days in a row, a quarter of the record and at most a week, whose submissions make the greatest part of a difference of mean waits. Where they make more \
             than half of it, the interval says little, as such days may not come again.",
        );
        let section = section.with_definition(
            "GPUs used: share of the GPU time in service that jobs held, what was lost included. Lost: GPU time held beyond the jobs' true runs, by stops, repeats and failures.",
        );
        Some(section.with_definition(format!(
            "Differences are taken job by job over {} jobs that end under every policy ({} do not); intervals by moving-block bootstrap ({} resamples, blocks of {} jobs).",
            format::count(comparison.jobs),
            format::count(comparison.left_out),
            format::count(comparison.resamples),
            format::count(comparison.block_jobs)
        )))
    }
}
