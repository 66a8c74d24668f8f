//! How fast the jobs of a round could be at most on a type, however its processors and memory are divided.
//!
//! The programme of Synergy's optimum (Mohan et al., OSDI 2022), relaxed: each job mixes the measured points of its table, nodes are one pool, and the jobs of a table together are no slower than by their GPUs' shares.
//!
//! ```text
//! Y_kp  GPUs of the jobs with table k that have point p of it: c_p processors, m_p GB, speed s_p
//! maximise  Σ s_p·Y_kp
//! so that   Σ_p Y_kp = G_k    Σ_p s_p·Y_kp ≥ G_k·s_k(share)    Σ c_p·Y_kp ≤ C    Σ m_p·Y_kp ≤ M    Y ≥ 0
//! ```
//!
//! G_k are the GPUs of these jobs, C and M what the nodes have. Jobs of one table are alike, so they are one row. Speeds between points are mixtures of them, so no division does better. Jobs with needs have these first.
//!
//! O(programme) of as many rows as tables. Worked example: 2 GPUs, 6 processors, a at full speed with 4 and b with 1: 2 GPUs at full speed. With 3 processors 1 + 2/4 = 1.5.

use std::collections::BTreeMap;

use good_lp::{Expression, Solution as _, constraint, variable, variables};

use super::{HostFleet, HostUse, Seated};
use crate::node::HostNeeds;
use crate::room::GangRoom;
use tracecast_plan::Result;
use tracecast_plan::programme::solved_if_possible;

/// Bounds that were found, by what they are of.
#[derive(Debug, Clone, Default)]
pub struct HostBounds {
    known: BTreeMap<(usize, Vec<(usize, u32)>), f64>,
}

impl HostBounds {
    /// The greatest sum of GPUs times speed of the jobs on a type.
    ///
    /// # Errors
    /// If the solver fails, which no input should bring about.
    pub fn most(&mut self, fleet: &HostFleet, room: &GangRoom, at: usize, jobs: &[Seated]) -> Result<f64> {
        let mut left = room.share(at).times(f64::from(room.gpus.get(at).copied().unwrap_or(0)));
        let (mut full, mut by_table) = (0u32, BTreeMap::new());
        let mut exact = false;
        for job in jobs {
            match job.host {
                HostUse::Table(table) => *by_table.entry(table).or_insert(0u32) += job.gpus,
                HostUse::Any => full += job.gpus,
                HostUse::Exactly(needs) => {
                    full += job.gpus;
                    left = left.plus(needs.times(-f64::from(job.gpus)));
                    exact = true;
                }
            }
        }
        let by_table: Vec<(usize, u32)> = by_table.into_iter().collect();
        if by_table.is_empty() {
            return Ok(f64::from(full));
        }
        let key = (at, by_table);
        if let Some(most) = self.known.get(&key).filter(|_| !exact) {
            return Ok(most + f64::from(full));
        }
        let most = mixed(fleet, room.share(at), &key.1, left.max(HostNeeds::default()))?;
        if !exact {
            self.known.insert(key, most);
        }
        Ok(most + f64::from(full))
    }
}

/// The programme.
fn mixed(fleet: &HostFleet, share: HostNeeds, by_table: &[(usize, u32)], has: HostNeeds) -> Result<f64> {
    let attempt = |fair: bool| -> Result<Option<f64>> {
        let mut vars = variables!();
        let (mut objective, mut cpus, mut memory) =
            (Expression::default(), Expression::default(), Expression::default());
        let mut rows = Vec::new();
        for (at, gpus) in by_table {
            let Some(table) = fleet.tables.get(*at) else { continue };
            let (mut all, mut speed) = (Expression::default(), Expression::default());
            for (needs, fast) in table.corners() {
                let on = vars.add(variable().min(0.0));
                all.add_mul(1.0, on);
                speed.add_mul(fast, on);
                objective.add_mul(fast, on);
                cpus.add_mul(needs.cpus / has.cpus.max(1e-9), on);
                memory.add_mul(needs.memory_gb / has.memory_gb.max(1e-9), on);
            }
            let gpus = f64::from(*gpus);
            rows.push(constraint!(all == gpus));
            if fair {
                // A little less, for what sums of floats leave over.
                rows.push(constraint!(speed >= gpus * table.speed(share) * (1.0 - 1e-9)));
            }
        }
        rows.push(constraint!(cpus <= 1.0));
        rows.push(constraint!(memory <= 1.0));
        let result = solved_if_possible(vars.maximise(objective.clone()), rows, "processors and memory")?;
        Ok(result.map(|result| result.eval(objective)))
    };
    // Where jobs with needs have taken more than their share, the others may have less than theirs.
    if let Some(most) = attempt(true)? {
        return Ok(most);
    }
    Ok(attempt(false)?.unwrap_or_else(|| by_table.iter().map(|(_, gpus)| f64::from(*gpus)).sum()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::table::Sensitivity;
    use super::*;

    #[test]
    fn the_worked_example() {
        let table = |cpus: f64| Sensitivity::of("j", &[(cpus, 0.0, 1.0)]).unwrap();
        let most = |cpus: f64| {
            let node = HostNeeds { cpus, memory_gb: 1.0 };
            let fleet = HostFleet::new(2, vec![node], vec![table(4.0), table(1.0)]).unwrap();
            let room = GangRoom { gpus: vec![2], per_node: Some(2), host: Some(fleet.shares()) };
            let jobs = [0, 1].map(|table| Seated { gpus: 1, host: HostUse::Table(table) });
            HostBounds::default().most(&fleet, &room, 0, &jobs).unwrap()
        };
        assert!((most(6.0) - 2.0).abs() < 1e-6 && (most(3.0) - 1.5).abs() < 1e-6, "{} {}", most(6.0), most(3.0));
    }
}
