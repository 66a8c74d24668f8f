//! Invented classes of jobs that depend on processors and memory, for drawn jobs of which nothing was measured.
//!
//! Synergy (Mohan et al., OSDI 2022) splits its jobs into image, language and speech models, and finds that image and speech models want many processors, to read and prepare samples, and language models hardly any. The numbers here are **invented** after that, and no measurement:
//!
//! | class | processors a GPU for full speed, each as likely | memory a GPU (GB) |
//! |---|---|---|
//! | image | 4, 6, 9, 12 | 60; with 12 processors 120 |
//! | language | 1 | 20 |
//! | speech | 3, 6 | 60; with 6 processors 180 |
//!
//! With c of c* processors and m of m* GB the speed is `min(1, c/c*) · (½ + ½·min(1, m/m*))`: samples that do not fit into memory are read anew. The class is drawn for each job, whatever its type, from a stream of random numbers of its own, so that jobs are those of the same seed without classes.
//!
//! O(jobs). Worked example: a job that wants 6 processors and 60 GB runs at half of its speed with 3 and 60, and at three eighths with 3 and 30.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::HostUse;
use super::table::Sensitivity;
use tracecast_plan::error::{Error, Result, excerpt};

/// Names, and processors and memory of the kinds of each class.
const CLASSES: [(&str, &[(f64, f64)]); 3] = [
    ("image", &[(4.0, 60.0), (6.0, 60.0), (9.0, 60.0), (12.0, 120.0)]),
    ("language", &[(1.0, 20.0)]),
    ("speech", &[(3.0, 60.0), (6.0, 180.0)]),
];

/// Shares of image, language and speech models among drawn jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassDraw {
    /// Shares of the three; together 1.
    pub shares: [f64; 3],
}

impl ClassDraw {
    /// Parses a text such as `20:70:10`.
    ///
    /// # Errors
    /// If it is of another form.
    pub fn named(text: &str) -> Result<Self> {
        let malformed = || {
            Error::malformed(
                "split into image, language and speech models",
                excerpt(text),
                "write three shares, such as 20:70:10".to_owned(),
            )
        };
        let shares: Option<Vec<f64>> = text
            .split(':')
            .map(|share| share.trim().parse::<f64>().ok().filter(|share| (0.0..=1e6).contains(share)))
            .collect();
        let shares: [f64; 3] = shares.and_then(|shares| shares.try_into().ok()).ok_or_else(malformed)?;
        let all: f64 = shares.iter().sum();
        if all <= 0.0 {
            return Err(malformed());
        }
        Ok(Self { shares: shares.map(|share| share / all) })
    }

    /// Draws the kind of each of so many jobs, where [`tables`] begin at `first`.
    pub fn draw(&self, jobs: usize, first: usize, seed: u64) -> Vec<HostUse> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(3);
        let all = CLASSES.iter().map(|(_, kinds)| kinds.len()).sum::<usize>();
        let mut one = |_| {
            let (class, kind): (f64, f64) = (random.random(), random.random());
            let (mut at, mut below) = (first, 0.0);
            for ((_, kinds), share) in CLASSES.iter().zip(self.shares) {
                below += share;
                if class < below {
                    at += ((kind * kinds.len() as f64) as usize).min(kinds.len() - 1);
                    break;
                }
                at += kinds.len();
            }
            HostUse::Table(at.min(first + all - 1))
        };
        (0..jobs).map(&mut one).collect()
    }
}

/// The tables of all kinds.
pub fn tables() -> Vec<Sensitivity> {
    let of = |(name, (cpus, memory)): (&str, &(f64, f64))| {
        let points = [(*cpus, 0.0, 0.5), (*cpus, *memory, 1.0)];
        Sensitivity::of(&format!("{name} of {cpus} processors"), &points).ok()
    };
    CLASSES.iter().flat_map(|(name, kinds)| kinds.iter().map(move |kind| (*name, kind))).filter_map(of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::node::HostNeeds;

    #[test]
    fn the_worked_example() {
        let all = tables();
        assert_eq!(all.len(), 7);
        let six = all.iter().find(|table| table.job == "image of 6 processors").unwrap();
        let speed = |cpus: f64, memory_gb: f64| six.speed(HostNeeds { cpus, memory_gb });
        assert!((speed(3.0, 60.0) - 0.5).abs() < 1e-12 && (speed(3.0, 30.0) - 0.375).abs() < 1e-12);
        assert_eq!((speed(6.0, 60.0), six.best()), (1.0, HostNeeds { cpus: 6.0, memory_gb: 60.0 }));
        assert_eq!(ClassDraw::named("20:70:10").unwrap().shares, [0.2, 0.7, 0.1]);
        for wrong in ["20:80", "0:0:0", "a:1:1", "NaN:1:1", "-1:1:1"] {
            assert!(ClassDraw::named(wrong).unwrap_err().to_string().contains("20:70:10"), "{wrong}");
        }
    }
}
