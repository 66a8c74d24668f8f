//! The programme behind the fair policies: as much of what each job needs as all can have at once.
//!
//! ```text
//! X_jt  share of its time that job j spends on GPU type t       T_jt  its steps a second there, of all n_j GPUs of the gang
//! maximise  z
//! so that   Σ_t T_jt·X_jt ≥ z·need_j    Σ_t X_jt ≤ 1    Σ_j n_j·X_jt ≤ N_t    X ≥ 0
//! ```
//!
//! What `need_j` is makes the policy ([`super::policy`]). Of all allocations with the greatest z one is taken that makes most of what is left: a second programme keeps z and
//! maximises Σ n_j·T_jt / max_t T_jt · X_jt, the GPU time weighed by speed.
//!
//! **Proof of optimality**: for any prices y of a job's speed, a of its time and b of a GPU, all at least 0, with Σ y_j·need_j = 1 and a_j + n_j·b_t ≥ y_j·T_jt, no allocation
//! has a z above Σ a_j + Σ N_t·b_t. [`dual`] finds the prices that make this bound least, and they meet z.
//!
//! **POP** (Narayanan et al., SOSP 2021): above [`PART`] jobs, jobs are dealt to parts, the greatest GPU time for its need on its fastest type first, each to the part with least so far; each part has an equal share of every GPU type, and each is a programme of its own. O(J³) at worst for a part.
//!
//! Worked example: one V100 and one K80; jobs a, b and c make 4, 2 and 1 steps a second on the V100 and 1 each on the K80. A third of the fleet each is 5/3, 1 and 2/3 steps a second; with those as needs z
//! is 1.2: a has the V100 for half of its time, b both for 0.5 and 0.2, c the K80 for 0.8, and each has a fifth more than its equal share.

use good_lp::{Expression, Solution as _, Variable, constraint, variable, variables};

use tracecast_plan::Result;
use tracecast_plan::programme::solved;

/// Most jobs of one programme.
pub const PART: usize = 128;
/// A speed more than this many times the need of a job is as good as one this large.
const FAST: f64 = 1e5;
/// How far below its optimum z may be in the second programme, a share.
const SLACK: f64 = 1e-7;

/// Claim of a job in the programme.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// GPUs of the gang.
    pub gpus: f64,
    /// Steps a second on each GPU type, 0 where it does not run.
    pub speeds: Vec<f64>,
    /// Steps a second that it needs, above 0.
    pub need: f64,
}

impl Claim {
    /// The most steps a second that it makes on one type.
    pub fn fastest(&self) -> f64 {
        self.speeds.iter().copied().fold(0.0, f64::max)
    }

    /// Steps a second under an allocation.
    pub fn speed(&self, shares: &[f64]) -> f64 {
        self.speeds.iter().zip(shares).map(|(speed, share)| speed * share).sum()
    }
}

/// An allocation and its z.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Levelled {
    /// By claim, the share of its time on each type.
    pub shares: Vec<Vec<f64>>,
    /// The least that a job has of its need.
    pub level: f64,
    /// Programmes that were solved.
    pub programmes: u64,
}

/// The allocation with the greatest z, in parts where there are many jobs.
///
/// # Errors
/// If the solver finds no solution, which no input should bring about.
pub fn levelled(claims: &[Claim], gpus: &[f64]) -> Result<Levelled> {
    levelled_in(claims, gpus, claims.len().div_ceil(PART), true)
}

/// Computes an allocation with the greatest z, without the second programme: GPUs left over stay
/// free.
///
/// # Errors
/// Errors of [`levelled`].
pub fn level_alone(claims: &[Claim], gpus: &[f64]) -> Result<Levelled> {
    levelled_in(claims, gpus, claims.len().div_ceil(PART), false)
}

/// Computes the allocation in so many parts, jobs by the GPU time that they need and GPUs of each
/// type evenly, with the second programme if it `fills`.
///
/// # Errors
/// Errors of [`levelled`].
pub fn levelled_in(claims: &[Claim], gpus: &[f64], parts: usize, fills: bool) -> Result<Levelled> {
    if parts <= 1 {
        return whole(claims, gpus, fills);
    }
    let gpus: Vec<f64> = gpus.iter().map(|gpus| gpus / parts as f64).collect();
    let mut result = Levelled { shares: vec![Vec::new(); claims.len()], level: f64::INFINITY, programmes: 0 };
    for places in dealt(claims, parts) {
        let of: Vec<Claim> = places.iter().filter_map(|at| claims.get(*at).cloned()).collect();
        if of.is_empty() {
            continue;
        }
        let solved = whole(&of, &gpus, fills)?;
        result.level = result.level.min(solved.level);
        result.programmes += solved.programmes;
        for (at, shares) in places.into_iter().zip(solved.shares) {
            if let Some(slot) = result.shares.get_mut(at) {
                *slot = shares;
            }
        }
    }
    Ok(result)
}

/// Places of claims, in parts with about as much to do and at most so many claims as an even split has.
fn dealt(claims: &[Claim], parts: usize) -> Vec<Vec<usize>> {
    let most = claims.len().div_ceil(parts);
    let load = |claim: &Claim| claim.gpus * claim.need / claim.fastest();
    let mut order: Vec<(f64, usize)> = claims.iter().map(load).enumerate().map(|(at, load)| (load, at)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut result: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); parts];
    for (load, at) in order {
        let open = result.iter_mut().filter(|(_, places)| places.len() < most);
        if let Some((sum, places)) = open.min_by(|a, b| a.0.total_cmp(&b.0)) {
            *sum += load;
            places.push(at);
        }
    }
    result.into_iter().map(|(_, places)| places).collect()
}

/// The least of what jobs could have of their needs alone: the unit in which programmes count.
fn least_alone(claims: &[Claim]) -> f64 {
    claims.iter().map(|claim| claim.fastest() / claim.need).fold(f64::INFINITY, f64::min)
}

/// The programmes for all claims at once.
fn whole(claims: &[Claim], gpus: &[f64], fills: bool) -> Result<Levelled> {
    if claims.is_empty() {
        return Ok(Levelled { shares: Vec::new(), level: f64::INFINITY, programmes: 0 });
    }
    // In units of the least of what jobs could have alone, z is at most 1.
    let unit = least_alone(claims);
    let gain = |claim: &Claim, speed: f64| (speed / claim.need / unit).min(FAST);
    let mut shares = solve(claims, gpus, &gain, None)?;
    if fills {
        let floor = level(claims, &shares, &gain) * (1.0 - SLACK);
        shares = solve(claims, gpus, &gain, Some(floor))?;
    }
    let level = claims
        .iter()
        .zip(&shares)
        .map(|(claim, shares)| claim.speed(shares) / claim.need)
        .fold(f64::INFINITY, f64::min);
    Ok(Levelled { shares, level, programmes: 1 + u64::from(fills) })
}

/// The least gain of a job.
fn level(claims: &[Claim], shares: &[Vec<f64>], gain: &dyn Fn(&Claim, f64) -> f64) -> f64 {
    let of = |(claim, shares): (&Claim, &Vec<f64>)| {
        claim.speeds.iter().zip(shares).map(|(speed, share)| gain(claim, *speed) * share).sum::<f64>()
    };
    claims.iter().zip(shares).map(of).fold(f64::INFINITY, f64::min)
}

/// One programme: the greatest z, or, with a floor for it, the most GPU time weighed by speed.
fn solve(
    claims: &[Claim],
    gpus: &[f64],
    gain: &dyn Fn(&Claim, f64) -> f64,
    floor: Option<f64>,
) -> Result<Vec<Vec<f64>>> {
    let mut vars = variables!();
    let level = vars.add(variable().min(0.0));
    let shares: Vec<Vec<Option<Variable>>> = claims
        .iter()
        .map(|claim| claim.speeds.iter().map(|speed| (*speed > 0.0).then(|| vars.add(variable().min(0.0)))).collect())
        .collect();
    let mut objective = Expression::default();
    let mut rows = Vec::new();
    let mut used = vec![Expression::default(); gpus.len()];
    for (claim, shares) in claims.iter().zip(&shares) {
        let best = claim.fastest();
        let mut all = Expression::default();
        let mut got = Expression::default();
        for ((speed, share), used) in claim.speeds.iter().zip(shares).zip(&mut used) {
            let Some(share) = share else { continue };
            all.add_mul(1.0, *share);
            got.add_mul(gain(claim, *speed), *share);
            used.add_mul(claim.gpus, *share);
            if floor.is_some() {
                objective.add_mul(claim.gpus * speed / best, *share);
            }
        }
        rows.push(constraint!(all <= 1.0));
        match floor {
            Some(floor) => rows.push(constraint!(got >= floor)),
            None => {
                got.add_mul(-1.0, level);
                rows.push(constraint!(got >= 0.0));
            }
        }
    }
    if floor.is_none() {
        objective.add_mul(1.0, level);
    }
    rows.extend(used.into_iter().zip(gpus).map(|(used, gpus)| constraint!(used <= *gpus)));
    let solution = solved(vars.maximise(objective), rows, "an allocation")?;
    let value = |share: &Option<Variable>| share.map_or(0.0, |share| solution.value(share).clamp(0.0, 1.0));
    Ok(shares.iter().map(|shares| shares.iter().map(value).collect()).collect())
}

/// Prices that prove how great z can be at most: what an hour of a GPU of each type is worth, and the bound.
///
/// # Errors
/// If the solver finds no solution, which no input should bring about.
pub fn dual(claims: &[Claim], gpus: &[f64], cap_time: bool) -> Result<(Vec<f64>, f64)> {
    let unit = least_alone(claims);
    let mut vars = variables!();
    let prices: Vec<Variable> = gpus.iter().map(|_| vars.add(variable().min(0.0))).collect();
    let mut objective = Expression::default();
    for (price, gpus) in prices.iter().zip(gpus) {
        objective.add_mul(*gpus, *price);
    }
    let mut rows = Vec::new();
    let mut worth = Expression::default();
    for claim in claims {
        let speed_price = vars.add(variable().min(0.0));
        let time_price = cap_time.then(|| vars.add(variable().min(0.0)));
        worth.add_mul(1.0, speed_price);
        if let Some(price) = time_price {
            objective.add_mul(1.0, price);
        }
        for (speed, price) in claim.speeds.iter().zip(&prices).filter(|(speed, _)| **speed > 0.0) {
            let mut row = Expression::default();
            row.add_mul(claim.gpus, *price);
            row.add_mul(-speed / claim.need / unit, speed_price);
            if let Some(price) = time_price {
                row.add_mul(1.0, price);
            }
            rows.push(constraint!(row >= 0.0));
        }
    }
    rows.push(constraint!(worth == 1.0));
    let solution = solved(vars.minimise(objective.clone()), rows, "an allocation")?;
    let result = prices.iter().map(|price| solution.value(*price).max(0.0)).collect();
    Ok((result, solution.eval(objective) * unit))
}

#[cfg(test)]
#[path = "programme_tests.rs"]
mod tests;
