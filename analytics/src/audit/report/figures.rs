//! Carbon, cost, SCI, water and factors, told.

use crate::audit::account::{Account, Carbon, Cost};
use crate::audit::answer::Answer;
use crate::report::format::{compact, counted, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::time::Zone;

use super::{coverage, drawn, energy, total};

impl Answer {
    pub(super) fn carbon(&self) -> Option<Section> {
        let account = &self.account;
        let first = account.location.as_ref().or(account.market.as_ref())?;
        let mut table = ReportTable::new(
            "Carbon of the electricity (scope 2)",
            vec![
                Column::text("Basis"),
                Column::with_unit("CO₂ equivalent", "kg"),
                Column::with_unit("At least", "kg"),
                Column::with_unit("At most", "kg"),
                Column::with_unit("Mean", "g/kWh"),
                Column::number("Energy covered"),
                Column::with_unit("Not covered", "kWh"),
                Column::with_unit("Of energy modelled", "kg"),
                Column::with_unit("Total × mean", "kg"),
            ],
        );
        for (name, carbon) in [("Location-based", &account.location), ("Market-based", &account.market)] {
            let Some(carbon) = carbon else { continue };
            table.rows.push(vec![
                Cell::from(name),
                Cell::opt(carbon.kg.map(|kg| kg.value), Cell::Compact),
                Cell::opt(carbon.kg.map(|kg| kg.lower), Cell::Compact),
                Cell::opt(carbon.kg.map(|kg| kg.upper), Cell::Compact),
                Cell::opt(carbon.mean_g_per_kwh, Cell::Compact),
                Cell::opt(carbon.covered, Cell::Percent),
                energy(carbon.uncovered_kwh),
                Cell::opt(carbon.kg.map(|kg| kg.modelled), Cell::Compact),
                Cell::opt(carbon.mean_times_mean_kg, Cell::Compact),
            ]);
        }
        table.note = Some(
            "The last column is what total energy times the mean of the hours' intensities would give: not the figure, but how wrong it would be."
                .to_owned(),
        );
        let mut section = Section::new("carbon", "Carbon")
            .with_finding(carbon_sentence(
                if account.location.is_some() { "Location-based" } else { "Market-based" },
                first,
                account,
            ))
            .with_coverage(format!(
                "An intensity is known for {} of the energy; {}",
                first.covered.map_or_else(|| "an unknown share".to_owned(), percent),
                coverage(account).to_lowercase()
            ));
        if account.location.as_ref().is_some_and(|carbon| carbon.kg.is_some()) {
            let series = vec![ChartSeries::new("CO₂", Mark::Area, self.hourly(|line| line.location_kg))];
            section = section.with_chart(
                Chart::xy(
                    "carbon-by-hour",
                    "Carbon by hour, location-based",
                    self.time_axis(),
                    Axis::linear("CO₂ equivalent (kg an hour)"),
                    series,
                )
                .with_reading(
                    "Energy of each hour times the grid's intensity in that hour. A gap is an hour without either.",
                ),
            );
            let varies =
                account.location.as_ref().is_some_and(|carbon| carbon.least_g_per_kwh != carbon.most_g_per_kwh);
            if varies {
                let series = vec![ChartSeries::new("Intensity", Mark::Step, self.hourly(|line| line.g_per_kwh))];
                section = section.with_chart(
                    Chart::xy(
                        "carbon-intensity",
                        "Carbon intensity of the grid",
                        self.time_axis(),
                        Axis::linear("g/kWh"),
                        series,
                    )
                    .with_reading("What a kilowatt-hour emitted in each hour of the audit."),
                );
            }
        }
        Some(section.with_table(table).with_definition(format!(
            "Carbon is of {}. **Location-based** takes the grid's intensity hour by hour, **market-based** what contracts and the residual mix say (GHG Protocol, scope 2).",
            drawn(account)
        )))
    }

    pub(super) fn cost_sentence(&self, cost: &Cost) -> String {
        let unit = cost.currency.clone().unwrap_or_else(|| "(currency not stated)".to_owned());
        let least = if cost.demand_is_lower_bound { "at least " } else { "" };
        let Some(energy) = cost.energy else {
            let demand = cost
                .demand
                .map_or_else(String::new, |demand| format!(" Demand cost {least}**{}** {unit}.", compact(demand)));
            return format!("No hour of the audit has a price, so the cost of energy is not known.{demand}");
        };
        let mut said = format!("Energy cost {}", total(&self.account, energy, &unit));
        if let (Some(demand), Some(total)) = (cost.demand, cost.total) {
            said = format!("{said} and demand {least}**{}**, **{}** together", compact(demand), compact(total));
        }
        format!("{said}; {}", covered_words(cost.covered, cost.hours_without, "a price"))
    }

    pub(super) fn cost(&self, cost: &Cost) -> Section {
        let mut section = Section::new("cost", "Cost").with_finding(self.cost_sentence(cost)).with_coverage(format!(
            "A price is known for {} of the energy",
            cost.covered.map_or_else(|| "an unknown share".to_owned(), percent)
        ));
        let unit = cost.currency.clone().unwrap_or_else(|| "money".to_owned());
        let series = vec![ChartSeries::new("Cost", Mark::Step, self.hourly(|line| line.cost))];
        if cost.covered.is_some_and(|covered| covered > 0.0) {
            section = section.with_chart(
                Chart::xy("cost-by-hour", "Cost of energy by hour", self.time_axis(), Axis::linear(format!("{unit} an hour")), series)
                    .with_reading("Energy of each hour times its price; below zero where the price is. A gap is an hour without either."),
            );
        }
        if !cost.months.is_empty() {
            // The reader and the manifest hold checked names; UTC is the safe reading of a damaged one.
            let zone = Zone::named(&self.zone).unwrap_or_else(|_| Zone::utc());
            let mut table = ReportTable::new(
                "Demand",
                vec![
                    Column::text("Month"),
                    Column::text(format!("Highest hour ({})", self.zone)),
                    Column::with_unit("Power", "kW"),
                    Column::number("Part of the month audited"),
                    Column::with_unit("Charge for that part", unit.clone()),
                ],
            );
            for month in &cost.months {
                table.rows.push(vec![
                    Cell::from(month.month.clone()),
                    Cell::from(zone.show(month.peak_hour_ms)),
                    Cell::Compact(month.peak_kw),
                    Cell::Percent(month.share_of_month),
                    Cell::Compact(month.charge),
                ]);
            }
            if cost.demand_is_lower_bound {
                table.note = Some("A lower bound: the peak may lie outside the window, or within an hour.".to_owned());
            }
            section = section.with_table(table);
        }
        section.with_definition(format!(
            "Cost is of {}, hour by hour. Owners are charged for demand by their share of the peak hour.",
            drawn(&self.account)
        ))
    }

    pub(super) fn intensity(&self) -> Option<Section> {
        let account = &self.account;
        if account.sci.is_none() && account.water.is_none() {
            return None;
        }
        let mut said = Vec::new();
        let mut table = ReportTable::new(
            "Per GPU hour",
            vec![Column::text("Figure"), Column::number("Value"), Column::text("Unit")],
        );
        if let Some(sci) = &account.sci {
            said.push(format!(
                "Software carbon intensity is {} a GPU hour held by a job.",
                total(account, sci.g_per_gpu_hour, "g")
            ));
            let mut row = |name: &str, value: Option<f64>, unit: &str| {
                table.rows.push(vec![Cell::from(name), Cell::opt(value, Cell::Compact), Cell::from(unit)]);
            };
            row("SCI, a GPU hour held by a job", Some(sci.g_per_gpu_hour.value), "g");
            row("SCI, any GPU hour", sci.g_per_gpu_hour_seen, "g");
            row("Operational, E · I", Some(sci.operational_kg.value), "kg");
            row("Embodied, M", sci.embodied_kg, "kg");
            row("GPU hours held, R", Some(sci.gpu_hours), "h");
        }
        if let Some(water) = &account.water {
            said.push(format!(
                "Water: {} at {} L a kWh of IT energy.",
                total(account, water.litres, "L"),
                water.l_per_kwh
            ));
        }
        let mut section = Section::new("intensity", "Carbon per GPU hour, and water").with_finding(said.join(" "));
        if let Some(sci) = &account.sci {
            let basis = if sci.extrapolated > 0.0 {
                format!("The intensity of {} of the energy is that of other hours", percent(sci.extrapolated))
            } else {
                "Every hour has an intensity".to_owned()
            };
            let embodied = if sci.embodied_kg.is_none() { "; embodied carbon is left out" } else { "" };
            section = section.with_table(table).with_coverage(format!("{basis}{embodied}"));
        }
        Some(section.with_definition("**SCI** = (E · I + M) / R of ISO/IEC 21031:2024, location-based."))
    }

    pub(super) fn factor_section(&self) -> Section {
        let mut constants = ReportTable::new(
            "Constants that set figures",
            vec![Column::text("Constant"), Column::text("Value"), Column::text("Source")],
        );
        for constant in &self.constants {
            constants.rows.push(vec![
                Cell::from(constant.name.clone()),
                Cell::from(constant.value.clone()),
                Cell::from(constant.source.clone()),
            ]);
        }
        let assumed = self.constants.iter().filter(|constant| constant.assumed).count();
        let of_them = format!("{assumed} of {} constants are assumptions or choices.", self.constants.len());
        if self.factors.is_empty() {
            let why = "No factor was given; name a factor file with --factors, or --pue, --carbon and --price.";
            return Section::new("factors", "Factors and constants")
                .with_finding(format!("{why} {of_them}"))
                .with_table(constants);
        }
        let mut table = ReportTable::new(
            "Factors used",
            vec![Column::text("Factor"), Column::text("Value"), Column::text("Source")],
        );
        for factor in &self.factors {
            let source = factor.source.clone().unwrap_or_else(|| "not stated".to_owned());
            table.rows.push(vec![
                Cell::from(factor.name.clone()),
                Cell::from(factor.value.clone()),
                Cell::from(source),
            ]);
        }
        let stated = self.factors.iter().filter(|factor| factor.source.is_some()).count();
        let all = self.factors.len() as u64;
        Section::new("factors", "Factors and constants")
            .with_finding(format!("{}, {} with a source. {of_them}", counted(all, "factor", "factors"), stated))
            .with_table(table)
            .with_table(constants)
    }
}

/// Whether some of the energy is covered and some is not.
pub(super) fn partly(covered: Option<f64>) -> bool {
    covered.is_some_and(|covered| covered > 0.0 && covered < 1.0)
}

/// `98.2 % of the energy has a price (12 hours do not)`.
fn covered_words(covered: Option<f64>, without: u64, what: &str) -> String {
    let share = covered.map_or_else(|| "an unknown share".to_owned(), percent);
    if without == 0 {
        return format!("all of the energy has {what}.");
    }
    format!("{share} of the energy has {what}, {} not.", counted(without, "hour does", "hours do"))
}

pub(super) fn carbon_sentence(name: &str, carbon: &Carbon, account: &Account) -> String {
    let Some(kg) = carbon.kg else {
        return format!("{name}: no hour of the audit has a carbon intensity, so there is no figure.");
    };
    let difference = carbon.mean_times_mean_difference.filter(|difference| difference.abs() >= 0.000_5);
    let compared = difference.map_or_else(String::new, |difference| {
        let more = if difference > 0.0 { "more" } else { "less" };
        format!(" Total energy times mean intensity would say {} {more}.", percent(difference.abs()))
    });
    format!(
        "{name}, {} emitted {} of CO₂ equivalent; {}{compared}",
        drawn(account),
        total(account, kg, "kg"),
        covered_words(carbon.covered, carbon.hours_without, "an intensity")
    )
}
