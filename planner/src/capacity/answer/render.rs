//! The answer of `plan nodes` as a report.
//!
//! O(parts + windows). Worked example: 12 nodes needed, 10 to 14, where there are 9, is told as "12 (10 to 14)" beside 9.

use tracecast_analytics::report::{
    Axis, Cell, Chart, ChartSeries, Column, Mark, Reference, Report, ReportTable, Section, format,
};
use tracecast_analytics::time::to_the_minute;

use super::super::growth::{BreakFactor, FACTORS};
use super::super::heldout::NodesBy;
use super::{
    BindingJobs, CapacityAnswer, CapacityBody, CapacityTrial, NodeInterval, NodesOfType, NotJudged, TheoryCheck,
    UnjudgedPools,
};
use crate::capacity::faults::FaultsAnswer;
use crate::capacity::mix::MixAnswer;
use crate::plan::incentive::SLACK;
use crate::plan::tell;
use crate::replay::growth::drawn_phrase;

/// Pools that a sentence names.
const LISTED: usize = 5;

/// The answer as a report.
pub fn report(answer: &CapacityAnswer) -> Report {
    let (trial, body) = (&answer.trial, &answer.body);
    let subtitle = format!(
        "95 % of the jobs of each VC and of each size to wait at most {}, {}",
        format::duration(body.target.p95_wait_s),
        body.policy
    );
    let mut sections = vec![body.by_type()];
    sections.extend(body.mix.as_ref().map(MixAnswer::section));
    sections.extend([body.tested(trial), body.other_numbers(), body.theory_section()]);
    sections.extend(body.faults.as_ref().map(FaultsAnswer::section));
    let question = "How many nodes keep the waits within the target?";
    tell::report(answer, (question, subtitle), body.sentences(trial), sections)
}

impl CapacityBody {
    fn sentences(&self, trial: &CapacityTrial) -> Vec<String> {
        let of_test = self.cautions_of_the_test(trial);
        let mut said: Vec<String> = Vec::new();
        let all = self.in_all;
        let growth = self.growth.as_ref().map_or_else(String::new, |growth| {
            format!(
                " under growth ({}{})",
                growth_in_words(growth.factor, &growth.teams),
                growth
                    .gpu_time_ratio
                    .as_ref()
                    .map_or_else(String::new, |ratio| format!("; {}", drawn_phrase(growth.draws, ratio)))
            )
        });
        let there_are = format!(
            "there are {}{}{}",
            format::count(all.now - all.not_judged.min(all.now)),
            if self.sizes_unknown { " last known" } else { " today" },
            if all.not_judged == 0 {
                String::new()
            } else {
                format!(" (without {} of pools that are not judged)", format::count(all.not_judged))
            }
        );
        let how = self.how_they_queue();
        said.push(match all.recommended.saturating_sub(all.not_judged) {
            // Fewer than there are stand in the action.
            more if more > all.needed && more > all.now && !self.sizes_unknown => format!(
                "The target takes **{}**{how}{growth}, and {there_are}: {} kept it on the record, the others are a margin for 97.5 % of days drawn anew{}.",
                format::counted(more, "node", "nodes"),
                format::count(all.needed),
                if self.growth.is_some() { ", of all draws together" } else { "" }
            ),
            _ => format!(
                "The target takes **{}**{how}{growth}, and {there_are}.",
                format::counted(all.needed, "node", "nodes")
            ),
        });
        said.extend(self.without_margin());
        said.extend(self.what_binds());
        said.extend(self.pooled());
        said.extend(self.mix.as_ref().map(MixAnswer::tested));
        let rule = |by: NodesBy| {
            let rule = trial.rule(by).map(|rule| &rule.figures);
            rule.map_or_else(String::new, |rule| {
                format!("{} with {}", format::count(rule.pools_kept), format::float(rule.nodes, 1))
            })
        };
        let tested = &trial.of.plan.figures;
        said.push(format!(
            "Tested on {}{}: what the plan recommended{} kept the target in **{} of {}** tests with {} nodes, the upper end of the interval in {}, the fewest that kept it before in {}, mean demand / 80 % in {}; {} would have been enough.{}",
            format::counted(trial.windows.len() as u64, "later window", "later windows"),
            if self.growth.is_some() { " as they were, without more work" } else { "" },
            if self.mix.is_some() { " of today's kinds" } else { "" },
            format::count(tested.pools_kept),
            format::count(tested.pools),
            format::float(tested.nodes, 1),
            rule(NodesBy::Upper),
            rule(NodesBy::Needed),
            rule(NodesBy::Mean80),
            format::float(trial.of.oracle.amount, 1),
            self.unjudged_in_words().map_or_else(String::new, |apart| format!(" {apart}")),
        ));
        // What is a caution is told as one.
        said.extend(self.beside_simple(trial).filter(|simple| !of_test.contains(simple)));
        if !self.until_break.broken_today.is_empty() {
            said.push(format!("**Today's nodes break the target** in {}.", self.until_break.broken_today.join(", ")));
        }
        said.push(self.until_break.sentence());
        said.extend(self.faults.as_ref().map(FaultsAnswer::sentence));
        said
    }

    /// A sentence that names the pools for which just the nodes needed on the record are
    /// recommended, as nobody knows how many more days like it would take.
    fn without_margin(&self) -> Option<String> {
        if self.sizes_unknown || self.of_mix().is_some() {
            return None;
        }
        let bought = self.nodes.iter().filter(|of| of.recommended > of.now);
        let open = bought.filter(|of| of.needed.is_some_and(|needed| needed.high.is_none()));
        let named: Vec<String> = open.map(|of| of.name.clone()).collect();
        (!named.is_empty()).then(|| {
            format!(
                "**There is no margin** in what is recommended for {}: the upper end of the interval is not known there, so it is what the record itself needed.",
                format::names(&named, LISTED)
            )
        })
    }

    /// A sentence on the jobs that ask for the nodes that are to be bought.
    fn what_binds(&self) -> Option<String> {
        let bought = self.nodes.iter().filter(|of| of.recommended > of.now);
        let named: Vec<String> = bought.filter_map(|of| Some(format!("{} by {}", of.name, binds(of)?))).collect();
        (!named.is_empty()).then(|| {
            format!(
                "**What asks for so many nodes**: with one fewer than needed the target is broken in {}.",
                format::names(&named, LISTED)
            )
        })
    }

    /// A sentence that the simple rule did no worse on the later windows, and what it has from now
    /// on.
    pub(super) fn beside_simple(&self, trial: &CapacityTrial) -> Option<String> {
        let (simple, tested) = Self::no_better_than_simple(trial)?;
        let all = self.in_all;
        Some(format!(
            "**The simple rule did no worse on the later windows**: {} kept the target in {} of {} tests with {} nodes, what the plan recommended in {} with {}. From now on that rule has {} in the pools that are judged, with which {} of {} keep the target on the record.",
            trial.of.simplest.words,
            format::count(simple.pools_kept),
            format::count(simple.pools),
            format::float(simple.nodes, 1),
            format::count(tested.pools_kept),
            format::float(tested.nodes, 1),
            format::counted(all.simple, "node", "nodes"),
            format::count(all.simple_kept),
            format::counted(all.pools, "pool", "pools")
        ))
    }

    /// Whether queueing theory agrees with the replays, in a sentence.
    fn theory_in_words(&self) -> Option<String> {
        let differ = self.theory.iter().filter(|check| check.differs);
        let Some(largest) = differ.clone().max_by(|a, b| apart(a).total_cmp(&apart(b))) else {
            return (!self.theory.is_empty()).then(|| "Queueing theory and the replays agree.".to_owned());
        };
        Some(format!(
            "**Queueing theory and the replays disagree** in {} of {} cases, most in {} with {}: {} of the jobs would wait longer than the target by theory, {} do in the replay. The numbers of nodes are \
             the replays'. Bursts, days and nights, and GPUs left over beside gangs are what theory does not know.",
            differ.count(),
            self.theory.len(),
            largest.pool,
            format::counted(u64::from(largest.nodes), "node", "nodes"),
            format::percent(largest.theory_longer_share),
            format::percent(largest.replayed_longer_share)
        ))
    }

    /// A sentence on the jobs that the numbers rest on, and those that they do not.
    fn judged_in_words(&self) -> String {
        let of = self.judged;
        let from = to_the_minute(&self.judged_from);
        let mut why = Vec::new();
        let mut say = |jobs: u64, what: &str| {
            if jobs > 0 {
                why.push(format!("{} {what}", format::count(jobs)));
            }
        };
        say(
            of.while_filling,
            &format!("came before {from}, while the nodes, which are empty when a replay begins, fill up"),
        );
        say(of.impossible, "ask for more than today's nodes have");
        say(of.unfinished, "ran when the record was taken, or when it began, so that their waits are not known");
        let not = if why.is_empty() { String::new() } else { format!(" Of the others {}.", why.join("; ")) };
        format!("**Jobs**: {} of {} are judged.{not}", format::count(of.judged), format::counted(of.all, "job", "jobs"))
    }

    /// How the VCs are taken to queue, where there are several.
    fn how_they_queue(&self) -> &'static str {
        let first = self.nodes.first().map(|of| &of.vcs);
        if self.nodes.iter().all(|of| Some(&of.vcs) == first) {
            ""
        } else if self.nodes.iter().any(|of| of.vcs.len() > 1) {
            " pool by pool"
        } else {
            " with each VC on nodes of its own"
        }
    }

    fn by_type(&self) -> Section {
        let mut table = ReportTable::new(
            "Nodes by type",
            vec![
                Column::text("Pool"),
                Column::number(format!("{} a node", self.resource.many())),
                Column::number("Today"),
                Column::number("Needed"),
                Column::text("Interval"),
                Column::number("To have"),
                Column::number("Jobs"),
                Column::text(if self.growth.is_some() { "Today's nodes under growth" } else { "Target today" }),
                Column::text("Work until it breaks"),
            ],
        );
        for of in &self.nodes {
            table.rows.push(vec![
                of.name.as_str().into(),
                Cell::Int(i64::from(of.gpus_per_node)),
                Cell::Int(i64::from(of.now)),
                Cell::opt(of.needed, |needed| Cell::Int(i64::from(needed.value))),
                of.needed.map_or_else(|| "not told".to_owned(), interval).into(),
                Cell::Int(i64::from(of.recommended)),
                Cell::Int(of.jobs as i64),
                verdict(of, self.growth.as_ref().map(|growth| growth.draws)).into(),
                of.breaks_at.as_ref().map_or_else(|| "not told".to_owned(), factor).into(),
            ]);
        }
        let uneven: Vec<&str> = self.nodes.iter().filter(|of| of.uneven).map(|of| of.name.as_str()).collect();
        let mut notes: Vec<String> =
            self.nodes.iter().filter_map(|of| Some(format!("{}: {}.", of.name, of.note.as_ref()?))).collect();
        let binding: Vec<String> =
            self.nodes.iter().filter_map(|of| Some(format!("{} by {}", of.name, binds(of)?))).collect();
        if !binding.is_empty() {
            notes.push(format!("With one node fewer than needed the target is broken in {}.", binding.join(", ")));
        }
        if !uneven.is_empty() {
            notes.push(format!(
                "Waits do not fall with every node in {}: a smaller number than the needed one kept the target, and one between them did not.",
                uneven.join(", ")
            ));
        }
        if !notes.is_empty() {
            table.note = Some(notes.join(" "));
        }
        let interval = match &self.growth {
            None => {
                "**Interval**: days (weeks, if there are eight) are drawn anew with replacement; the fewest nodes that keep the target in 2.5 % and in 97.5 % of 1,000 draws. With fewer than seven days there is none, and an end that no number reaches is not known."
            }
            Some(_) => {
                "**Interval**: the fewest nodes that keep the target in 2.5 % and in 97.5 % of days drawn anew, of all draws of the grown work together; the needed number is the median over draws. Where work only grows, neither is less than without growth. Under growth **broken** means in some draw."
            }
        };
        let section = Section::new("nodes-needed", "How many nodes");
        let section = match self.in_all.needed_in_one_pool {
            None => section,
            Some(_) => section.with_definition(format!(
                "**One pool**: all nodes for all VCs, without shares. It wrongs a VC if its mean or 95 % wait, in a half of the time or of the part that `plan queues` chooses on, is more than {} and {} longer than on the nodes that it has, with as many nodes in the pool as today or as the pool needs. `plan queues` goes by the same rule.",
                format::percent(SLACK.0),
                format::duration(SLACK.1)
            )),
        };
        section
            .with_table(table)
            .with_definition(self.judged_in_words())
            .with_definition("**Needed**: the fewest nodes with which at most 5 % of the jobs of a pool, and of each of its size classes with at least 20 jobs, wait longer than the target, so that this holds with one and two nodes more as well, and every job runs that runs today.")
            .with_definition(interval)
            .with_definition("**To have**: where there are fewer than needed, the upper end of the interval (the needed number, if that end is not known); where there are more than that, the upper end, unless that number broke the target on an earlier window in which today's nodes kept it; else what there is.")
            .with_definition("**Work until it breaks**: the factor of today's work, over draws of whole weeks of each user, at which today's nodes no longer keep the target.")
    }

    fn tested(&self, trial: &CapacityTrial) -> Section {
        let columns = tell::columns("#Kept | #Tests");
        let mut section = tell::rules("nodes-tested", trial, "the nodes as they are", columns, &|rule| {
            vec![Cell::Int(rule.figures.pools_kept as i64), Cell::Int(rule.figures.pools as i64)]
        });
        let column = Column::text("Pools that kept it, and the 95 % wait of all");
        let windows = tell::windows("nodes-windows", trial, &NodesBy::ALL, column, &|rule| {
            let of = &rule.figures;
            let wait = of.p95_wait_s.map_or_else(|| "none".to_owned(), format::duration);
            format!("{} of {}, {wait}", of.pools_kept, of.pools).into()
        });
        section.blocks.extend(windows.blocks);
        section.definitions.extend(self.unjudged_in_words());
        section
        .with_definition("**What the plan recommends** is the rule of \"to have\", with the nodes that there were when the window began and the windows before it. Where no number kept the target before, it, the fewest and the upper end have the nodes that there were, and count as not kept.")
        .with_definition("A **test** is a pool in a window, with 20 judged jobs before and in it. The target is kept as above: over all jobs and each size class with 20 of them.")
        .with_definition("Numbers rest on what was known when the window began. In the replay they are there from the first job on.")
    }

    /// The tests that are counted apart, in a sentence; `None` if there are none.
    fn unjudged_in_words(&self) -> Option<String> {
        let of = |of: &UnjudgedPools| format!("{} from {} on", of.pools.join(", "), to_the_minute(&of.from));
        let named: Vec<String> = self.unjudged.iter().map(of).collect();
        let count = self.unjudged.iter().map(|of| of.pools.len() as u64).sum();
        (!named.is_empty()).then(|| {
            format!(
                "{} more {} not judged, as no number of nodes keeps the target there: {}.",
                format::count(count),
                if count == 1 { "is" } else { "are" },
                named.join("; ")
            )
        })
    }

    fn other_numbers(&self) -> Section {
        let mut table = tell::table(
            "Other numbers of nodes",
            "Which | #Nodes | #Median wait | #95 % wait | #In use | #Jobs waiting | #Pools that keep it",
        );
        for point in &self.curve {
            table.rows.push(vec![
                point.what.as_str().into(),
                Cell::Int(point.nodes as i64),
                Cell::opt(point.p50_wait_s, Cell::Duration),
                Cell::opt(point.p95_wait_s, Cell::Duration),
                Cell::Percent(point.utilisation),
                Cell::float(point.queue_jobs, 1),
                Cell::float(point.pools_kept, 1),
            ]);
        }
        let points: Vec<(f64, f64)> =
            self.curve.iter().filter_map(|point| Some((point.nodes as f64, point.p95_wait_s?))).collect();
        let chart = Chart::xy(
            "nodes-curve",
            "Nodes and the 95 % wait",
            Axis::linear("Nodes"),
            Axis::duration("95 % quantile of the wait"),
            vec![ChartSeries::new("all jobs", Mark::Line, points)],
        )
        .with_reference(Reference::Horizontal { at: self.target.p95_wait_s, label: "target".to_owned() })
        .with_reference(Reference::Vertical { at: self.in_all.now as f64, label: "today".to_owned() })
        .with_reading("Each further node buys less than the one before; where the line is flat, nodes can go.");
        let work = match &self.growth {
            None => "the jobs of the record",
            Some(_) => "the grown work, mean over draws",
        };
        Section::new("nodes-curve", "What other numbers of nodes do")
            .with_table(table)
            .with_chart(chart)
            .with_definition(format!("Each pool has that share of its nodes, rounded up; the jobs are {work}. **today** is what a freeze does. Numbers that a pool's mean demand exceeds are left out."))
    }

    fn theory_section(&self) -> Section {
        let mut table = tell::table(
            "Queueing theory beside the replay",
            "Pool | #Nodes | #Servers | #Offered load | #Longer than the target: theory | #Replay | #Mean wait: theory | #Replay | Verdict",
        );
        for check in &self.theory {
            table.rows.push(vec![
                check.pool.as_str().into(),
                Cell::Int(i64::from(check.nodes)),
                Cell::Int(i64::from(check.servers)),
                Cell::float(check.load, 2),
                Cell::Percent(check.theory_longer_share),
                Cell::Percent(check.replayed_longer_share),
                Cell::opt(check.theory_mean_wait_s, Cell::Duration),
                Cell::opt(check.replayed_mean_wait_s, Cell::Duration),
                if check.differs { "differs" } else { "agrees" }.into(),
            ]);
        }
        let section = Section::new("nodes-theory", "What queueing theory says");
        let section = match self.theory_in_words() {
            Some(said) => section.with_finding(said),
            None => section,
        };
        section
            .with_table(table)
            .with_definition(format!("**Offered load**: the GPU time that the jobs submitted from {} on ask for, each run whole, over that of the nodes from then to the last submission. `plan queues` tells the same of the whole record.", to_the_minute(&self.judged_from)))
            .with_definition("**Servers**: the GPUs over those of a job, weighted by its run, as whole servers; with few of them theory has fewer GPUs than there are, and no wait from an offered load of less than 1 on. Erlang C gives the share that waits; Allen and Cunneen's factor, the mean of the squared variation of gaps and of runs, lengthens the waits.")
            .with_definition("**Differs**: the two shares are more than 2.5 % of the jobs apart, half of what may wait.")
    }
}

/// An interval; of one end that is not known the other.
fn interval(of: NodeInterval) -> String {
    let end = |end: Option<u32>| end.map_or_else(|| "not known".to_owned(), |nodes| nodes.to_string());
    if of.low.is_none() && of.high.is_none() { end(None) } else { format!("{} to {}", end(of.low), end(of.high)) }
}

/// `over 8 GPUs (95 % wait 2 h 30 min)`: what breaks the target with one node fewer than needed; `None` where that is not known.
fn binds(of: &NodesOfType) -> Option<String> {
    // Where a class does, all jobs together say no more.
    let is_class = |jobs: &&BindingJobs| jobs.class.is_some();
    let classes: Vec<&BindingJobs> = of.binding.iter().filter(is_class).collect();
    let told = if classes.is_empty() { of.binding.iter().collect() } else { classes };
    let said: Vec<String> = told
        .into_iter()
        .map(|jobs| {
            let who = jobs.class.map_or_else(|| "all jobs".to_owned(), |class| format!("jobs of {}", class.name()));
            let wait = jobs.p95_wait_s.map_or_else(|| "without end".to_owned(), format::duration);
            format!("{who} (95 % wait {wait})")
        })
        .collect();
    (!said.is_empty()).then(|| said.join(" and "))
}

fn apart(check: &TheoryCheck) -> f64 {
    (check.theory_longer_share - check.replayed_longer_share).abs()
}

fn verdict(of: &NodesOfType, draws: Option<u64>) -> String {
    match of.not_judged {
        Some(NotJudged::NoNumber) => return "no number keeps it".to_owned(),
        Some(NotJudged::TooFewJobs) => return "not judged".to_owned(),
        None => (),
    }
    if of.kept_now {
        return "kept".to_owned();
    }
    if let Some((kept, draws)) = of.kept_draws.zip(draws) {
        return format!("broken in {} of {draws} draws", draws.saturating_sub(kept));
    }
    let classes: Vec<&str> = of.broken_classes.iter().map(|class| class.name()).collect();
    if classes.is_empty() { "broken".to_owned() } else { format!("broken for {}", classes.join(", ")) }
}

fn factor(of: &BreakFactor) -> String {
    let end = if of.beyond { "more than " } else { "" };
    if of.beyond && of.low >= of.high {
        return format!("more than {} ×", format::float(of.high, 1));
    }
    let at = |factor: f64| {
        let least = if factor <= FACTORS.0 { "at most " } else { "" };
        format!("{least}{}", format::float(factor, 2))
    };
    if of.high <= FACTORS.0 {
        return format!("{} ×", at(of.high));
    }
    if of.value <= FACTORS.0 {
        return format!("{} × (up to {end}{})", at(of.value), at(of.high));
    }
    format!("{} × ({} to {end}{})", at(of.value), at(of.low), at(of.high))
}

/// `1.2 times the work and the team robotics`.
fn growth_in_words(factor: f64, teams: &[String]) -> String {
    let mut parts = Vec::new();
    if factor != 1.0 || teams.is_empty() {
        parts.push(format!("{} times the work", format::float(factor, 2)));
    }
    if !teams.is_empty() {
        parts.push(format!("joined by {}", teams.join(", ")));
    }
    parts.join(", ")
}
