//! Use of processors and memory in a replay, summed over rounds.
//!
//! O(jobs) a round. Worked example: one job at half speed on 2 GPUs for an hour and one at full speed on 1 GPU for two: a mean speed of 3 of 4 GPU-hours, 75 %.

use super::bound::HostBounds;
use super::divide::{Division, HostHeld, divided};
use super::{HostFleet, Seated};
use crate::node::HostNeeds;
use crate::room::GangRoom;
use tracecast_plan::Result;

/// How much slower is none: what sums of floats leave over.
const NONE: f64 = 1e-12;

/// Sums over the rounds of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostTally {
    /// GPU-milliseconds held.
    pub held_gpu_ms: f64,
    /// GPU-milliseconds held, times speed.
    pub fast_gpu_ms: f64,
    /// Rounds of jobs, and those in which a job was slower than by its GPUs' share.
    pub rounds: u64,
    /// See `rounds`.
    pub slower: u64,
    /// GPU-milliseconds that were idle though GPUs alone had sufficed for somebody.
    pub idle_gpu_ms: f64,
    /// GPU rounds times speed, and the most that they could have been; only under `synergy`.
    pub got_and_most: Option<(f64, f64)>,
    /// By user, the sum of the dominant shares over rounds, and the rounds in which it had jobs.
    pub users: Vec<(f64, u64)>,
}

/// GPUs, processors and memory taken of a fleet.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Taken {
    pub(in super::super) gpus: f64,
    pub(in super::super) host: HostNeeds,
}

impl Taken {
    /// All of a fleet.
    pub(in super::super) fn all(room: &GangRoom) -> Self {
        let of = |(at, gpus): (usize, &u32)| room.share(at).times(f64::from(*gpus));
        let host = room.gpus.iter().enumerate().map(of).fold(HostNeeds::default(), HostNeeds::plus);
        Self { gpus: room.gpus.iter().copied().map(f64::from).sum(), host }
    }

    pub(in super::super) fn add(&mut self, gpus: f64, host: HostNeeds) {
        self.gpus += gpus;
        self.host = self.host.plus(host);
    }

    /// The greatest share of what there is.
    pub(in super::super) fn dominant(&self, all: &Self) -> f64 {
        let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        share(self.gpus, all.gpus)
            .max(share(self.host.cpus, all.host.cpus))
            .max(share(self.host.memory_gb, all.host.memory_gb))
    }
}

/// A job of the round: its place among those that are there, type, GPUs and user.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct InRound {
    pub(in super::super) on: Option<usize>,
    pub(in super::super) seated: Seated,
    pub(in super::super) user: usize,
}

/// Division of processors and memory, round by round, and its sums.
#[derive(Debug)]
pub(in super::super) struct HostRounds<'a> {
    pub(in super::super) fleet: &'a HostFleet,
    pub(in super::super) tally: HostTally,
    bounds: HostBounds,
}

impl<'a> HostRounds<'a> {
    pub(in super::super) fn new(fleet: &'a HostFleet) -> Self {
        Self { fleet, tally: HostTally::default(), bounds: HostBounds::default() }
    }

    /// Divides processors and memory between the jobs of a round; a job without GPUs has nothing,
    /// at full speed.
    ///
    /// # Errors
    /// If the solver of the bound fails, which no input should bring about.
    pub(in super::super) fn round(
        &mut self,
        jobs: &[InRound],
        room: &GangRoom,
        how: Division,
    ) -> Result<Vec<HostHeld>> {
        let mut result = vec![HostHeld { needs: HostNeeds::default(), speed: 1.0 }; jobs.len()];
        for at in 0..room.gpus.len() {
            let (places, seated): (Vec<usize>, Vec<Seated>) = jobs
                .iter()
                .enumerate()
                .filter(|(_, job)| job.on == Some(at))
                .map(|(place, job)| (place, job.seated))
                .unzip();
            if seated.is_empty() {
                continue;
            }
            let held = divided(self.fleet, room, at, &seated, how);
            let fair = divided(self.fleet, room, at, &seated, Division::Shares);
            self.tally.rounds += seated.len() as u64;
            self.tally.slower +=
                held.iter().zip(&fair).filter(|(held, fair)| held.speed < fair.speed - NONE).count() as u64;
            if how == Division::Tuned {
                let got: f64 = seated.iter().zip(&held).map(|(job, held)| f64::from(job.gpus) * held.speed).sum();
                let most = self.bounds.most(self.fleet, room, at, &seated)?;
                let sums = self.tally.got_and_most.get_or_insert((0.0, 0.0));
                *sums = (sums.0 + got, sums.1 + most);
            }
            for (place, held) in places.into_iter().zip(held) {
                if let Some(slot) = result.get_mut(place) {
                    *slot = held;
                }
            }
        }
        self.count_users(jobs, &result, room);
        Ok(result)
    }

    fn count_users(&mut self, jobs: &[InRound], held: &[HostHeld], room: &GangRoom) {
        let users = jobs.iter().map(|job| job.user + 1).max().unwrap_or(0);
        let mut taken: Vec<Option<Taken>> = vec![None; users];
        for (job, held) in jobs.iter().zip(held) {
            if let Some(taken) = taken.get_mut(job.user) {
                let taken = taken.get_or_insert_default();
                if job.on.is_some() {
                    taken.add(f64::from(job.seated.gpus), held.needs);
                }
            }
        }
        let all = Taken::all(room);
        self.tally.users.resize(self.tally.users.len().max(users), (0.0, 0));
        for (sum, taken) in self.tally.users.iter_mut().zip(taken) {
            if let Some(taken) = taken {
                *sum = (sum.0 + taken.dominant(&all), sum.1 + 1);
            }
        }
    }

    /// Counts GPU time that a job held at a speed.
    pub(in super::super) fn count(&mut self, gpus: u32, ms: i64, speed: f64) {
        let gpu_ms = f64::from(gpus) * ms as f64;
        self.tally.held_gpu_ms += gpu_ms;
        self.tally.fast_gpu_ms += gpu_ms * speed;
    }
}
