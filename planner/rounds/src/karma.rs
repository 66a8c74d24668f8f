//! Karma: users who leave GPUs to others earn credits, and who has more credits comes first when GPUs are short.
//!
//! Max-min fairness forgets: it divides each round's GPUs among those who ask for them in that round, whoever had more before. Karma (Vuppalapati et al., OSDI 2023) remembers by credits. The contract, for one round
//! of N GPUs, users u of weights w_u, and α between 0 and 1:
//!
//! 1. The **fair share** of a user is `f_u = N·w_u / Σ w`, of which `g_u = α·f_u` is **guaranteed**. The rest, (1 − α)·N in all, is **shared**, and each user is given (1 − α)·f_u credits for it.
//! 2. The **demand** d_u is the number of GPUs that the user's jobs could use now. Everybody has min(d_u, g_u).
//! 3. Who asks for less **donates** g_u − d_u. Who asks for more **borrows** up to d_u − g_u, and no more than it has credits for. A GPU costs the borrower a credit.
//! 4. If donated and shared GPUs are enough for all that would be borrowed, everybody has it. Donated ones are lent before shared ones, the donor with the fewest credits first; a donor earns a credit for each GPU that is lent.
//! 5. If they are not enough, all are lent, and each goes to the borrower with the most credits at that moment.
//!
//! "First" is by credits that change as GPUs are given, one small part of a GPU at a time: whoever is poorest is paid until it is as rich as the next, and whoever is richest takes until it is as poor as the next. GPUs are divisible here; whole gangs are made of them by
//! [`super::user`]. With weights, credits are compared as credits over weight, so that a user of weight 2 is treated as two users of weight 1 (the paper's authors publish code for equal weights alone). Whoever joins later gets as many credits over weight as the others have on average, as in their code.
//!
//! **What it keeps**: no user has more than it asks for or less than min(d_u, g_u); while credits last, no GPU is idle that somebody asks for; credits after a round are those before, plus those that are given, less one for each shared GPU that is lent. With α = 1 nothing is shared, and credits only change hands. With α = 0
//! it evens out what users have had since they came.
//!
//! O(users²) a round at most. Worked example (that of the authors' own test): A, B and C on 6 GPUs, α = 0.5, six credits each. A asks for 2, 4, 0, 2, 2; B for 2, 0, 4, 2, 2; C for 0, 0, 0, 6, 4. One GPU is guaranteed to each, and one credit a round given. In round 1 C donates one GPU, which A or B borrows; the other is a shared one. A
//! and B have 6 credits after it, and C 8. Rounds 2 and 3 give A and B their 4. In round 4, C has 13 credits and the others 7, so it has all three shared GPUs, 4 in all, and A and B have 1 each; the same again in round 5. In all each has had 8 and holds 8 credits. Max-min fairness gives A and B 10 each, and C 4.

/// Credits with which the first users begin: so many that hardly anybody runs out, as the paper advises.
pub const MANY: f64 = 1e7;

/// Demand of a user in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asking {
    /// How much it counts beside others, above 0.
    pub weight: f64,
    /// GPUs that it could use.
    pub demand: f64,
}

/// Credits of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Karma {
    /// The part of the fair share that is guaranteed.
    alpha: f64,
    /// Credits that the first users begin with, for each unit of weight.
    begin: f64,
    credits: Vec<f64>,
}

impl Karma {
    /// With nobody there yet. `alpha` is the part of the fair share that is guaranteed, 0 to 1; the first users begin with `begin` credits for each unit of weight.
    pub fn new(alpha: f64, begin: f64) -> Self {
        Self { alpha, begin, credits: Vec::new() }
    }

    /// Credits of each user, after the rounds so far.
    pub fn credits(&self) -> &[f64] {
        &self.credits
    }

    /// GPUs of each user in the round that begins, out of `gpus`; users keep their places, and new ones come at the end.
    pub fn round(&mut self, gpus: f64, users: &[Asking]) -> Vec<f64> {
        self.join(users);
        let all: f64 = users.iter().map(|user| user.weight).sum();
        let fair = |user: &Asking| gpus * user.weight / all;
        let guaranteed: Vec<f64> = users.iter().map(|user| self.alpha * fair(user)).collect();
        for (credits, user) in self.credits.iter_mut().zip(users) {
            *credits += (1.0 - self.alpha) * fair(user);
        }
        let donors = self.sides(users, &guaranteed, |user, guaranteed| guaranteed - user.demand);
        let mut borrowers = self.sides(users, &guaranteed, |user, guaranteed| user.demand - guaranteed);
        for (borrower, credits) in borrowers.iter_mut().zip(&self.credits) {
            borrower.most = borrower.most.min(credits.max(0.0));
        }
        let sum = |sides: &[Side]| sides.iter().map(|side| side.most).sum::<f64>();
        let (donated, wanted) = (sum(&donors), sum(&borrowers));
        let supply = donated + (1.0 - self.alpha) * gpus;
        // Who has most takes first: as a tank that is filled from the bottom, upside down.
        borrowers.iter_mut().for_each(|side| side.level = -side.level);
        let borrowed = filled(&borrowers, supply.min(wanted));
        let lent = filled(&donors, wanted.min(donated));
        let had = |((user, guaranteed), borrowed): ((&Asking, &f64), &f64)| user.demand.min(*guaranteed) + borrowed;
        let result = users.iter().zip(&guaranteed).zip(&borrowed).map(had).collect();
        for ((credits, borrowed), lent) in self.credits.iter_mut().zip(&borrowed).zip(&lent) {
            *credits += lent - borrowed;
        }
        result
    }

    /// Gives credits to those who are new.
    fn join(&mut self, users: &[Asking]) {
        let known = self.credits.len();
        let weights: f64 = users.iter().take(known).map(|user| user.weight).sum();
        let mean = if known == 0 { self.begin } else { self.credits.iter().sum::<f64>() / weights };
        self.credits.extend(users.iter().skip(known).map(|user| mean * user.weight));
    }

    /// Donors or borrowers: how much each may give or take, and its credits over weight.
    fn sides(&self, users: &[Asking], guaranteed: &[f64], most: impl Fn(&Asking, f64) -> f64) -> Vec<Side> {
        let of = |((user, guaranteed), credits): ((&Asking, &f64), &f64)| Side {
            level: credits / user.weight,
            weight: user.weight,
            most: most(user, *guaranteed).max(0.0),
        };
        users.iter().zip(guaranteed).zip(&self.credits).map(of).collect()
    }
}

/// Side of a division: the lowest level is filled first, until it is as high as the next.
#[derive(Debug, Clone, Copy)]
struct Side {
    level: f64,
    /// Amount that raises the level by one.
    weight: f64,
    most: f64,
}

/// Divides `amount`, which is no more than all may have, so that the lowest levels rise, none
/// beyond its most.
fn filled(sides: &[Side], amount: f64) -> Vec<f64> {
    let up_to = |level: f64| -> f64 { sides.iter().map(|side| part(side, level)).sum() };
    // The sum grows with the level, and bends where somebody begins to take or has its most.
    let mut bends: Vec<f64> = sides
        .iter()
        .filter(|side| side.most > 0.0)
        .flat_map(|side| [side.level, side.level + side.most / side.weight])
        .collect();
    bends.sort_by(f64::total_cmp);
    let reaches = bends.partition_point(|bend| up_to(*bend) < amount);
    let Some(high) = bends.get(reaches).copied() else {
        return sides.iter().map(|side| side.most).collect();
    };
    let low = reaches.checked_sub(1).and_then(|at| bends.get(at)).copied().unwrap_or(high);
    // From the bend below on, everybody who takes does so by its weight.
    let taking = |side: &Side| side.most > 0.0 && side.level <= low && low < side.level + side.most / side.weight;
    let weights: f64 = sides.iter().filter(|side| taking(side)).map(|side| side.weight).sum();
    let missing = amount - up_to(low);
    let of = |side: &Side| {
        let more = if taking(side) && weights > 0.0 { missing * side.weight / weights } else { 0.0 };
        (part(side, low) + more).clamp(0.0, side.most)
    };
    sides.iter().map(of).collect()
}

/// Amount of a side when levels stand at `level`.
fn part(side: &Side, level: f64) -> f64 {
    ((level - side.level) * side.weight).clamp(0.0, side.most)
}

/// GPUs of each user by max-min fairness in this round alone: levels rise from 0 by weight.
pub fn max_min(gpus: f64, users: &[Asking]) -> Vec<f64> {
    let sides: Vec<Side> =
        users.iter().map(|user| Side { level: 0.0, weight: user.weight, most: user.demand }).collect();
    filled(&sides, gpus.min(users.iter().map(|user| user.demand).sum()))
}

/// GPUs of each user if everybody keeps to its fair share.
pub fn partition(gpus: f64, users: &[Asking]) -> Vec<f64> {
    let all: f64 = users.iter().map(|user| user.weight).sum();
    users.iter().map(|user| user.demand.min(gpus * user.weight / all)).collect()
}

#[cfg(test)]
#[path = "karma_tests.rs"]
mod tests;
