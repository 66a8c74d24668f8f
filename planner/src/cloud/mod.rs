//! Which instance a job with a deadline runs on, spot or on-demand, so that it costs least and the deadline is kept.
//!
//! * when spot could be had in a zone, and what it cost, is told by [`crate::market`]; `price_words`: prices in words;
//! * [`job`]: the contract: what a tick costs, and the safety net that keeps the deadline; [`elastic`]: the same for an elastic job, which takes what there is of k
//!   nodes, and how either is run;
//! * [`rule`]: policies without probabilities; [`programme`]: availability learned as [phases](tracecast_predictors::spot::phases), and the programme that decides with it;
//! * [`optimum`]: the least cost if all were known;
//! * [`elastic::rule`], [`elastic::programme`] and [`elastic::optimum`]: the same of an elastic job;
//! * [`zones::market`]: the same contract over several zones, with prices and a checkpoint that moves; [`zones::probe`]: which of them are seen when; [`zones::rule`], [`zones::pool`], `zones_learned` and [`zones::programme`]: policies over
//!   zones; [`zones::optimum`]: the least cost over zones; [`zones`]: all of them tried; [`zones::plan`]: what to do now;
//! * [`policy`]: the candidates; [`attempt`]: tried on a window; [`backtest`] and its [`answer`]: over many starts, and [`timeline`]: one of them;
//! * [`plan`]: chosen on earlier windows, reported on later ones, decided forward from the end of the data ([`plan::now`]); [`sensitivity`]: what if it is not as said; [`work`]: work that is
//!   uncertain, and [`uncertain`]: what it is worth to plan on its distribution;
//!   `moments`, `outlook`, `zone_seen`, [`zones::choice`] and [`zones::second`]: in which zone a job begins that stays in one; [`checkpoint`]: how often to save; [`purchase`]: what it buys; [`emit`]: as SkyPilot tasks, which name zones as [`crate::market::zone`] says, and as a purchase list; [`karpenter`]: as node pools.
//!
//! Worked number: 48 h of work at a slack of 0.8 on thirteen zones of V100: see `planner/RESULTS.md`.

pub mod answer;
pub mod attempt;
pub mod backtest;
pub mod checkpoint;
pub mod elastic;
pub mod emit;
pub mod job;
pub mod karpenter;
mod moments;
pub mod optimum;
mod outlook;
pub mod plan;
pub mod policy;
mod price_words;
pub mod programme;
pub mod purchase;
pub mod request;
pub mod rule;
pub mod sensitivity;
pub mod timeline;
pub mod uncertain;
pub mod work;
pub mod zones;
