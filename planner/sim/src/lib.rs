//! Replay of a workload under any scheduling policy: event-driven, deterministic, in integer milliseconds.
//!
//! This page is the contract. The engine here and the naive reference engine of the tests are both written from it, and
//! must give the same schedule, job by job.
//!
//! # What is replayed
//!
//! A [`Workload`] (jobs as columns of integers) on a [`Cluster`] (pools of nodes, VCs that queue for them) under a
//! [`Policy`] (order, scan, placement, preemption, each chosen freely) gives a [`Schedule`]. Times are milliseconds from
//! the workload's origin. Pools do not influence each other, so each is replayed alone, one after the other; but for *limits*, which they share.
//!
//! # Jobs
//!
//! A job asks for a [`Shape`]: *n* whole GPUs at once (a gang, all or nothing), or a part of one GPU in thousandths,
//! perhaps of one GPU type, perhaps on a given number of nodes. It is *rejected* at its submission if it could not run in
//! its pool with every node there ever is in service and empty and its VC's largest quota; nothing ever waits for it. A job
//! that still waits when no event is left is *stranded*.
//!
//! # Processors and memory
//!
//! A node may have so many cores and so much memory ([`Group::host`]; what is unknown is without bound), and a shape may ask for both ([`Shape::host`]): of whole GPUs for each of them, of a part of a GPU for the part. A piece takes,
//! on its node, its GPUs times what the shape asks for each, for as long as it holds them; a part what its shape asks. So a job's processors and memory are spread over its nodes as its GPUs are.
//!
//! The *room* of a node for a shape of whole GPUs is the least of: its GPUs that no job touches; ⌊cores left / cores for each⌋; ⌊memory left / memory for each⌋. What a shape asks nothing of, or a node has without bound, does not
//! count. A node takes a piece of *p* GPUs only if its room is at least *p*, and a part only if cores, memory and a GPU that has enough left are all there. Wherever this page, or those of the modules it names, asks whether a node has enough free GPUs for a piece (or fills a node up),
//! its room decides; which of the nodes that can take a piece is chosen still goes by free GPUs. What gives back, reserves, stops, drains, fails or sleeps does so with processors and memory as with GPUs;
//! of several states, what is free throughout is the least left in any.
//!
//! A job that no empty nodes hold, with its processors and memory, is rejected at its submission. Quotas, guarantees, limits and shares count GPUs alone, and so do keys of orders.
//!
//! Amounts are whole thousandths of a core and whole MiB *for each GPU*. Whoever makes a workload rounds them down, so that a job never takes more than it asked for, and what ran together on a node still does. Worked example: a node of 8 GPUs with 64 cores runs a job of 2 GPUs with 24 cores each. A job of 3 GPUs with 5 cores each
//! has room for min(6, ⌊16 / 5⌋) = 3 GPUs, and starts; then 1 core is left, and of the 3 GPUs that are still free a job with a core for each can have one.
//!
//! # Events
//!
//! The replay begins at time 0, in the state that sizes, quotas and outages of before 0 have left; jobs submitted before wait from 0 on. At one instant, in this order: ends;
//! repairs; failures; changes of size and quota; submissions (in order of job index); expiries of a locality timeout (of a job that
//! waits, under that placement); estimates outlived (under the backfill scans). After all events of the instant comes one *decision* for the pool,
//! if a decision is due: without [`Policy::interval_ms`] after every instant that had an event; with an interval *I* only at
//! multiples of *I*, from the first multiple at or after an event, and at every further multiple while jobs wait and anything runs or
//! is to come (or, under limits of usage, while a job waits for usage to decay: see [`limit`]), and, under limits, at the next multiple after a decision in which a job was stopped, whatever runs or is to come. (What was to happen to a job that has stopped since is not to come: its end, that it outlives its estimate, or that its grace is over.) A job of length zero that is started ends at the same instant, after the decision, and another decision follows.
//!
//! * **Size.** A group of nodes has a schedule of sizes. To shrink, nodes leave: those with the fewest busy GPUs first, of
//!   equals the highest index. A busy node that leaves *drains*: it takes nothing new and is gone when its last job ends.
//!   To grow, nodes that drain come back first (lowest index), then those that are away (lowest index).
//! * **Failure.** A node that fails takes its jobs with it: each goes back to the queue, having lost what it had done since
//!   its last checkpoint, and waits in the place its order gives it. Checkpoints are made at every multiple of
//!   [`Policy::checkpoint_ms`] of its useful run (never without one) and when it is preempted. A job of [`Workload::once`] is over instead.
//! * **Quota.** A VC with a quota has at most that many GPUs at work at the start of any job of it. A quota that shrinks
//!   stops no running job.
//! * **Guarantee.** A VC may have a guarantee in its pool: GPUs that it is served first for (see *Order*), and for which, with preemption, jobs
//!   that borrow are stopped (see *Preemption*). A VC without one has a guarantee of 0. A guarantee that changes is no event.
//! * **Cells.** A VC may be guaranteed *cells* of its pool instead: aligned blocks of GPUs on a node, so many of each size. How its jobs find them, who is stopped for them, and the two walks of such a pool stand in [`cell`]. What
//!   is said below of guarantees is of those in GPUs.
//! * **Warm start.** Jobs that ran when the replay begins are put on their nodes at time 0, in order of their start, by the
//!   placement rule, with the run time they had left, and are not counted in the metrics; the segment begins at 0. One that does not
//!   fit waits like any other.
//!
//! # Limits
//!
//! A cluster may have limits by QOS, account and partition ([`limit`]), under every scan but `kueue`, `kai` and `volcano`; they do not go together with guarantees. A job that is over a limit at its turn in a walk is passed
//! over, whatever the scan: it holds up nobody, is no head, gets no reservation, and does not count for [`Policy::depth`]. What started before it in the walk counts. Reservations and shadow times know
//! nothing of limits. One that is over a limit with nothing else at work is *held*, or rejected at its submission. A held job waits for ever, but is not in the queue: nothing happens
//! for it. (So it counts where an order asks who waits.) A job that runs at time 0 is put on its nodes only if it is over no limit, like any other; pool after pool.
//!
//! A QOS may have its jobs stop those of others; the rules, and the two events that come with them, stand in [`limit`] as well.
//!
//! Pools are then replayed together. The events of an instant happen in all pools; an event in any of them makes a decision due for all; and a decision is one walk through the waiting jobs of all pools, in
//! order of (key, submit time, job index). In it each pool is as if it were alone: a strict walk that ends ends for its pool, every pool has its own head. Jobs wait and anything is to come if that is so in any pool.
//!
//! Worked example: two pools, and a QOS that may run one job. It ends at 50 s in pool A. Its job in pool B, submitted at 10 s, starts then, before one in A that was submitted at 20 s.
//!
//! # Order
//!
//! Jobs wait in order of (key, submit time, job index), lowest first; [`order`] defines the keys. Keys that are not whole
//! numbers are compared to a relative precision of 2⁻³² ([`Key::new`]), so that two ways to sum
//! give the same order. Which
//! duration the scheduler knows (true, requested or predicted) is [`Policy::estimate`]; it is called the *estimate* below.
//!
//! Where VCs have guarantees, the queue is in two bands at every decision, each in this order: first the jobs *within* their VC's guarantee,
//! then the others. A job is within it if the GPUs at work of its VC, with those of the VC's waiting jobs up to it and its own, are at most
//! the guarantee. Worked example: VC a is guaranteed 8 GPUs of a pool, uses 4, and has jobs of 2, 4 and 2 GPUs in the queue, in this order, behind
//! those of b, which is guaranteed nothing. The first is within (6 of 8) and passes all of b's; the second (10) and the third (12) are not.
//!
//! # Scan
//!
//! A job *fits* if its VC's quota allows it and the placement rule finds nodes for it now. The walk goes through the queue
//! in order.
//!
//! * **strict**: a job that fits starts. The first that does not find nodes ends the walk. One that only its quota keeps
//!   from starting ends it for the jobs of its VC.
//! * **skip**: a job that fits starts, one that does not is passed over. Where VCs have guarantees there are no bands, and two walks: the first is
//!   through the jobs with which their VC's GPUs at work, as they are at the job's turn, are at most its guarantee, the second through the others.
//! * **EASY**: as strict until the first job that does not fit, the *head*, whatever the reason. Its *shadow time* is the first
//!   of the expected ends of running jobs (including those started in this walk) after which it fits, all jobs that are
//!   expected to end by then having ended: the state of nodes and quotas then is the *shadow state*. Of the rest of the
//!   queue, in order, a job that fits now starts if it is expected to end by the shadow time, or if with its GPUs (those
//!   which the placement rule gives it now) taken out of the shadow state, and its GPUs added to its VC's use there, the
//!   head still fits there; they then stay taken. If no expected end lets the head fit, every job that fits starts.
//! * **conservative**: every job in turn gets a reservation: the earliest moment, now or an expected end or the start or end of a
//!   reservation made in this walk, from which its GPUs are free for as long as its estimate (at least 1 ms); a GPU counts as free
//!   for the part that is free throughout. The placement rule chooses among what is free throughout. A reservation that
//!   begins now is a start. Nothing is remembered from one decision to the next. [`Policy::depth`] bounds the number of jobs
//!   that are looked at, and [`Policy::window_ms`] the time from now to a reservation; one that would begin later is not made. (The scan slurm has both, too, as Slurm counts them.)
//!
//! * **slurm**: conservative backfill with the coarseness of Slurm's plugin, and its own choice of nodes, by switches if nodes hang on any; see the module `scan::slurm`.
//! * **kueue**: admission in cycles within quotas in cohorts ([`cohort`]), and its own rules of who is stopped; see the module `scan::kueue`. Quotas, guarantees and preemption as below do not apply.
//! * **kai**: cycles by the fair shares of queues in a tree ([`kai`]), perhaps by what they used in the past, and its own rules of who is stopped; see the module `scan::kai`. The same does not apply.
//! * **volcano**: sessions by what queues deserve ([`volcano`]), and its own rules of who is stopped; see the module `scan::volcano`. The same does not apply.
//!
//! The *expected end* of a running job is its start plus its estimate less what it had done before, plus the cost of
//! preemptions still to be paid, at least 1 ms after the start. A job that outlives it is expected to end 1 min later, then 15 min, 30 min, 1, 2, 5, 10,
//! 20, 50 and 100 h later (each added to the last; 100 h again from then on), as Tsafrir, Etsion and Feitelson (TPDS 2007)
//! correct predictions. Changes of size to come, failures and quotas to come are not known to the scheduler.
//!
//! # Placement
//!
//! See [`place`]. Nodes of a pool are in order of their index. Nodes may lie in blocks, racks or the like ([`topology`]), and jobs may ask for one of these.
//!
//! # Preemption
//!
//! Without it a job that runs, runs on. With it (scans strict and skip only), for a waiting job that does not fit: of the jobs that run in the
//! pool and have done something useful since they started, those with a strictly greater key than its own are taken out, the last in order
//! first, until it fits. (Who has only paid for a preemption so far is left alone: jobs that took turns any sooner would never get anywhere.)
//! Then, of those taken out, from the last taken to the first, each that can be put back on its own GPUs so that the waiting job still fits is
//! put back. The others are preempted and it starts. If it does not fit without all of them, none is preempted and the scan does what it does
//! with a job that does not fit. A preempted job keeps what it has done, must run longer by a cost that depends on its size, joins the queue and
//! is not looked at again in this decision; another decision is due one second later (unless an event brings one sooner), or at the next
//! multiple of the interval. With [`Preemption::Requeue`] it has no cost, and loses what it had done since its last checkpoint, as under a
//! node that fails; that goes with guarantees alone, or jobs could stop each other for ever.
//!
//! In a pool where VCs have guarantees, keys do not say who is stopped. A job that runs *borrows* if the GPUs of the jobs of its VC that run, up to
//! it and with its own, in order of (start, job index), are more than its VC's guarantee. Only a waiting job within its VC's guarantee (of the
//! first band, or under skip of the first walk) stops others: those that borrow at the beginning of the decision, the last in that order first. All else is as above. As who stops others runs within its guarantee, it
//! is stopped itself only where a guarantee shrinks, so that this comes to an end; who borrows may be stopped again and again.
//!
//! # Power
//!
//! [`simulate`] takes all nodes as always powered, and nothing of this section applies. [`simulate_powered`] is given
//! [`power::Rules`] and for each pool perhaps a [`power::Controller`]. Every node is then in one [`power::State`]:
//! *out* while it has failed or is away; otherwise *powered*, *shutting down*, *asleep* or *booting*. All are powered
//! from before time 0; one that is no longer out is powered from then on, whatever it was before. Only powered nodes
//! are eligible for jobs: to the scheduler the others are as if they had failed, for reservations as well; only the
//! GPUs in service which some orders divide by count them. A *member* is a node that belongs to its group at its
//! present size and has not failed; *on* is a member that is powered or boots; *idle* is a powered member no job
//! touches, since its last job left it or it was powered, from 0 at the earliest.
//!
//! **Orders.** A node that is put to sleep shuts down for `shutdown_ms` and is then asleep. One that is woken boots for
//! `boot_ms`; then it is powered, or, if the boot fails, boots again at once; boot *k* (from 0, counted for each node)
//! fails if the upper 53 bits of [`place::draw`]`(seed, k, node)`, as a number of [0, 1), are below
//! `failed_boot_ratio`. A boot or shutdown that ends is an event between changes of quota and submissions. Only a boot
//! that succeeds makes a decision due.
//!
//! **Slots** begin at 0 and at every multiple of `slot_ms`, while time is before `until_ms`, or a job is to be
//! submitted or runs, or a change of size, quota or failure is to come, or a job waits and the last event (of those
//! above; not of power) or start is less than `patience_ms` ago; whether there is a next slot is seen when the power
//! step at the beginning of the one before is done. Of a slot are known: the largest number of nodes with a job that
//! held for any time within it, the last that did, the mean; the largest amount asked for by waiting jobs that held for
//! any time, over the GPUs of the pool's largest node; and the members at its end, before that instant's events.
//!
//! **The power step** comes at the end of an instant, after its decision, if there was an event or a decision, or if at
//! this instant: a slot begins; a boot or shutdown ends; a node has been idle for `idle_ms` and powered for
//! `min_on_ms`, the later of the two; a node has been asleep for `min_off_ms`; a minute begins after one in which a
//! rate cut something short; a day of 24 h begins after one in which the wake limit kept a node on. In this order:
//!
//! 1. *Asked.* If a slot begins and any slot is known, the controller is asked, with the slots that have ended and how
//!    many are on. Its answer, rounded up, at least 0, at most the members (and as many as those if it is not a
//!    number), is the *target* until the next. It is carried out in this step, and, if the rate cuts it short, at the
//!    beginning of the next minute.
//! 2. *Demand*, with `wake_on_demand`. In a view of the pool in which booting members are powered, the jobs that wait
//!    are taken in order, in two bands where VCs have guarantees (as many as a conservative scan looks at). One that its quota keeps from starting is passed
//!    over, with the strict scan all of its VC's from there on. One that fits takes its GPUs in the view, and counts
//!    for its quota there. For one that does not fit, members that are asleep, for `min_off_ms` at least, are added one
//!    by one, lowest index first, until it does; then of those added, from the first, each without which it still fits
//!    is taken out again; the rest are to be woken, and the job takes its GPUs. If it does not fit with all of them,
//!    none is added, and the strict scan's walk ends. After the walk what is to be woken is woken, in that order, as
//!    far as the rate allows. Nodes on which a job took GPUs in the view are *kept*.
//! 3. *Target*, if it is to be carried out. If fewer are on, members that are asleep, for `min_off_ms` at least, are
//!    woken, lowest index first, until the target is reached or the rate cuts it short. Then, if more are on, nodes
//!    that may sleep are put to sleep, highest index first, until the target is reached or the rate cuts it short.
//! 4. *Timeout*, with `idle_ms`. Nodes that may sleep and have been idle for so long are put to sleep, highest index
//!    first, as long as more are on than the target in force (0 without one).
//!
//! A node *may sleep* if it is idle, not kept, powered for `min_on_ms`, was woken less often than `wakes_per_node_day`
//! on this day (a limit keeps nodes on: it never keeps one from being woken), and afterwards at least `canaries` are on
//! and `keep_idle` idle ones are left. A *rate* is the most wakes, or sleeps, ordered within a minute of the clock of
//! the replay, in a pool; it cuts an order short that is one more. (That the wake limit kept a node on is said of nodes
//! that step 4 would put to sleep if the limit, the target, the canaries, idle nodes to keep and the rate were none.)
//!
//! Worked example: one node, timeout 100 s, shutdown 10 s, boot 20 s, wake on demand. A job ends at 50 s; the next is
//! submitted at 300 s. The node shuts down at 150 s, is asleep at 160 s, boots at 300 s, and the job starts at 320 s.
//!
//! # Compatibility
//!
//! [`Compat::Helios`] gives the start times of the simulator that was published with the Helios traces; see [`helios`].
//!
//! # Cost
//!
//! *n* jobs in *p* pools with *c* distinct shapes: O(n log n) for orders that do not change while a job waits, with a
//! factor *c* for skip and EASY; O(decisions × queue log queue) for those that do. Scenarios run in parallel, one scenario
//! never does.
//!
//! Worked example: one node of 8 GPUs, FIFO. Job A asks 6 GPUs at 0 s for 100 s, job B 4 at 10 s for 50 s, job C 1 at 20 s
//! for 5 s. Strict: B does not fit beside A, and C stands behind B: both start at 100 s. Skip: C starts at 20 s. EASY: B's
//! shadow time is 100 s and C would be done at 25 s, so C starts at 20 s as well; had C run 200 s it would still start, as
//! at 100 s B needs 4 GPUs of the 7 that C would leave.

pub mod cell;
pub mod cluster;
pub mod cohort;
pub mod divided;
mod engine;
pub mod error;
pub mod forest;
mod fullness;
pub mod helios;
pub mod host;
pub mod kai;
pub mod key;
pub mod limit;
mod nodes;
pub mod order;
pub mod place;
pub mod policy;
mod pooled;
pub mod power;
mod ratio;
mod scan;
pub mod schedule;
pub mod spent;
pub mod topology;
pub mod volcano;
pub mod weights;
mod words;
pub mod workload;

pub use cluster::{Cluster, Group, Outage, Pool, Vc};
pub use engine::{simulate, simulate_powered};
pub use error::{Error, Result};
pub use host::{HostNeed, HostRoom};
pub use key::Key;
pub use limit::Limits;
pub use policy::{Compat, Estimate, Order, Placement, Policy, Preemption, Scan};
pub use schedule::{Outcome, Piece, Schedule, Segment, Stop};
pub use topology::{Nearness, Topology, TopologyRequest};
pub use weights::Weights;
pub use workload::{Shape, Warm, Workload};
