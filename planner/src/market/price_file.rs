//! Files of prices (TOML): numbers within bounds, nodes that are bought, and errors that name the line.
//!
//! O(length). Worked number: a node bought for 60,000 over 5 years, with 3 kW at a PUE of 1.3 and 0.12 a kWh, and 4,000 a year, costs 2.293 an hour.

use std::ops::Range;

use toml::Spanned;

use crate::error::{Error, Result, line_of};
use crate::plan::money::owned_per_h;

/// The currency of a file that names none.
pub(crate) fn dollars() -> String {
    "USD".to_owned()
}

/// The text that messages are about.
pub(crate) struct PriceFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

/// What a file says of a node that is bought.
pub(crate) struct BoughtEntry<'e> {
    pub(crate) name: &'e str,
    pub(crate) price: &'e Spanned<f64>,
    pub(crate) years: &'e Spanned<f64>,
    pub(crate) power_kw: &'e Option<Spanned<f64>>,
    pub(crate) pue: &'e Option<Spanned<f64>>,
    pub(crate) electricity: &'e Option<Spanned<f64>>,
    pub(crate) per_year: &'e Option<Spanned<f64>>,
}

/// A node that is bought.
pub(crate) struct Bought {
    pub(crate) price: f64,
    pub(crate) years: f64,
    /// Cost of an hour over the life of a node.
    pub(crate) per_h: f64,
}

impl PriceFile<'_> {
    pub(crate) fn wrong(&self, at: &Range<usize>, what: String) -> Error {
        Error::file(self.file.to_owned(), line_of(self.text, at.start), what)
    }

    /// A number within bounds, or an error that says what would do.
    ///
    /// # Errors
    /// If it is not within them.
    pub(crate) fn number(&self, of: &str, value: &Spanned<f64>, within: (f64, f64), remedy: &str) -> Result<f64> {
        let result = *value.get_ref();
        if result.is_finite() && result >= within.0 && result <= within.1 {
            return Ok(result);
        }
        Err(self.wrong(&value.span(), format!("{of} is {result}; {remedy}")))
    }

    /// A node that is bought; `remedy` says what to write for its price.
    ///
    /// # Errors
    /// If a number is out of bounds, or power is named without what it costs.
    pub(crate) fn bought(&self, entry: &BoughtEntry<'_>, remedy: &str) -> Result<Bought> {
        let number = |what: &str, value: &Spanned<f64>, within: (f64, f64), remedy: &str| {
            self.number(&format!("{}: {what}", entry.name), value, within, remedy)
        };
        let or = |otherwise: f64, what: &str, value: &Option<Spanned<f64>>, remedy: &str| {
            value.as_ref().map_or(Ok(otherwise), |value| number(what, value, (otherwise, 1e12), remedy))
        };
        let price = number("price", entry.price, (f64::MIN_POSITIVE, 1e12), remedy)?;
        let years = number("years", entry.years, (0.1, 50.0), "write its life, 0.1 to 50 years")?;
        let power_kw = or(0.0, "power_kw", entry.power_kw, "write the power of a node, 0 kW or more")?;
        let pue = "write the power of the building over that of its machines, 1 or more";
        let pue = or(1.0, "pue", entry.pue, pue)?;
        if let (Some(power), None) = (entry.power_kw, entry.electricity)
            && power_kw > 0.0
        {
            let what = format!(
                "{} has power_kw and no electricity, so what it draws would cost nothing; add `electricity`, the price of a kWh, or leave power_kw out",
                entry.name
            );
            return Err(self.wrong(&power.span(), what));
        }
        let kwh = or(0.0, "electricity", entry.electricity, "write the price of a kWh, 0 or more")?;
        let per_year = or(0.0, "per_year", entry.per_year, "write what a node costs a year beside, 0 or more")?;
        Ok(Bought { price, years, per_h: owned_per_h(price, years, power_kw * pue * kwh, per_year) })
    }
}
