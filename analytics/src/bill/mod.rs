//! Charge-back: what each account is billed for what its jobs held, and for its share of what nobody held.
//!
//! ```text
//! trace ─┬─ GPU-hours and core-hours by account, rate and hour ─┐
//!        ├─ GPU-hours that no job held, spread by a rule        ├─▶ lines ─▶ cents that add up ─▶ answer, CSV, FOCUS
//!        └─ energy and carbon of jobs, the rest spread likewise ┘
//! ```
//!
//! * [`rates`]: the rates file. [`charge`]: quantities and amounts. [`answer`]: JSON, report, CSV. [`focus`]:
//!   rows of FOCUS, the FinOps Open Cost and Usage Specification.
//!
//! Worked number: two accounts held 30 and 10 GPU-hours of 100 at 2.00, and what nobody held costs 0.50 and is
//! spread by GPU-hours: 60.00 + 22.50 and 20.00 + 7.50 are 110.00.

pub mod answer;
pub mod charge;
pub mod focus;
pub mod rates;
