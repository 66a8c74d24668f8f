//! Report of the shares and usage of accounts and their users at the end, as `sshare -l` shows
//! them.
//!
//! Worked number: see [`Standing`].

use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::metric::{Metrics, Standing};

/// Most rows that people are shown.
const SHOWN: usize = 60;

impl Answer {
    /// The section, a table for each replay with an account tree; none where there is none.
    pub(super) fn share_section(&self) -> Option<Section> {
        let of = |metrics: &Metrics| (!metrics.shares.is_empty()).then(|| (finding(metrics), table(metrics)));
        Some(
            self.by_replay(Section::new("shares", "Shares of accounts"), of)?
                .with_definition("As `sshare -l` shows it, when the last job has ended. Usage: what jobs at and below an account were charged from the beginning of the replay on, decayed. Effective: under fair tree the part of what the account above has used.")
                .with_definition("Level: normalised shares over effective usage; below 1 an account has had more than its shares. Factor: of a user, the rank in the tree over the number of users (or 2^(−usage / shares) with NO_FAIR_TREE); an order `multifactor` with a weight `fair_share` goes by it. Users who were charged nothing are left out."),
        )
    }
}

/// Returns the account that has had most beyond its shares.
fn finding(metrics: &Metrics) -> String {
    let accounts =
        metrics.shares.iter().filter(|of| of.factor.is_none() && of.shares_ratio.is_some_and(|share| share > 0.0));
    let lowest = accounts.filter_map(|of| Some((of, of.level?))).min_by(|a, b| a.1.total_cmp(&b.1));
    match lowest {
        Some((of, level)) if level < 1.0 => {
            format!("{} has had most beyond its shares: its level is {level:.2}.", of.name)
        }
        _ => "No account has had more than its shares of what was used.".to_owned(),
    }
}

fn table(metrics: &Metrics) -> ReportTable {
    let columns = vec![
        Column::text("Account"),
        Column::number("Shares"),
        Column::number("Normalised"),
        Column::with_unit("Usage", "hours"),
        Column::number("Effective"),
        Column::number("Level"),
        Column::number("Factor"),
    ];
    let mut table = ReportTable::new("Accounts and users", columns);
    table.rows.extend(metrics.shares.iter().take(SHOWN).map(row));
    table
}

fn row(of: &Standing) -> Vec<Cell> {
    let real = |value: Option<f64>, digits| Cell::opt(value, |value| Cell::Float { value, digits });
    let shares = of.shares.map_or_else(|| Cell::from("parent"), |shares| Cell::Int(i64::from(shares)));
    vec![
        of.name.as_str().into(),
        shares,
        real(of.shares_ratio, 4),
        Cell::Compact(of.usage_hours),
        real(Some(of.usage_ratio), 4),
        real(of.level, 3),
        real(of.factor, 4),
    ]
}
