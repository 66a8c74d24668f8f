//! Prices of a zone: what spot costs from when on, and what on-demand costs.
//!
//! A spot price is a step function of time: it holds from its moment until the next. Quotes are sorted; what was quoted before a window opens it. Files overlap:
//! a quote that comes twice counts once, and of two prices for one moment the first that was read is used. A quote of nothing, of 0 or below is set aside, and
//! the price before it holds on. All of these are counted ([`QuoteAudit`]). A tick costs what holds at its beginning. Before the first quote nobody knows
//! the price, so those ticks count as without spot.
//!
//! Prices come with a SkyPilot trace (`prices`, `metadata.on_demand_price`), or [beside traces](super::price_book).
//!
//! O(n log n). Worked example: quotes of 0.9 at 20 s, 1.0 at 10 s, 1.0 at 10 s again and 0 at 30 s, in ticks of 10 s from 0 on: unknown, 1.0, 0.9, 0.9; one
//! quote came twice and one was set aside.

use tracecast_analytics::Trace;

/// A spot price from a moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quote {
    /// Moment of the quote, milliseconds.
    pub at_ms: i64,
    /// Dollars an hour; nothing where it was missing.
    pub usd_per_h: Option<f64>,
}

/// Outcome of the check of quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuoteAudit {
    /// Quotes used.
    pub used: usize,
    /// Quotes that said again what was said of their moment.
    pub again: usize,
    /// Quotes that said another price of a moment already quoted.
    pub differing: usize,
    /// Quotes of 0 or below.
    pub not_positive: usize,
    /// Quotes without a price.
    pub missing: usize,
}

impl QuoteAudit {
    /// What was set aside, in words; nothing if nothing was.
    pub fn in_words(&self) -> Option<String> {
        let parts = [
            (self.again, "that came again"),
            (self.differing, "with another price for a moment already quoted"),
            (self.not_positive, "of 0 or below"),
            (self.missing, "without a price"),
        ];
        let said: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if said.is_empty() { None } else { Some(format!("quotes not used: {}", said.join(", "))) }
    }
}

/// A price as a step function of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceSteps {
    /// Moments and prices, in order, each moment once.
    steps: Vec<(i64, f64)>,
    /// Outcome of the check of quotes.
    pub audit: QuoteAudit,
}

impl PriceSteps {
    /// From quotes in any order.
    pub fn new(quotes: impl IntoIterator<Item = Quote>) -> Self {
        let mut quotes: Vec<Quote> = quotes.into_iter().collect();
        // Stable: of two for one moment the one read first stays first.
        quotes.sort_by_key(|quote| quote.at_ms);
        let mut result = Self::default();
        for quote in quotes {
            let Some(usd_per_h) = quote.usd_per_h.filter(|price| !price.is_nan()) else {
                result.audit.missing += 1;
                continue;
            };
            if usd_per_h <= 0.0 || usd_per_h.is_infinite() {
                result.audit.not_positive += 1;
                continue;
            }
            match result.steps.last() {
                Some((at_ms, price)) if *at_ms == quote.at_ms => {
                    if price.total_cmp(&usd_per_h).is_eq() {
                        result.audit.again += 1;
                    } else {
                        result.audit.differing += 1;
                    }
                }
                _ => {
                    result.audit.used += 1;
                    result.steps.push((quote.at_ms, usd_per_h));
                }
            }
        }
        result
    }

    /// The price at a moment; nothing before the first quote.
    pub fn at(&self, at_ms: i64) -> Option<f64> {
        let after = self.steps.partition_point(|(from_ms, _)| *from_ms <= at_ms);
        after.checked_sub(1).and_then(|step| self.steps.get(step)).map(|(_, price)| *price)
    }

    /// The price at the beginning of each of `ticks` ticks, the first at `from_ms`.
    pub fn by_tick(&self, from_ms: i64, tick_ms: i64, ticks: usize) -> Vec<Option<f64>> {
        (0..ticks).map(|tick| self.at(from_ms.saturating_add(tick as i64 * tick_ms))).collect()
    }
}

/// Prices of a zone, tick by tick.
#[derive(Debug, Clone, PartialEq)]
pub struct ZonePrice {
    /// Dollars an hour of spot, from each tick on; nothing before the first quote.
    pub spot: Vec<Option<f64>>,
    /// Dollars an hour of on-demand, if known.
    pub on_demand: Option<f64>,
    /// Outcome of the check of quotes.
    pub audit: QuoteAudit,
}

impl ZonePrice {
    /// What a trace says on-demand costs.
    pub(super) fn listed(trace: &Trace) -> Option<f64> {
        let table = &trace.prices;
        let mut listed = (0..table.ts.len()).filter(|row| table.kind.get(*row) == Some("ondemand"));
        listed.find_map(|row| table.usd_per_h.get(row).filter(|price| *price > 0.0))
    }

    /// Prices of a trace that carries them, with times from its first tick; `None` if it carries
    /// none.
    pub(super) fn within(trace: &Trace, told_ms: f64, ticks: usize) -> Option<Self> {
        let table = &trace.prices;
        let mut quotes = Vec::new();
        for (row, (ts, usd_per_h)) in table.ts.iter().zip(table.usd_per_h.iter()).enumerate() {
            if let (Some("spot"), Some(ts)) = (table.kind.get(row), ts) {
                // In ticks, as the gap between the samples may be replaced.
                quotes.push(Quote { at_ms: (ts as f64 / told_ms).round() as i64, usd_per_h });
            }
        }
        if quotes.is_empty() {
            return None;
        }
        let steps = PriceSteps::new(quotes);
        Some(Self { spot: steps.by_tick(0, 1, ticks), on_demand: Self::listed(trace), audit: steps.audit })
    }

    /// Dollars an hour of on-demand; if not known, `ratio` times the first price of spot that is.
    pub fn on_demand_or(&self, ratio: f64) -> Option<f64> {
        self.on_demand.or_else(|| self.spot.iter().flatten().next().map(|first| ratio * first))
    }

    /// Ticks before the first quote.
    pub fn unknown(&self) -> usize {
        self.spot.iter().filter(|price| price.is_none()).count()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn quotes(of: &[(i64, f64)]) -> Vec<Quote> {
        of.iter().map(|(at_ms, price)| Quote { at_ms: *at_ms, usd_per_h: Some(*price) }).collect()
    }

    #[test]
    fn the_worked_example() {
        let steps = PriceSteps::new(quotes(&[(20, 0.9), (10, 1.0), (10, 1.0), (30, 0.0)]));
        assert_eq!(steps.by_tick(0, 10, 4), [None, Some(1.0), Some(0.9), Some(0.9)]);
        assert_eq!(steps.audit, QuoteAudit { used: 2, again: 1, not_positive: 1, ..QuoteAudit::default() });
        assert_eq!(steps.audit.in_words().unwrap(), "quotes not used: 1 that came again, 1 of 0 or below");
    }

    /// The price before a window opens it; a quote at a tick's beginning holds in it, one within it from the next on.
    #[test]
    fn what_was_quoted_before_opens_a_window() {
        let steps = PriceSteps::new(quotes(&[(25, 3.0), (-100, 1.0), (20, 2.0)]));
        assert_eq!(steps.by_tick(0, 10, 4), [Some(1.0), Some(1.0), Some(2.0), Some(3.0)]);
    }

    /// Overlapping files, of which the second says another price of one moment: what was read first stays.
    #[test]
    fn files_that_overlap_count_once() {
        let steps = PriceSteps::new(quotes(&[(0, 1.0), (10, 2.0), (10, 2.0), (20, 3.0), (20, 3.5), (30, 4.0)]));
        assert_eq!(steps.by_tick(0, 10, 4), [1.0, 2.0, 3.0, 4.0].map(Some));
        assert_eq!((steps.audit.again, steps.audit.differing, steps.audit.used), (1, 1, 4));
    }

    #[test]
    fn missing_prices_hold_what_was_before() {
        let none = |at_ms| Quote { at_ms, usd_per_h: None };
        let odd = |at_ms, price| Quote { at_ms, usd_per_h: Some(price) };
        let steps = PriceSteps::new([none(0), odd(10, 1.5), none(20), odd(30, -1.0), odd(40, f64::NAN)]);
        assert_eq!(steps.by_tick(0, 10, 5), [None, Some(1.5), Some(1.5), Some(1.5), Some(1.5)]);
        assert_eq!((steps.audit.missing, steps.audit.not_positive), (3, 1));
        assert!(PriceSteps::new([]).at(0).is_none());
    }
}
