//! Which instance a job with a deadline runs on, spot or on-demand, so that it costs least and the deadline is kept.
//!
//! * when spot could be had in a zone, and what it cost, is told by [`crate::market`]; `price_words`: prices in words;
//! * [`job`]: the contract: what a tick costs, and the safety net that keeps the deadline; [`lanes`]: the same for an elastic job, which takes what there is of k
//!   nodes, and how either is run;
//! * [`rule`]: policies without probabilities; [`phases`] and [`programme`]: availability learned, and the programme that decides with it;
//! * [`optimum`]: the least cost if all were known;
//! * [`lanes_rule`], [`lanes_programme`] and [`lanes_optimum`]: the same of an elastic job;
//! * [`market`]: the same contract over several zones, with prices and a checkpoint that moves; [`probe`]: which of them are seen when; [`zones_rule`], [`pool`], `zones_learned` and [`zones_programme`]: policies over
//!   zones; [`zones_optimum`]: the least cost over zones; [`zones`]: all of them tried; [`zones_plan`]: what to do now;
//! * [`policy`]: the candidates; [`attempt`]: tried on a window; [`backtest`] and its [`answer`]: over many starts, and [`timeline`]: one of them;
//! * [`plan`]: chosen on earlier windows, reported on later ones, decided forward from the end of the data ([`lanes_plan`]); [`sensitivity`]: what if it is not as said; [`work`]: work that is
//!   uncertain, and [`uncertain`]: what it is worth to plan on its distribution;
//!   `moments`, `outlook`, `zone_seen`, [`zone_choice`] and [`zone_second`]: in which zone a job begins that stays in one; [`checkpoint`]: how often to save; [`purchase`]: what it buys; [`emit`]: as SkyPilot tasks, which name zones as [`crate::market::zone`] says, and as a purchase list; [`karpenter`]: as node pools.
//!
//! Worked number: 48 h of work at a slack of 0.8 on thirteen zones of V100: see `planner/RESULTS.md`.

pub mod answer;
pub mod attempt;
pub mod backtest;
pub mod checkpoint;
pub mod emit;
pub mod job;
pub mod karpenter;
pub mod lanes;
pub mod lanes_optimum;
pub mod lanes_plan;
pub mod lanes_programme;
pub mod lanes_rule;
pub mod market;
mod moments;
pub mod optimum;
mod outlook;
pub mod phases;
pub mod plan;
pub mod policy;
pub mod pool;
mod price_words;
pub mod probe;
pub mod programme;
pub mod purchase;
pub mod request;
pub mod rule;
pub mod sensitivity;
pub mod timeline;
pub mod uncertain;
pub mod work;
pub mod zone_choice;
pub mod zone_second;
mod zone_seen;
pub mod zones;
mod zones_learned;
pub mod zones_optimum;
pub mod zones_plan;
pub mod zones_programme;
pub mod zones_rule;
