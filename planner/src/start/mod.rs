//! When a waiting job will start: replays forward from a moment, with runs drawn from what is known of jobs alike.
//!
//! ```text
//! who runs, who waits ──scene──▶ replays with drawn runs and arrivals ──calibrate──▶ quantiles of the start
//!        ▲                                 ▲ runs                            ▲ earlier answers that came true
//!  backtest (a replay's past), live (dumps of a scheduler)
//! ```
//!
//! * [`runs`]: what runs of jobs alike came to, given how long one has run already. [`scene`]: a moment, replayed forward again and again.
//! * [`calibrate`]: quantiles from draws, corrected by how earlier answers came true. [`baseline`]: the simple rules beside it.
//! * [`backtest`]: answers of the past of a replay, and what came, told by [`mod@answer`]. [`live`]: a scene from dumps. [`when`]: the answer about one job.
//! * [`why`]: what keeps a job, by replays without one thing after the other.
//!
//! Worked number: a job waits behind one on its node that has run 2 h; runs of jobs alike that lasted longer took 3, 4 and 8 h. It starts in 1, 2 or 6 h, each as likely.

pub mod answer;
pub mod backtest;
pub mod baseline;
pub mod calibrate;
pub mod live;
pub mod runs;
pub mod scene;
pub mod when;
pub mod why;
