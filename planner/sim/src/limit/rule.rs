//! The limits of one job, tested in order.
//!
//! Worked number: see [`super`].

use super::kind::{Kind, Refusal};
use super::ledger::{Beside, Use, Used};
use super::{Asking, Limits, Partition, Qos};

const MINUTE_MS: i64 = 60_000;
/// GPU-seconds in a thousandth of a GPU-minute.
const GPU_MINUTE_S: f64 = 0.06;
/// By how much of a limit two ways to sum usage may differ: 2⁻³².
const SLACK: f64 = 1.0 / 4_294_967_296.0;

/// Limits of the jobs of one VC and QOS, and whose each limit is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rules {
    wall_ms: Option<(u32, i64)>,
    partition_ms: Option<(u32, i64)>,
    job_milli: Option<(u32, u64)>,
    group_jobs: Option<(u32, u32)>,
    user_jobs: Option<(u32, u32)>,
    group_milli: Option<(u32, u64)>,
    user_milli: Option<(u32, u64)>,
    group_time_milli: Option<(u32, u64)>,
    used_milli: Option<(u32, u64)>,
    used_wall_ms: Option<(u32, i64)>,
    account_milli: Option<(u32, u64)>,
    account_jobs: Option<(u32, u32)>,
    pub(super) deny: bool,
    pub(super) deny_partition: bool,
    /// QOSs for whose limits such a job counts.
    pub(super) counts: Vec<u16>,
}

/// Returns the owner of a limit, if a job is over it.
fn over<T: Copy>(limit: Option<(u32, T)>, is_over: impl Fn(u32, T) -> bool) -> Option<u32> {
    limit.filter(|(at, most)| is_over(*at, *most)).map(|(at, _)| at)
}

/// A limit of someone, if it holds.
fn of<T>(at: u32, limit: Option<T>, holds: bool) -> Option<(u32, T)> {
    limit.filter(|_| holds).map(|most| (at, most))
}

impl Rules {
    pub(super) fn new(qos: &[Qos], vc: u16, partition: &Partition, own: Option<u16>) -> Self {
        let over = own.and_then(|at| qos.get(usize::from(at))).is_some_and(|own| own.over_partition);
        let mut counts: Vec<u16> =
            if over { [own, partition.qos] } else { [partition.qos, own] }.into_iter().flatten().collect();
        counts.dedup();
        let those = || counts.iter().filter_map(|at| Some((*at, qos.get(usize::from(*at))?)));
        fn first<'q, T>(
            mut those: impl Iterator<Item = (u16, &'q Qos)>,
            limit: impl Fn(&Qos) -> Option<T>,
        ) -> Option<(u32, T)> {
            those.find_map(|(at, qos)| Some((u32::from(at), limit(qos)?)))
        }
        let unbound = those().any(|(_, qos)| qos.over_partition_time);
        Self {
            wall_ms: first(those(), |qos| qos.wall_ms),
            partition_ms: partition.wall_ms.filter(|_| !unbound).map(|most| (u32::from(vc), most)),
            job_milli: first(those(), |qos| qos.job_milli),
            group_jobs: first(those(), |qos| qos.group_jobs),
            user_jobs: first(those(), |qos| qos.user_jobs),
            group_milli: first(those(), |qos| qos.group_milli),
            user_milli: first(those(), |qos| qos.user_milli),
            group_time_milli: first(those(), |qos| qos.group_time_milli),
            used_milli: first(those(), |qos| qos.used_milli),
            used_wall_ms: first(those(), |qos| qos.used_wall_ms),
            account_milli: first(those(), |qos| qos.account_milli),
            account_jobs: first(those(), |qos| qos.account_jobs),
            deny: those().any(|(_, qos)| qos.deny),
            deny_partition: partition.deny,
            counts,
        }
    }

    /// The limits that a job would be over beside what is at work, in the order in which they are tested.
    pub(super) fn refusals<'l>(
        &'l self,
        limits: &'l Limits,
        asking: Asking,
        beside: Beside<'l>,
    ) -> impl Iterator<Item = Refusal> + 'l {
        let accounts = &limits.accounts;
        let of_account = accounts.inherited(asking.association);
        let jobs = |using: Use, most: u32| using.jobs >= most;
        let gpus = move |using: Use, most: u64| using.milli + asking.amount > most;
        // Thousandths of a GPU × milliseconds.
        let asked_time = asking.limit_ms.map(|limit| i128::from(asking.amount) * i128::from(limit));
        let time = move |left: i128, most: u64| {
            asked_time.is_some_and(|request| left + request > i128::from(most) * i128::from(MINUTE_MS))
        };
        let safe = limits.accounting.safe;
        let spent = move |used: Used, left: i128, most: u64| {
            let most_s = most as f64 * GPU_MINUTE_S;
            // What the running jobs and this one may take on top, GPU-seconds.
            let takes = asked_time.filter(|_| safe).map_or(0.0, |request| (left + request) as f64 / 1e6);
            used.gpu_s >= most_s * (1.0 - SLACK) || (takes > 0.0 && used.gpu_s + takes > most_s * (1.0 + SLACK))
        };
        let ran = |used: Used, most: i64| used.job_s >= most as f64 / 1000.0 * (1.0 - SLACK);
        let (user, account) = (asking.user, asking.account);
        let whose = |limit: Option<(u32, i64)>| over(limit, |_, most| asking.limit_ms.is_some_and(|own| own > most));
        let whole = |limit: Option<(u32, u64)>| over(limit, |_, most| asking.amount > most);
        let of_jobs = [
            (Kind::Wall, whose(self.wall_ms)),
            (Kind::PartitionTime, whose(self.partition_ms)),
            (Kind::AccountWall, whose(of_account.wall_ms.filter(|_| self.wall_ms.is_none()))),
            (Kind::JobGpus, whole(self.job_milli)),
            (Kind::AccountJobGpus, whole(of_account.job_milli.filter(|_| self.job_milli.is_none()))),
            (Kind::GroupJobs, over(self.group_jobs, |at, most| jobs(beside.group(at), most))),
            (Kind::UsedWall, over(self.used_wall_ms, |at, most| ran(beside.group_used(at), most))),
            (Kind::PerAccountJobs, over(self.account_jobs, |at, most| jobs(beside.of_account(at, account), most))),
            (Kind::UserJobs, over(self.user_jobs, |at, most| jobs(beside.user(at, user), most))),
        ];
        let of_jobs_above = accounts.path(asking.association).flat_map(move |(at, own)| {
            let group = of(at, own.group_jobs, self.group_jobs.is_none());
            let wall = of(at, own.used_wall_ms, self.used_wall_ms.is_none());
            // Counted of the association itself, whoever sets the limit.
            let first = Some(at) == asking.association && self.user_jobs.is_none();
            let single = of_account.jobs.filter(|_| first);
            [
                (Kind::AccountGroupJobs, over(group, |at, most| jobs(beside.account(at), most))),
                (Kind::AccountUsedWall, over(wall, |at, most| ran(beside.account_used(at), most))),
                (Kind::AccountJobs, over(single, |_, most| jobs(beside.account(at), most))),
            ]
        });
        let of_gpus = [
            (
                Kind::UsedGpus,
                over(self.used_milli, |at, most| spent(beside.group_used(at), beside.group_time(at), most)),
            ),
            (Kind::GroupGpus, over(self.group_milli, |at, most| gpus(beside.group(at), most))),
            (Kind::PerAccountGpus, over(self.account_milli, |at, most| gpus(beside.of_account(at, account), most))),
            (Kind::UserGpus, over(self.user_milli, |at, most| gpus(beside.user(at, user), most))),
            (Kind::GroupTime, over(self.group_time_milli, |at, most| time(beside.group_time(at), most))),
        ];
        let of_gpus_above = accounts.path(asking.association).flat_map(move |(at, own)| {
            let used = of(at, own.used_milli, self.used_milli.is_none());
            let group = of(at, own.group_milli, self.group_milli.is_none());
            let takes = of(at, own.group_time_milli, self.group_time_milli.is_none());
            [
                (
                    Kind::AccountUsedGpus,
                    over(used, |at, most| spent(beside.account_used(at), beside.account_time(at), most)),
                ),
                (Kind::AccountGroupGpus, over(group, |at, most| gpus(beside.account(at), most))),
                (Kind::AccountGroupTime, over(takes, |at, most| time(beside.account_time(at), most))),
            ]
        });
        let tests = of_jobs.into_iter().chain(of_jobs_above).chain(of_gpus).chain(of_gpus_above);
        tests.filter_map(|(kind, owner)| Some(Refusal { owner: owner?, kind }))
    }
}
