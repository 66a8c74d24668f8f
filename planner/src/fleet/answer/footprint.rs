//! Carbon of the mix, and the front of cost and carbon, as a report tells them.
//!
//! O(rows). Worked example: 12.4 t a month, where all on demand emits 15.1 t, is told as 17.9 % less. Where the mix is all on demand itself, it is compared with nothing.

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Mark, Section, format};

use super::super::carbon::{FleetCarbon, FleetCarbonPoint, FleetGrid};
use super::super::rule::FleetRule;
use super::{FleetBody, FleetTrial};
use crate::market::purchase::BoughtAs;
use crate::plan::money::money;
use crate::plan::tell;

/// Kilograms as tonnes.
fn tonnes(kg: f64) -> String {
    format!("{} t", format::float(kg / 1e3, if kg < 1e4 { 3 } else { 1 }))
}

/// `3.0 % more`, `3.0 % less`.
fn more_or_less(change: f64) -> String {
    format!("{} {}", format::percent(change.abs()), if change < 0.0 { "less" } else { "more" })
}

/// What it gains that mixes are chosen by the hour, in a sentence.
///
/// Worked example: 0.3 t, and 0.33 t for as much money by the mean: 10 % more.
fn hours_in_words(front: &[FleetCarbonPoint]) -> String {
    let change = |point: &FleetCarbonPoint| {
        let by_mean = point.by_mean_kg_for_as_much?;
        (point.kg_per_month > 0.0).then(|| by_mean / point.kg_per_month - 1.0)
    };
    // The first is chosen by cost alone.
    let changes: Vec<f64> = front.iter().skip(1).filter_map(change).collect();
    let (least, most) =
        changes.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), of| (least.min(*of), most.max(*of)));
    let said = match changes.is_empty() {
        true if front.len() < 2 => "with one mix there is nothing to gain".to_owned(),
        true => "none does the same work for as little".to_owned(),
        false if least.abs() < 5e-4 && most.abs() < 5e-4 => {
            "they emit as much: the hours of the week gain nothing here".to_owned()
        }
        false if changes.len() == 1 => format!("it emits {}", more_or_less(least)),
        false => format!("they emit {} to {}", more_or_less(least), more_or_less(most)),
    };
    format!(
        "By the mean: what mixes emit for as much money, on the line between two, that are chosen and rented by the mean of each grid in place of its hours; {said}."
    )
}

/// What mixes of the front saved on the later windows beside the first, which is chosen by cost alone, in a sentence: at the least price a tonne, and then in all.
///
/// Worked example: 100 a month for 10 t, 103 for 9 t and 160 for 8 t. The second saves a tonne for 3, the third for 30: the second is told first.
fn front_in_words(front: &[FleetCarbonPoint], on_demand_per_month: Option<f64>, currency: &str) -> Option<String> {
    let first = front.first()?;
    let saves = |point: &&FleetCarbonPoint| !point.is_dominated && point.kg_per_month < first.kg_per_month;
    let by_kg = |a: &FleetCarbonPoint, b: &FleetCarbonPoint| a.kg_per_month.total_cmp(&b.kg_per_month);
    let Some(least) = front.iter().filter(saves).min_by(|a, b| by_kg(a, b)) else {
        return Some("On the later windows no mix that was tried emits less than the one that costs least.".to_owned());
    };
    // What turned out cheaper as well costs nothing.
    let price = |point: &FleetCarbonPoint| point.cost_per_tonne_saved.map_or(f64::INFINITY, |price| price.max(0.0));
    let cheapest = front
        .iter()
        .filter(saves)
        .min_by(|a, b| price(a).total_cmp(&price(b)).then_with(|| by_kg(a, b)))
        .unwrap_or(least);
    let cost = |point: &FleetCarbonPoint| more_or_less(point.cost_per_month / first.cost_per_month - 1.0);
    let carbon = |point: &FleetCarbonPoint| more_or_less(point.kg_per_month / first.kg_per_month - 1.0);
    let a_tonne = |point: &FleetCarbonPoint, unit: &str| match point.cost_per_tonne_saved {
        Some(price) if price > 0.0 => format!(": **{} {unit}**", money(price, currency)),
        _ => String::new(),
    };
    let mut said = format!(
        "On the later windows the mix that saved carbon at the least price cost {} than the one chosen by cost alone ({} a month in place of {}) and emitted {}{}.",
        cost(cheapest),
        money(cheapest.cost_per_month, currency),
        money(first.cost_per_month, currency),
        carbon(cheapest),
        a_tonne(cheapest, "for each tonne saved")
    );
    if least.kg_per_month < cheapest.kg_per_month {
        said += &format!(
            " The mix of the least carbon emitted {} and cost {}{}{}.",
            carbon(least),
            cost(least),
            a_tonne(least, "a tonne"),
            if on_demand_per_month.is_some_and(|all| least.cost_per_month > all) {
                ", and more than all on demand"
            } else {
                ""
            }
        );
    }
    Some(said)
}

impl FleetBody {
    /// What the mix emits, and what less of it costs, in a sentence.
    pub(super) fn carbon_in_words(&self, carbon: &FleetCarbon, trial: &FleetTrial) -> String {
        let is_steady = self.mix.iter().all(|row| row.how == BoughtAs::OnDemand);
        let beside = match carbon.mix_kg_per_month / carbon.on_demand_kg_per_month - 1.0 {
            _ if is_steady => "and is all on demand, so there is nothing to compare it with".to_owned(),
            change if !change.is_finite() => "where all on demand emits none".to_owned(),
            change if change.abs() < 5e-4 => "as much as all on demand".to_owned(),
            change if change < 0.0 => format!("{} less than all on demand", format::percent(-change)),
            change => format!("{} more than all on demand", format::percent(change)),
        };
        let emits = format!("The mix to come emits **{} of CO2 a month**, {beside}.", tonnes(carbon.mix_kg_per_month));
        let on_demand = Some(trial.of.baseline.amount);
        match front_in_words(&carbon.front, on_demand, &self.currency) {
            Some(front) => format!("{emits} {front}"),
            None => emits,
        }
    }

    /// The front, and what it rests on.
    pub(super) fn carbon_section(&self, carbon: &FleetCarbon, trial: &FleetTrial) -> Section {
        let mut table = tell::table(
            "Mixes from the least cost to the least carbon, chosen before and priced after",
            &format!(
                "#Weight, {} a tonne | #GPUs reserved | #{} a month | #CO2, t a month | #Cost, of the cheapest | #Carbon, of the cheapest | #{} a tonne saved | #By the mean, t a month | #GPU-hours that wait | Another is better in both",
                self.currency, self.currency, self.currency
            ),
        );
        let first = carbon.front.first();
        let of = |own: f64, figure: fn(&FleetCarbonPoint) -> f64| {
            Cell::opt(first, |first| Cell::Percent(own / figure(first)))
        };
        for point in &carbon.front {
            table.rows.push(vec![
                point.per_tonne.map_or_else(|| "carbon alone".into(), |weight| Cell::float(weight, 0)),
                Cell::float(point.committed_gpus, 0),
                Cell::float(point.cost_per_month, 0),
                Cell::float(point.kg_per_month / 1e3, 2),
                of(point.cost_per_month, |first| first.cost_per_month),
                of(point.kg_per_month, |first| first.kg_per_month),
                Cell::opt(point.cost_per_tonne_saved, |cost| Cell::float(cost, 0)),
                Cell::opt(point.by_mean_kg_for_as_much, |kg| Cell::float(kg / 1e3, 2)),
                Cell::float(point.waiting_gpu_hours, 0),
                if point.is_dominated { "yes" } else { "" }.into(),
            ]);
        }
        table.note = Some(format!(
            "The first row is chosen by cost alone. Each weight is a price on carbon at which the mix is the best on the hours before the split; it is in no cost. A tonne saved is one less than the first row emits, on the later windows; below 0 the mix was cheaper there as well. What waits emits nothing. {}",
            hours_in_words(&carbon.front)
        ));
        let mut rules = tell::table(
            "What the rules emitted on the later windows",
            &format!("Rule | #{} a month | #CO2, t a month", self.currency),
        );
        for rule in trial.rules.iter().filter(|rule| rule.id != FleetRule::Buying) {
            let kg = Cell::opt(rule.figures.carbon_kg_per_month, |kg| Cell::float(kg / 1e3, 2));
            rules.rows.push(vec![rule.words.as_str().into(), Cell::float(rule.amount, 0), kg]);
        }
        let mut rests = tell::table(
            "What that rests on",
            "Offer | Grid | #kW | #g CO2 a kWh | by hour of the week | earlier, later hours | #kg CO2 an hour",
        );
        for offer in &carbon.offers {
            let grid = carbon.grids.iter().find(|grid| grid.grid == offer.grid);
            let of = |figures: fn(&FleetGrid) -> [f64; 2], between: &str| {
                let told = |[a, b]: [f64; 2]| format!("{}{between}{}", format::float(a, 0), format::float(b, 0));
                grid.map_or_else(String::new, |grid| told(figures(grid)))
            };
            rests.rows.push(vec![
                offer.offer.as_str().into(),
                offer.grid.as_str().into(),
                Cell::float(offer.power_kw, 2),
                Cell::float(offer.g_per_kwh, 1),
                of(|grid| [grid.least_g_per_kwh, grid.most_g_per_kwh], " to ").into(),
                of(|grid| [grid.earlier_g_per_kwh, grid.later_g_per_kwh], ", ").into(),
                Cell::float(offer.kg_per_h, 3),
            ]);
        }
        let points = carbon.front.iter().map(|point| (point.cost_per_month, point.kg_per_month / 1e3)).collect();
        let chart = Chart::xy(
            "fleet-carbon-front",
            "Cost and carbon of the mixes",
            Axis::linear(format!("{} a month", self.currency)),
            Axis::linear("CO2, t a month"),
            vec![ChartSeries::new("on the later windows", Mark::Points, points)],
        )
        .with_reading("Each point is a mix that was chosen before the split with another weight on carbon. Those towards the lower left are better in both.");
        Section::new("fleet-carbon", "What less carbon costs")
            .with_chart(chart)
            .with_table(table)
            .with_table(rules)
            .with_table(rests)
            .with_definition("An hour of an instance emits its kW times the direct carbon intensity of its grid, the mean of the file's hours at that hour of the week in UTC: what power stations emit, without fuel supply and building, unless the notes say that a file has only intensities of the life cycle. Mixes are chosen with the earlier half of the file and told on the later windows with its later half; a file of fewer than two weeks is taken whole for both. Spot counts with its overhead. An instance that is committed to counts as running around the clock. Making the hardware is not in it.")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::super::carbon::FleetCarbonByMean;
    use super::*;

    /// Cost, kg and the price of a tonne saved beside the first.
    fn front(of: &[(f64, f64)]) -> Vec<FleetCarbonPoint> {
        let first = of[0];
        let point = |(cost, kg): &(f64, f64)| FleetCarbonPoint {
            per_tonne: None,
            committed_gpus: 0.0,
            earlier_cost_per_month: *cost,
            earlier_kg_per_month: *kg,
            cost_per_month: *cost,
            kg_per_month: *kg,
            cost_per_tonne_saved: (*kg < first.1).then(|| 1e3 * (cost - first.0) / (first.1 - kg)),
            waiting_gpu_hours: 0.0,
            is_dominated: false,
            gap: 0.0,
            by_mean: FleetCarbonByMean {
                committed_gpus: 0.0,
                cost_per_month: *cost,
                kg_per_month: *kg,
                waiting_gpu_hours: 0.0,
            },
            by_mean_kg_for_as_much: None,
        };
        of.iter().map(point).collect()
    }

    /// Regression test: the headline gave the extreme of the Pareto front alone, a mix dearer than
    /// all on demand.
    #[test]
    fn the_least_price_of_a_tonne_is_told_first() {
        let told = |of: &[(f64, f64)]| front_in_words(&front(of), Some(150.0), "USD").unwrap();
        let worked = told(&[(100.0, 10_000.0), (103.0, 9_000.0), (160.0, 8_000.0)]);
        let (step, extreme) = worked.split_once(" The mix of the least carbon ").unwrap();
        assert!(step.contains("cost 3.0 % more than the one chosen by cost alone"), "{step}");
        assert!(step.contains("emitted 10.0 % less: **3") && step.ends_with(" for each tonne saved**."), "{step}");
        assert!(extreme.starts_with("emitted 20.0 % less and cost 60.0 % more: **30"), "{extreme}");
        assert!(extreme.ends_with("a tonne**, and more than all on demand."), "{extreme}");
        // One that turned out cheaper as well has no price, and of those the cleaner is told.
        let cheaper = told(&[(100.0, 10_000.0), (90.0, 9_900.0), (99.0, 9_000.0)]);
        assert!(cheaper.contains("cost 1.0 % less") && !cheaper.contains("tonne"), "{cheaper}");
        assert!(told(&[(100.0, 10_000.0), (120.0, 10_000.0)]).contains("no mix that was tried emits less"));
        assert!(front_in_words(&[], None, "USD").is_none());
    }
}
