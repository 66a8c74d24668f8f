//! Money over time: the hours of a month, what an hour of a bought node costs, and amounts in words.
//!
//! O(1). Worked number: 60,000 over 5 years, 0.468 an hour of electricity and 4,000 a year are 1.369 + 0.468 + 0.456 = 2.293 an hour.

use tracecast_analytics::report::format;

/// Hours of a year.
pub const YEAR_H: f64 = 8_766.0;
/// Hours of a month.
pub const MONTH_H: f64 = YEAR_H / 12.0;

/// Cost of an owned node per hour: its price over its life, its electricity (`per_h`), and its
/// other costs a year.
pub fn owned_per_h(price: f64, years: f64, per_h: f64, per_year: f64) -> f64 {
    price / (years * YEAR_H) + per_h + per_year / YEAR_H
}

/// Money with its currency, without decimals from 100 on.
pub fn money(amount: f64, currency: &str) -> String {
    let digits = if amount.abs() >= 100.0 { 0 } else { 2 };
    format!("{} {currency}", format::float(amount, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        assert!((owned_per_h(60_000.0, 5.0, 0.468, 4_000.0) - 2.293).abs() < 1e-3);
        assert_eq!((money(12.345, "EUR"), money(123.45, "EUR")), ("12.35 EUR".to_owned(), "123 EUR".to_owned()));
    }
}
