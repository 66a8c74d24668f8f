//! A team that joins: how much it computes, whose habits it has, and where it submits.
//!
//! ```toml
//! [[team]]
//! name = "drones"
//! gpu_hours_per_week = 400     # what its jobs hold
//! like_vc = "vision"           # or like_users = ["user007"]; left out: like everyone
//! vc = "speech"                # left out: where those it is like submit
//! ```
//!
//! Its jobs are drawn from those of whom it is like, times the GPU-hours asked for over those that they have.
//!
//! Worked number: those it is like held 1,600 GPU-hours in four weeks. A team of 600 GPU-hours a week has 600 / 400 = 1.5 times their jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::report::format;
use tracecast_analytics::time::{DAY_MS, HOUR_S, WEEK_MS};

use crate::error::{Error, Result};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::workload::Workload;

/// How many times the work of those it is like a team can bring. With less than the least, hardly a week would be drawn.
const TIMES: std::ops::RangeInclusive<f64> = 0.005..=20.0;

/// A team that joins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// Name of the team.
    pub name: String,
    /// GPU time of its jobs, GPU-hours a week.
    pub gpu_hours_per_week: f64,
    /// The VC whose jobs its jobs are like.
    #[serde(default)]
    pub like_vc: Option<String>,
    /// The users whose jobs its jobs are like; all if none is named.
    #[serde(default)]
    pub like_users: Vec<String>,
    /// The VC it submits to; that of each job it copies if none is named.
    #[serde(default)]
    pub vc: Option<String>,
}

/// A team in a given record.
pub(super) struct Joining {
    /// Jobs that it is like.
    pub(super) jobs: Vec<u32>,
    /// How many times these it brings.
    pub(super) factor: f64,
    /// The VC it submits to, an index into those of the cluster.
    pub(super) vc: Option<u16>,
}

impl Team {
    /// The teams of a TOML file; `name` is its name, for errors.
    ///
    /// # Errors
    /// If the file is not TOML of this form, names no team, or two of one name.
    pub fn parse_file(name: &str, text: &str) -> Result<Vec<Self>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            team: Vec<Team>,
        }
        let wrong = |line: u64, what: String| Error::File { file: name.to_owned(), line, what };
        let file: File = toml::from_str(text).map_err(|error| Error::toml(name, text, &error))?;
        if file.team.is_empty() {
            return Err(wrong(1, "there is no [[team]] with a name and gpu_hours_per_week".to_owned()));
        }
        for (at, team) in file.team.iter().enumerate() {
            if file.team.iter().take(at).any(|other| other.name == team.name) {
                let what = format!("two teams are called `{}`; give each a name of its own", team.name);
                return Err(wrong(1, what));
            }
            if !(team.gpu_hours_per_week.is_finite() && team.gpu_hours_per_week > 0.0) {
                let what = format!("team `{}`: gpu_hours_per_week must be a number above 0", team.name);
                return Err(wrong(1, what));
            }
        }
        Ok(file.team)
    }

    /// Returns the VC or user whose jobs the team's are like, in words.
    pub fn like(&self) -> String {
        match (self.like_users.as_slice(), &self.like_vc) {
            ([], None) => "everyone".to_owned(),
            ([], Some(vc)) => format!("the VC {vc}"),
            (users, None) => users.join(", "),
            (users, Some(vc)) => format!("{} in the VC {vc}", users.join(", ")),
        }
    }

    /// Returns the team's work and the jobs that it is like, in a sentence.
    pub fn definition(&self) -> String {
        format!(
            "Team {}: {} GPU-hours a week, with jobs like those of {}{}.",
            self.name,
            format::float(self.gpu_hours_per_week, 1),
            self.like(),
            self.vc.as_ref().map_or_else(String::new, |vc| format!(", submitted to {vc}")),
        )
    }

    /// The team in a record.
    ///
    /// # Errors
    /// If it names a VC or a user that there is not, is like nobody, or wants far more or less than those it is like.
    pub(super) fn joining(&self, record: &Workload, cluster: &Cluster) -> Result<Joining> {
        let wrong = |what: String| Error::Growth(format!("team `{}`: {what}", self.name));
        let known: Vec<&str> = cluster.vcs.iter().map(|vc| vc.name.as_str()).collect();
        let place = |name: &Option<String>, remedy: &str| -> Result<Option<u16>> {
            let Some(name) = name else { return Ok(None) };
            let at = known.iter().position(|known| known == name).and_then(|at| u16::try_from(at).ok());
            at.map(Some)
                .ok_or_else(|| wrong(format!("the cluster has no VC `{name}`{remedy}; there are {}", known.join(", "))))
        };
        let like_vc = place(&self.like_vc, " whose jobs it could be like")?;
        let vc = place(&self.vc, ", which a file for --site could add")?;
        let mut like_users = Vec::new();
        for name in &self.like_users {
            let at = record.users.iter().position(|known| known == name);
            let at = at.ok_or_else(|| wrong(format!("no job of the replay is by a user `{name}`")))?;
            like_users.push(at as u32);
        }
        let uncounted = record.uncounted();
        let is_like = |job: &u32| {
            let at = *job as usize;
            record.submit_ms.get(at).is_some_and(|submit| *submit >= 0)
                && !uncounted.contains(job)
                && like_vc.is_none_or(|vc| record.vc.get(at) == Some(&vc))
                && (like_users.is_empty() || record.user.get(at).is_some_and(|user| like_users.contains(user)))
        };
        let jobs: Vec<u32> = (0u32..).take(record.len()).filter(is_like).collect();
        let gpu_s: f64 = jobs.iter().map(|job| record.gpu_s(*job as usize)).sum();
        let weeks = record.submit_ms.last().copied().unwrap_or(0).max(DAY_MS) as f64 / WEEK_MS as f64;
        let per_week = gpu_s / HOUR_S / weeks;
        let factor = self.gpu_hours_per_week / per_week;
        if jobs.is_empty() || per_week <= 0.0 {
            return Err(wrong(format!("no job of {} that is replayed holds GPUs; let it be like others", self.like())));
        }
        if !TIMES.contains(&factor) {
            return Err(wrong(format!(
                "it is to hold {} GPU-hours a week, and {} {per_week:.1}; {:.1} to {:.1} can be drawn of them; else let it be like others",
                self.gpu_hours_per_week,
                self.like(),
                TIMES.start() * per_week,
                TIMES.end() * per_week
            )));
        }
        Ok(Joining { jobs, factor, vc })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tracecast_sim::workload::Shape;

    fn team(text: &str) -> Team {
        Team::parse_file("team.toml", &format!("[[team]]\nname = \"x\"\n{text}")).unwrap().remove(0)
    }

    #[test]
    fn the_worked_number() {
        let mut record = Workload::default();
        for week in 0..5 {
            // 400 GPU-hours a week, for four weeks; the last job ends the record and holds nothing.
            let run_ms = if week < 4 { 50 * 3_600_000 } else { 0 };
            record.push(week * WEEK_MS, run_ms, Shape::whole(8));
        }
        let cluster = Cluster::of_vcs(&[("vision", 1, 8)]);
        let joining = team("gpu_hours_per_week = 600\nlike_vc = \"vision\"").joining(&record, &cluster).unwrap();
        assert_eq!((joining.factor, joining.jobs.len(), joining.vc), (1.5, 5, None));
        for (wrong, why) in [
            ("gpu_hours_per_week = 600\nlike_vc = \"nlp\"", "vision"),
            ("gpu_hours_per_week = 600\nvc = \"nlp\"", "--site"),
            ("gpu_hours_per_week = 600\nlike_users = [\"anna\"]", "anna"),
            ("gpu_hours_per_week = 60000", "400.0; 2.0 to 8000.0 can be drawn"),
        ] {
            let Err(error) = team(wrong).joining(&record, &cluster) else { panic!("{wrong}") };
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn files_say_what_is_wrong_and_where() {
        for (text, why) in [
            ("", "no [[team]]"),
            ("[[team]]\nname = \"a\"\n", "line 1: missing field `gpu_hours_per_week`"),
            ("[[team]]\nname = \"a\"\ngpu_hours_per_week = 0\n", "above 0"),
            ("[[team]]\nname = \"a\"\ngpu_hours_per_week = nan\n", "above 0"),
            ("[[team]]\nname = \"a\"\ngpu_hours = 5\n", "line 3"),
            (
                "[[team]]\nname = \"a\"\ngpu_hours_per_week = 5\n[[team]]\nname = \"a\"\ngpu_hours_per_week = 5\n",
                "two teams",
            ),
        ] {
            let error = Team::parse_file("team.toml", text).unwrap_err().to_string();
            assert!(error.starts_with("team.toml, line ") && error.contains(why), "{text}: {error}");
        }
    }
}
