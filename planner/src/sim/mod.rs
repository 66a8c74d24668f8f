//! Replay of a workload under any scheduling policy: event-driven, deterministic, in integer milliseconds.
//!
//! This page is the contract. The engine here and the naive reference engine of the tests are both written from it, and
//! must give the same schedule, job by job.
//!
//! # What is replayed
//!
//! A [`Workload`] (jobs as columns of integers) on a [`Cluster`] (pools of nodes, VCs that queue for them) under a
//! [`Policy`] (order, scan, placement, preemption, each chosen freely) gives a [`Schedule`]. Times are milliseconds from
//! the workload's origin. Pools do not influence each other, so each is replayed alone, one after the other.
//!
//! # Jobs
//!
//! A job asks for a [`Shape`]: *n* whole GPUs at once (a gang, all or nothing), or a part of one GPU in thousandths,
//! perhaps of one GPU type, perhaps on a given number of nodes. It is *rejected* at its submission if it could not run in
//! its pool with every node there ever is in service and empty and its VC's largest quota; nothing ever waits for it. A job
//! that still waits when no event is left is *stranded*.
//!
//! # Events
//!
//! The replay begins at time 0, in the state that sizes, quotas and outages of before 0 have left; jobs submitted before wait from 0 on. At one instant, in this order: ends;
//! repairs; failures; changes of size and quota; submissions (in order of job index); expiries of a locality timeout (of a job that
//! waits, under that placement); estimates outlived (under the backfill scans). After all events of the instant comes one *decision* for the pool,
//! if a decision is due: without [`Policy::interval_ms`] after every instant that had an event; with an interval *I* only at
//! multiples of *I*, from the first multiple at or after an event, and at every further multiple while jobs wait and anything runs or
//! is to come. A job of length zero that is started ends at the same instant, after the decision, and another decision follows.
//!
//! * **Size.** A group of nodes has a schedule of sizes. To shrink, nodes leave: those with the fewest busy GPUs first, of
//!   equals the highest index. A busy node that leaves *drains*: it takes nothing new and is gone when its last job ends.
//!   To grow, nodes that drain come back first (lowest index), then those that are away (lowest index).
//! * **Failure.** A node that fails takes its jobs with it: each goes back to the queue, having lost what it had done since
//!   its last checkpoint, and waits in the place its order gives it. Checkpoints are made at every multiple of
//!   [`Policy::checkpoint_ms`] of its useful run (never without one) and when it is preempted.
//! * **Quota.** A VC with a quota has at most that many GPUs at work at the start of any job of it. A quota that shrinks
//!   stops no running job.
//! * **Warm start.** Jobs that ran when the replay begins are put on their nodes at time 0, in order of their start, by the
//!   placement rule, with the run time they had left, and are not counted in the metrics; the segment begins at 0. One that does not
//!   fit waits like any other.
//!
//! # Order
//!
//! Jobs wait in order of (key, submit time, job index), lowest first; [`order`] defines the keys. Keys that are not whole
//! numbers are compared to a relative precision of 2⁻³² ([`Key::of`]), so that two ways to sum give the same order. Which
//! duration the scheduler knows (true, requested or predicted) is [`Policy::estimate`]; it is called the *estimate* below.
//!
//! # Scan
//!
//! A job *fits* if its VC's quota allows it and the placement rule finds nodes for it now. The walk goes through the queue
//! in order.
//!
//! * **strict**: a job that fits starts. The first that does not find nodes ends the walk. One that only its quota keeps
//!   from starting ends it for the jobs of its VC.
//! * **skip**: a job that fits starts, one that does not is passed over.
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
//!   that are looked at.
//!
//! * **slurm**: conservative backfill with the coarseness of Slurm's plugin, and its own choice of nodes; see the module `scan::slurm`.
//!
//! The *expected end* of a running job is its start plus its estimate less what it had done before, plus the cost of
//! preemptions still to be paid, at least 1 ms after the start. A job that outlives it is expected to end 1 min later, then 15 min, 30 min, 1, 2, 5, 10,
//! 20, 50 and 100 h later (each added to the last; 100 h again from then on), as Tsafrir, Etsion and Feitelson (TPDS 2007)
//! correct predictions. Changes of size to come, failures and quotas to come are not known to the scheduler.
//!
//! # Placement
//!
//! See [`place`]. Nodes of a pool are in order of their index.
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
//! multiple of the interval.
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

pub mod answer;
pub mod cluster;
pub mod compare;
mod engine;
pub mod fidelity;
pub mod helios;
pub mod input;
pub mod key;
pub mod metric;
mod nodes;
pub mod order;
pub mod output;
pub mod place;
pub mod policy;
mod scan;
pub mod scenario;
pub mod schedule;
pub mod shard;
pub mod study;
pub mod workload;

pub use cluster::{Cluster, Group, Outage, Pool, Vc};
pub use engine::simulate;
pub use key::Key;
pub use policy::{Compat, Estimate, Order, Placement, Policy, Preemption, Scan, Weights};
pub use scenario::Scenario;
pub use schedule::{Outcome, Piece, Schedule, Segment, Stop};
pub use workload::{Shape, Warm, Workload};
