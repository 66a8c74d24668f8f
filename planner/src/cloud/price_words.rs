//! What instances cost, in words: the prices that were used, or the ratio that stands for them.
//!
//! O(samples). Worked example: spot quotes of 0.9 and 1.1 and a list price of 3 are `spot at 0.90 to 1.10 dollars an hour and on-demand at 3.00`.

use tracecast_analytics::report::format;

use super::request::CloudRequest;
use crate::cloud::zones::market::listed_by_all;
use crate::market::availability::SpotSeries;
use crate::market::price::ZonePrice;

/// `0.90 to 1.10`; one number where they are told alike; nothing of none.
fn span(prices: impl Iterator<Item = f64>) -> Option<String> {
    let ends = prices.fold(None, |ends: Option<(f64, f64)>, price| {
        let (least, most) = ends.unwrap_or((price, price));
        Some((least.min(price), most.max(price)))
    });
    let told = |price: f64| format::float(price, if price < 0.1 { 4 } else { 2 });
    ends.map(|(least, most)| match (told(least), told(most)) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    })
}

/// What on-demand and spot cost in zones, as a clause that begins small.
pub(super) fn prices_in_words(zones: &[&SpotSeries], request: &CloudRequest) -> String {
    let times = format::float(request.price_ratio, 2);
    let by_ratio = match request.is_ratio_given {
        true => "as --price-ratio says",
        false => "which is an assumption as no price on demand is given",
    };
    let priced: Vec<&ZonePrice> = zones.iter().filter_map(|zone| zone.price.as_ref()).collect();
    if priced.is_empty() {
        let own: Vec<SpotSeries> =
            zones.iter().map(|zone| SpotSeries { counts: Vec::new(), ..(*zone).clone() }).collect();
        let said = format!("{times} times the spot price, {by_ratio}");
        return match span(listed_by_all(&own).into_iter()) {
            Some(listed) => format!("on-demand at {listed} dollars an hour, taken as {said}"),
            None => format!("on-demand at {said}"),
        };
    }
    let spot = match span(priced.iter().flat_map(|price| price.spot.iter().flatten().copied())) {
        Some(spot) => format!("spot at {spot} dollars an hour"),
        None => "spot at no price, so that it is not used,".to_owned(),
    };
    let told = span(priced.iter().filter_map(|price| price.on_demand));
    let guessed = span(guessed(zones, request).into_iter());
    let first = format!("taken as {times} times the first price of spot, {by_ratio}");
    let on_demand = match (told, guessed) {
        (Some(told), None) => format!("{told} dollars"),
        (Some(told), Some(guessed)) => format!("{told} dollars, or {guessed} where it is not told, {first}"),
        (None, Some(guessed)) => format!("{guessed} dollars, {first}"),
        (None, None) => "an unknown price".to_owned(),
    };
    let others = match zones.len() - priced.len() {
        0 => String::new(),
        count => format!(
            "; in {} without prices, on-demand at {times} times the spot price, {by_ratio}",
            format::counted(count as u64, "zone", "zones")
        ),
    };
    format!("{spot} and on-demand at {on_demand}{others}")
}

/// What on-demand is taken to cost in zones whose prices are of spot alone, dollars an hour.
fn guessed(zones: &[&SpotSeries], request: &CloudRequest) -> Vec<f64> {
    let priced = zones.iter().filter_map(|zone| zone.price.as_ref());
    let of_spot_alone = priced.filter(|price| price.on_demand.is_none());
    of_spot_alone.filter_map(|price| price.on_demand_or(request.price_ratio)).collect()
}

/// Whether the price of on-demand is assumed in one of some zones whose prices are of spot alone, and nobody said the ratio.
pub(super) fn is_guessed(zones: &[&SpotSeries], request: &CloudRequest) -> bool {
    !request.is_ratio_given && !guessed(zones, request).is_empty()
}

/// A sentence that prices of spot stand without one of on-demand, so that the ratio is assumed zone
/// by zone; `None` where none is assumed so, or the ratio was given.
pub(super) fn guessed_in_words(zones: &[&SpotSeries], request: &CloudRequest) -> Option<String> {
    if request.is_ratio_given {
        return None;
    }
    let guessed = guessed(zones, request);
    let span = span(guessed.iter().copied())?;
    let each = if guessed.len() > 1 {
        ", zone by zone, so that a saving in one zone is not of the same price as one in another"
    } else {
        ""
    };
    Some(format!(
        "**This rests on an assumption**: the prices are of spot alone, so on-demand is taken to cost {} times the first price of spot ({span} dollars an hour){each}. \
         `--on-demand-price` says what it costs, and `--price-ratio` how many times as much.",
        format::float(request.price_ratio, 2)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn request(is_ratio_given: bool) -> CloudRequest {
        CloudRequest {
            work_ms: 50 * HOUR,
            deadline_ms: Some(60 * HOUR),
            price_ratio: 3.0,
            is_ratio_given,
            starts: 2,
            need: 1,
            ..CloudRequest::default()
        }
    }

    #[test]
    fn the_prices_that_are_used_are_told() {
        let zone = SpotSeries::of_counts("a", HOUR, vec![1.0; 3]);
        let price = |on_demand: Option<f64>| ZonePrice {
            spot: vec![None, Some(0.9), Some(1.1)],
            on_demand,
            audit: Default::default(),
        };
        let said = |zones: &[&SpotSeries], given: bool| prices_in_words(zones, &request(given));
        let known = SpotSeries { price: Some(price(Some(3.0))), ..zone.clone() };
        assert_eq!(said(&[&known], false), "spot at 0.90 to 1.10 dollars an hour and on-demand at 3.00 dollars");
        assert_eq!(guessed_in_words(&[&known, &zone], &request(false)), None);
        let half = SpotSeries { price: Some(price(None)), ..zone.clone() };
        assert_eq!(
            said(&[&half], false),
            "spot at 0.90 to 1.10 dollars an hour and on-demand at 2.70 dollars, taken as 3.00 times the first price of spot, which is an assumption as no price on demand is given"
        );
        let guessed = |zones: &[&SpotSeries], given: bool| guessed_in_words(zones, &request(given)).unwrap_or_default();
        let caution = guessed(&[&half, &known], false);
        assert!(
            caution.contains("3.00 times the first price of spot (2.70 dollars an hour). `--on-demand-price`"),
            "{caution}"
        );
        assert!(guessed(&[&half, &half], false).contains("zone by zone"));
        assert_eq!(guessed(&[&half], true), "");
        assert!(said(&[&half], true).ends_with("3.00 times the first price of spot, as --price-ratio says"));
        assert!(said(&[&known, &zone], false).ends_with(
            "in 1 zone without prices, on-demand at 3.00 times the spot price, which is an assumption as no price on demand is given"
        ));
        // Prices of which none is of spot are prices all the same: the ratio stands for nothing, and spot is not used.
        let unquoted = ZonePrice { spot: vec![None; 3], ..price(Some(3.0)) };
        let unquoted = SpotSeries { price: Some(unquoted), ..zone.clone() };
        assert_eq!(
            said(&[&unquoted], false),
            "spot at no price, so that it is not used, and on-demand at 3.00 dollars"
        );
        assert!(unquoted.is_priced() && unquoted.up(1) == [false; 3]);
        assert_eq!(said(&[&zone], true), "on-demand at 3.00 times the spot price, as --price-ratio says");
        assert!(said(&[&zone], false).ends_with("which is an assumption as no price on demand is given"));
        let listed = SpotSeries { list_price: Some(4.0), ..zone };
        assert!(said(&[&listed], true).starts_with("on-demand at 4.00 dollars an hour, taken as 3.00 times"));
    }
}
