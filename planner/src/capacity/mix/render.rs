//! The mix of kinds in words and tables.
//!
//! O(pools × kinds). Worked example: 9 nodes of 8 GPUs and 4 of 4 GPUs are told as "9 × 8 GPUs, 4 × 4 GPUs".

use tracecast_analytics::report::{Cell, Section, format};

use super::answer::{MixAnswer, NodesStand, PricedNodes};
use super::rule::MixBy;
use crate::capacity::tests_kept::TestsKept;
use crate::plan::money::money;
use crate::plan::tell;
use crate::plan::trial::RuleOverWindows;

impl PricedNodes {
    /// In words.
    fn sentence(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|of| format!("{} × {}", of.nodes, of.kind)).collect();
        let nodes = if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
        match (self.stand, &self.apart) {
            (NodesStand::OneApart, Some(apart)) => {
                let classes: Vec<&str> = self.classes.iter().map(|class| class.id()).collect();
                format!("{nodes}; {apart} apart, for jobs of {} GPUs", classes.join(", "))
            }
            _ => nodes,
        }
    }

    fn nodes_of(&self, kind: &str) -> u32 {
        self.nodes.iter().find(|of| of.kind == kind).map_or(0, |of| of.nodes)
    }
}

impl MixAnswer {
    fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Recommended action, in a sentence.
    pub(super) fn act(&self) -> String {
        let cost = |by: MixBy| self.money(self.per_month(by));
        if !self.changes() {
            return format!(
                "**By type, change nothing**: no mix of the kinds clearly costs less than today's nodes and keeps the target, or today's are needed ({} a month).",
                cost(MixBy::Static)
            );
        }
        let kinds = self.kinds.iter().filter_map(|kind| {
            let sum = |of: &dyn Fn(&super::answer::MixOfPool) -> u32| {
                self.pools.iter().map(|pool| u64::from(of(pool))).sum::<u64>()
            };
            let now = sum(&|pool| pool.now.nodes_of(&kind.name));
            let then = sum(&|pool| pool.recommended.nodes_of(&kind.name));
            (now > 0 || then > 0)
                .then(|| format!("{} × {} (today {})", format::count(then), kind.name, format::count(now)))
        });
        let kinds: Vec<String> = kinds.collect();
        if let Some(plain) = self.beaten_by() {
            return format!(
                "By type, keep today's proportions: on later windows {} kept the target in {}, a mix in {}. The mix would be {}, {} a month.",
                plain.words,
                self.kept(plain, " tests"),
                self.kept(&self.trial.of.plan, " tests"),
                kinds.join(", "),
                cost(MixBy::Recommended)
            );
        }
        let broken = self.without_a_mix();
        // What leaves pools without enough nodes is not to look cheap beside what does not.
        let beside = if broken.is_empty() {
            format!(" and the upper end in today's proportions {}", cost(MixBy::ProportionsUpper))
        } else {
            String::new()
        };
        let mut said = format!(
            "**By type, have** {}: {} a month, where today's nodes cost {}{beside}.",
            kinds.join(", "),
            cost(MixBy::Recommended),
            cost(MixBy::Static)
        );
        if !broken.is_empty() {
            said.push_str(&format!(
                " **In {} no mix that the file allows keeps the target**: their nodes stay as they are, and it stays broken there.",
                broken.join(", ")
            ));
        }
        said.extend(self.kinds.iter().filter_map(|kind| self.given_up(&kind.name)));
        said
    }

    /// Pools whose nodes are not enough today, and of which no mix is.
    fn without_a_mix(&self) -> Vec<&str> {
        let broken = self.pools.iter().filter(|pool| !pool.enough_now && pool.cheapest.is_none());
        broken.map(|pool| pool.pool.as_str()).collect()
    }

    /// A sentence that some pools give up nodes of a kind while others buy such nodes.
    fn given_up(&self, kind: &str) -> Option<String> {
        let (mut gone, mut bought) = (0u64, 0u64);
        for pool in &self.pools {
            let (now, then) = (pool.now.nodes_of(kind), pool.recommended.nodes_of(kind));
            gone += u64::from(now.saturating_sub(then));
            bought += u64::from(then.saturating_sub(now));
        }
        (gone > 0 && bought > 0).then(|| {
            format!(
                " Of the {} × {kind} that some pools need more, {} come from pools that give them up.",
                format::count(bought),
                format::count(gone.min(bought))
            )
        })
    }

    /// In how many tests a rule kept the target, and for how much.
    fn kept(&self, rule: &RuleOverWindows<MixBy, TestsKept>, tests: &str) -> String {
        let TestsKept { pools_kept, pools, .. } = rule.figures;
        format!("{pools_kept} of {pools}{tests} at {} a month", self.money(rule.amount))
    }

    /// How it did on later windows, in a sentence.
    pub(in crate::capacity) fn tested(&self) -> String {
        let of = &self.trial.of;
        let cheapest = self.trial.rule(MixBy::Cheapest).map_or_else(String::new, |rule| self.kept(rule, ""));
        format!(
            "The mix on {}: what the plan recommended kept the target in **{}**, the cheapest mix before in {cheapest}, the upper end in today's proportions in {}, peak \
             demand in {}; {} would have been enough.",
            format::counted(self.trial.windows.len() as u64, "later window", "later windows"),
            self.kept(&of.plan, ""),
            self.kept(&of.simplest, ""),
            self.kept(&of.naive, ""),
            self.money(of.oracle.amount)
        )
    }

    /// The mix as a section of a report.
    pub(in crate::capacity) fn section(&self) -> Section {
        let mut pools = tell::table(
            "Nodes by kind",
            "Pool | Today | Cheapest that is enough | To have | #Today, a month | #In proportions | #Cheapest | #To have",
        );
        for pool in &self.pools {
            let cost = |of: Option<&PricedNodes>| Cell::opt(of, |of| Cell::float(of.per_month, 0));
            pools.rows.push(vec![
                pool.pool.as_str().into(),
                pool.now.sentence().into(),
                pool.cheapest.as_ref().map_or_else(|| "not told".to_owned(), PricedNodes::sentence).into(),
                pool.recommended.sentence().into(),
                cost(Some(&pool.now)),
                cost(pool.in_proportions.as_ref()),
                cost(pool.cheapest.as_ref()),
                cost(Some(&pool.recommended)),
            ]);
        }
        let cut: Vec<&str> = self.pools.iter().filter(|pool| !pool.complete).map(|pool| pool.pool.as_str()).collect();
        if !cut.is_empty() {
            pools.note = Some(format!(
                "The search was ended before all mixes were ruled out in {}; a cheaper one may be there.",
                cut.join(", ")
            ));
        }
        let mut costs = tell::table(
            "What the nodes cost, and what came of each rule on later days",
            &format!(
                "Nodes | #{} a month | #Now: nodes | #Tested: a month | #Beyond the cheapest | #Kept | #Tests",
                self.currency
            ),
        );
        for rule in &self.trial.rules {
            let now = self.cost.iter().find(|cost| cost.by == rule.id);
            costs.rows.push(vec![
                rule.words.as_str().into(),
                Cell::opt(now, |now| Cell::float(now.per_month, 0)),
                Cell::opt(now, |now| Cell::Int(now.nodes as i64)),
                Cell::float(rule.amount, 0),
                Cell::float(rule.amount - self.trial.of.oracle.amount, 0),
                Cell::Int(rule.figures.pools_kept as i64),
                Cell::Int(rule.figures.pools as i64),
            ]);
        }
        let mut another = tell::table(
            "All nodes of another kind",
            &format!(
                "Kind | #Speed, of what the file says | #Nodes | #{} a month | #Today's kinds there | #Even at, an hour of a node | Pools",
                self.currency
            ),
        );
        for row in &self.another {
            // Where no pool can do with that kind alone, there is nothing to count.
            let some = Some(row).filter(|row| row.pools > 0);
            another.rows.push(vec![
                row.kind.as_str().into(),
                Cell::Percent(row.faster),
                Cell::opt(some.map(|row| row.nodes), |nodes| Cell::Int(nodes as i64)),
                Cell::opt(some.map(|row| row.per_month), |cost| Cell::float(cost, 0)),
                Cell::opt(some.map(|row| row.today_per_month), |cost| Cell::float(cost, 0)),
                Cell::opt(row.even_per_hour, |price| Cell::float(price, 2)),
                format!("{} of {}", row.pools, row.of).into(),
            ]);
        }
        let mut section = Section::new("nodes-mix", "Which kinds of nodes").with_table(pools).with_table(costs);
        if !self.another.is_empty() {
            section = section.with_table(another);
        }
        section
            .with_definition("Pools are reckoned each by itself. In the sums of all pools, nodes that one pool gives up serve another that needs more of the kind, and cost what they cost today.")
            .with_definition("**Cheapest that is enough**: of the mixes that keep the target in exact replays, also with one and two nodes more of the kind that there are most of, the one that costs least. Kinds as fast as today's stand in one queue with them; a kind of another speed has all jobs, or a queue of its own for some sizes.")
            .with_definition("**To have**: where today's nodes are not enough, the cheapest mix that is enough on 97.5 % of days drawn anew; where they are, that mix if it costs 5 % less, unless such a mix broke the target in an earlier window in which today's nodes kept it. Where it broke the target in one in which the upper end in today's proportions kept it, that end takes the place of the mix.")
            .with_definition("**Speed** is the file's assumption: runs of all jobs of a size are divided by it. The rows of 80 and 125 % say what the plan would be if it were wrong by so much; **even at** is the price at which all nodes of that kind cost what the fewest of today's kinds do.")
            .with_definition("A job that one of today's nodes holds needs one node that holds it, and a job that asks for a GPU type runs on that type only.")
    }
}
