#![allow(clippy::unwrap_used)]

use super::*;
use crate::audit::factors::{Embodied, Factors, Market, Pue};
use crate::energy::ledger::{JobEnergy, Owner};
use crate::time::Zone;

fn near(result: f64, wanted: f64) {
    assert!((result - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{result} is not {wanted}");
}

fn entry(hour: i64, spent_on: Use, owner: Option<u32>, kwh: f64) -> EnergyEntry {
    EnergyEntry {
        hour_ms: hour * HOUR_MS,
        spent_on,
        owner,
        basis: Basis::Power,
        energy_j: kwh * KWH_J,
        lower_j: kwh * KWH_J,
        upper_j: kwh * KWH_J,
    }
}

/// 10 kWh in the first hour, 30 kWh in the second. Hour 0: a 6 (4 active, 1 idle, 1 overhead), nobody 4. Hour 1: b 30, of which 10 are a
/// model's with bounds 5 and 20.
fn ledger() -> EnergyLedger {
    let mut entries = vec![
        entry(0, Use::Active, Some(0), 4.0),
        entry(0, Use::IdleAllocated, Some(0), 1.0),
        entry(0, Use::Overhead, Some(0), 1.0),
        entry(0, Use::IdleUnallocated, None, 5.0),
        entry(0, Use::Residual, None, -1.0),
        entry(1, Use::Active, Some(1), 20.0),
    ];
    entries.push(EnergyEntry {
        basis: Basis::Model,
        lower_j: 5.0 * KWH_J,
        upper_j: 20.0 * KWH_J,
        ..entry(1, Use::Active, Some(1), 10.0)
    });
    let owner = |vc: &str, user: &str| Owner { vc: Some(vc.into()), user: Some(user.into()) };
    let job = |key: &str, owner: u32, active: f64, idle: f64, overhead: f64| JobEnergy {
        job_key: key.into(),
        owner: Some(owner),
        active_j: active * KWH_J,
        idle_j: idle * KWH_J,
        overhead_j: overhead * KWH_J,
        unsplit_j: 0.0,
        modelled_j: 0.0,
        gpu_s: 3_600.0,
        coverage_ratio: Some(1.0),
    };
    EnergyLedger {
        from_ms: 0,
        to_ms: 2 * HOUR_MS,
        owners: vec![owner("red", "a"), owner("blue", "b")],
        entries,
        jobs: vec![job("1", 0, 4.0, 1.0, 1.0), job("2", 1, 10.0, 0.0, 0.0), job("3", 1, 20.0, 0.0, 0.0)],
        metered_j: Some(40.0 * KWH_J),
        total_j: 40.0 * KWH_J,
        coverage_ratio: Some(0.9),
        gpu_hours: 40.0,
        allocated_gpu_hours: 32.0,
        ..EnergyLedger::default()
    }
}

#[allow(clippy::unnecessary_wraps)] // as the fields take it
fn hours(values: &[(i64, f64)]) -> Option<Hourly> {
    Some(Hourly::new(values.iter().map(|(hour, value)| (hour * HOUR_MS, *value))))
}

#[allow(clippy::unnecessary_wraps)] // as the field takes it
fn pue(value: f64) -> Option<Pue> {
    Some(Pue { value, category: None, period: None, source: None })
}

#[test]
fn carbon_is_the_sum_over_hours_and_not_the_product_of_means() {
    let loaded = Loaded { intensity: hours(&[(0, 100.0), (1, 500.0)]), ..Loaded::default() };
    let account = account(&ledger(), &loaded);
    let carbon = account.location.unwrap();
    // 10 · 100 + 30 · 500 = 16,000 g. At least 10 · 100 + 25 · 500 = 13,500 g, at most 10 · 100 + 40 · 500 = 21,000 g.
    near(carbon.kg.unwrap().value, 16.0);
    near(carbon.kg.unwrap().lower, 13.5);
    near(carbon.kg.unwrap().upper, 21.0);
    near(carbon.mean_g_per_kwh.unwrap(), 400.0);
    // 40 · 300 = 12,000 g: a quarter less.
    near(carbon.mean_times_mean_kg.unwrap(), 12.0);
    near(carbon.mean_times_mean_difference.unwrap(), -0.25);
    assert_eq!((carbon.covered, carbon.hours_without), (Some(1.0), 0));
}

#[test]
fn an_hour_without_a_factor_is_not_covered_and_not_zero() {
    let loaded = Loaded {
        intensity: hours(&[(0, 100.0)]),
        price: hours(&[(1, 0.2)]),
        factors: Factors { pue: pue(1.25), ..Factors::default() },
        ..Loaded::default()
    };
    let account = account(&ledger(), &loaded);
    let carbon = account.location.unwrap();
    // 10 · 1.25 · 100 g; 30 · 1.25 kWh are not covered.
    near(carbon.kg.unwrap().value, 1.25);
    near(carbon.uncovered_kwh, 37.5);
    near(carbon.covered.unwrap(), 0.25);
    assert_eq!(carbon.hours_without, 1);
    // a has energy in the hour that is covered, b in the other alone.
    let of = |vc: &str| account.by_vc.iter().find(|line| line.vc.as_deref() == Some(vc)).unwrap().clone();
    near(of("red").location_kg.unwrap(), 0.75);
    assert_eq!((of("red").location_covered, of("red").cost), (Some(1.0), None));
    assert_eq!((of("blue").location_kg, of("blue").location_covered), (None, Some(0.0)));
    let cost = account.cost.unwrap();
    near(cost.energy.unwrap().value, 7.5);
    near(cost.covered.unwrap(), 0.75);
    let line = |hour: usize| (account.by_hour[hour].location_kg, account.by_hour[hour].cost);
    assert_eq!((line(0).1, line(1).0), (None, None));
    // A price that no hour has: the cost of nothing is not told as the cost of everything.
    let other = super::account(&ledger(), &Loaded { price: hours(&[(7, 1.0)]), ..Loaded::default() });
    let cost = other.cost.unwrap();
    assert_eq!((cost.covered, cost.mean_per_kwh, cost.hours_without), (Some(0.0), None, 2));
    assert_eq!((cost.energy, cost.total), (None, None));
    assert!(other.by_vc.iter().all(|line| line.cost.is_none()));
    // Less than half of the energy has an intensity, so there is no SCI.
    assert!(account.missing.iter().any(|missing| missing.why.contains("less than half")));
}

#[test]
fn owners_and_nobody_add_up_to_the_total_of_every_figure() {
    // Awkward numbers, so that an exact sum would be luck.
    let mut ledger = ledger();
    for (ix, entry) in ledger.entries.iter_mut().enumerate() {
        let change = 1.0 + 0.1 / (ix as f64 + 3.0);
        entry.energy_j *= change;
    }
    ledger.total_j = ledger.entries.iter().map(|entry| entry.energy_j).collect::<NeumaierSum>().value();
    let loaded = Loaded {
        intensity: hours(&[(0, 123.4), (1, 517.3)]),
        price: hours(&[(0, -0.017), (1, 0.2113)]),
        factors: Factors {
            pue: pue(1.37),
            market: Some(Market { residual_g_per_kwh: Some(433.3), ..Market::default() }),
            demand_charge: Some(charge()),
            ..Factors::default()
        },
        ..Loaded::default()
    };
    let account = account(&ledger, &loaded);
    for lines in [&account.by_vc, &account.by_user] {
        let sum = |of: fn(&Charge) -> f64| lines.iter().map(of).sum::<f64>();
        let relative = |result: f64, wanted: f64| assert!((result / wanted - 1.0).abs() < 1e-9, "{result} {wanted}");
        relative(sum(|line| line.energy_kwh.value), ledger.total_j / KWH_J);
        relative(sum(|line| line.facility_kwh.unwrap()), account.facility_kwh.unwrap().value);
        relative(sum(|line| line.location_kg.unwrap()), account.location.as_ref().unwrap().kg.unwrap().value);
        relative(sum(|line| line.market_kg.unwrap()), account.market.as_ref().unwrap().kg.unwrap().value);
        relative(sum(|line| line.cost.unwrap()), account.cost.as_ref().unwrap().total.unwrap());
        assert!(lines.last().unwrap().nobody && lines.iter().filter(|line| line.nobody).count() == 1);
    }
    assert!(account.conservation.owners_relative.unwrap().abs() < 1e-9);
    assert!(account.conservation.uses_relative.unwrap().abs() < 1e-9);
}

fn charge() -> crate::audit::factors::DemandCharge {
    crate::audit::factors::DemandCharge {
        per_kw_month: 9.0,
        interval: crate::audit::factors::Interval::Hour,
        zone: Zone::utc(),
        source: None,
    }
}

#[test]
fn cost_is_energy_by_the_hour_and_the_peak_of_the_month() {
    let loaded = Loaded {
        price: hours(&[(0, 0.1), (1, 0.2)]),
        currency: Some("EUR".into()),
        factors: Factors { demand_charge: Some(charge()), ..Factors::default() },
        ..Loaded::default()
    };
    let account = account(&ledger(), &loaded);
    let cost = account.cost.unwrap();
    // 10 · 0.1 + 30 · 0.2 = 7. The peak is 30 kW; January 1970 has 744 h: 30 · 9 · 2 / 744.
    let demand = 30.0 * 9.0 * 2.0 / 744.0;
    near(cost.energy.unwrap().value, 7.0);
    near(cost.demand.unwrap(), demand);
    near(cost.total.unwrap(), 7.0 + demand);
    assert_eq!((cost.months[0].month.as_str(), cost.months[0].peak_hour_ms), ("1970-01", HOUR_MS));
    assert!(cost.demand_is_lower_bound, "two hours are not the month");
    // Only b drew power in the peak hour.
    let blue = account.by_vc.iter().find(|line| line.vc.as_deref() == Some("blue")).unwrap();
    near(blue.cost.unwrap(), 6.0 + demand);
    let red = account.by_vc.iter().find(|line| line.vc.as_deref() == Some("red")).unwrap();
    near(red.cost.unwrap(), 0.6);
    // Jobs of b: 10 and 20 of its 30 kWh.
    let job = account.jobs.iter().find(|job| job.job_key == "2").unwrap();
    near(job.cost.unwrap(), (6.0 + demand) / 3.0);
    near(account.conservation.jobs_difference_kwh, 0.0);
}

#[test]
fn months_are_those_of_the_tariffs_zone() {
    let zone = Zone::named("Asia/Shanghai").unwrap();
    let mut ledger = ledger();
    // 1970-01-31 15:00 UTC is still January in Shanghai (23:00), 16:00 UTC is February.
    let begin = (30 * 24 + 15) * HOUR_MS;
    for entry in &mut ledger.entries {
        entry.hour_ms += begin;
    }
    (ledger.from_ms, ledger.to_ms) = (begin, begin + 2 * HOUR_MS);
    let demand = crate::audit::factors::DemandCharge { zone, ..charge() };
    let loaded = Loaded { factors: Factors { demand_charge: Some(demand), ..Factors::default() }, ..Loaded::default() };
    let cost = account(&ledger, &loaded).cost.unwrap();
    let months: Vec<(&str, f64)> = cost.months.iter().map(|month| (month.month.as_str(), month.peak_kw)).collect();
    assert_eq!(months, [("1970-01", 10.0), ("1970-02", 30.0)]);
    // One hour of 744 and one of 672.
    near(cost.demand.unwrap(), 10.0 * 9.0 / 744.0 + 30.0 * 9.0 / 672.0);
}

#[test]
fn market_based_mixes_contracts_and_residual_or_the_grid() {
    let contract = crate::audit::factors::Contract {
        kind: crate::audit::factors::ContractKind::Ppa,
        share: 0.6,
        g_per_kwh: 0.0,
        source: None,
    };
    let market = Market { contracts: vec![contract], residual_g_per_kwh: Some(450.0), ..Market::default() };
    let of = |market: Market, intensity: Option<Hourly>| {
        let loaded =
            Loaded { intensity, factors: Factors { market: Some(market), ..Factors::default() }, ..Loaded::default() };
        account(&ledger(), &loaded)
    };
    // 40 kWh · 180 g.
    near(of(market.clone(), None).market.unwrap().kg.unwrap().value, 7.2);
    // The rest at the grid: 0.4 · 16 kg.
    let grid = Market { residual_g_per_kwh: None, rest_as_location: true, ..market };
    near(of(grid.clone(), hours(&[(0, 100.0), (1, 500.0)])).market.unwrap().kg.unwrap().value, 6.4);
    let none = of(grid, None);
    assert!(none.market.is_none() && none.missing.iter().any(|missing| missing.figure == "Market-based carbon"));
}

#[test]
fn sci_adds_embodied_carbon_and_bounds_what_it_extrapolates() {
    let embodied = Embodied { kg_per_gpu: 175.32, lifetime_years: 5.0, source: None };
    let factors = Factors { embodied: Some(embodied), ..Factors::default() };
    let full = Loaded { intensity: hours(&[(0, 100.0), (1, 500.0)]), factors: factors.clone(), ..Loaded::default() };
    let sci = account(&ledger(), &full).sci.unwrap();
    // 40 GPU hours · 175.32 / 43,830 = 0.16 kg; (16 + 0.16) kg / 32 = 505 g.
    near(sci.embodied_kg.unwrap(), 0.16);
    near(sci.g_per_gpu_hour.value, 505.0);
    near(sci.g_per_gpu_hour_seen.unwrap(), 404.0);
    // Without the first hour (a quarter of the energy): 30 · 500 g, and 10 kWh at the same 500 g.
    let sci =
        account(&ledger(), &Loaded { intensity: hours(&[(1, 500.0)]), factors, ..Loaded::default() }).sci.unwrap();
    near(sci.operational_kg.value, 20.0);
    near(sci.extrapolated, 0.25);
}

#[test]
fn fields_of_the_regulation_are_computed_or_missing_and_never_zero() {
    let text = "[pue]\nvalue = 1.25\n[water]\nl_per_kwh = 2\n[site]\nname = \"North\"\ninstalled_it_kw = 800\nrenewable_guarantees_kwh = 20\nrenewable_on_site_kwh = 5\n";
    let factors = Factors::parse("a", text, std::path::Path::new(""), &Zone::utc()).unwrap();
    let account = account(&ledger(), &Loaded { factors, ..Loaded::default() });
    let of = |symbol: &str| account.eu.iter().find(|field| field.symbol.as_deref() == Some(symbol)).unwrap().clone();
    near(of("E_DC").value.unwrap(), 50.0);
    near(of("E_IT").value.unwrap(), 40.0);
    near(of("REF").value.unwrap(), 0.5);
    // 40 kWh · 2 L = 80 L = 0.08 m³.
    near(of("W_IN").value.unwrap(), 0.08);
    near(of("WUE").value.unwrap(), 0.002);
    assert_eq!((of("ERF").value, of("ERF").basis), (None, eu::FieldBasis::Missing));
    assert!(of("PD_IT").note.unwrap().contains("is due"));
    assert!(of("E_IT").note.unwrap().contains("less than the calendar year"));
    near(account.water.unwrap().litres.value, 80.0);
}

#[test]
fn without_factors_energy_stands_and_every_other_figure_says_what_it_lacks() {
    let account = account(&ledger(), &Loaded::default());
    near(account.it_kwh.value, 40.0);
    near(account.it_kwh.lower, 35.0);
    near(account.it_kwh.upper, 50.0);
    assert!(account.facility_kwh.is_none() && account.location.is_none() && account.cost.is_none());
    let figures: Vec<&str> = account.missing.iter().map(|missing| missing.figure.as_str()).collect();
    assert_eq!(
        figures,
        [
            "Facility energy",
            "Market-based carbon",
            "Location-based carbon",
            "Cost of energy",
            "SCI per GPU hour",
            "Water"
        ]
    );
    near(account.conservation.meter_difference_kwh.unwrap(), 0.0);
    let model = account.by_basis.iter().find(|line| line.basis == Basis::Model).unwrap();
    near(model.share.unwrap(), 0.25);
    // b: 20 of 30 kWh are measured; nobody: all of 5 + |−1|.
    let measured = |at: usize| account.by_vc[at].measured.unwrap();
    near(measured(0), 2.0 / 3.0);
    near(measured(2), 1.0);
    let active = account.by_use.iter().find(|line| line.spent_on == Use::Active).unwrap();
    near(active.measured.unwrap(), 24.0 / 34.0);
    let residual = account.by_use.iter().find(|line| line.spent_on == Use::Residual).unwrap();
    near(residual.energy_kwh.value, -1.0);
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn any_entry() -> impl Strategy<Value = EnergyEntry> {
        let uses = prop::sample::select(vec![
            Use::Active,
            Use::IdleAllocated,
            Use::IdleUnallocated,
            Use::Overhead,
            Use::Residual,
        ]);
        let owner = prop::option::of(0_u32..4);
        (0_i64..50, uses, owner, 0.0..1e9_f64, 0.0..1.0_f64, 0.0..1e6_f64).prop_map(
            |(hour, spent_on, owner, joules, lower, more)| {
                let sign = if spent_on == Use::Residual { -0.3 } else { 1.0 };
                let (lower_j, upper_j) = (joules * lower, joules + more);
                let (lower_j, upper_j) = if sign < 0.0 { (upper_j * sign, lower_j * sign) } else { (lower_j, upper_j) };
                EnergyEntry { energy_j: joules * sign, lower_j, upper_j, ..entry(hour, spent_on, owner, 0.0) }
            },
        )
    }

    proptest! {
        /// Whatever the ledger and however few hours have factors: owners and nobody add up to every figure, and bounds hold it.
        #[test]
        fn parts_add_up_and_bounds_hold(
            entries in prop::collection::vec(any_entry(), 1..200),
            grams in prop::collection::btree_map(0_i64..50, 0.0..1_500.0_f64, 0..50),
            prices in prop::collection::btree_map(0_i64..50, -0.5..2.0_f64, 0..50),
            ratio in 1.0..3.0_f64,
        ) {
            let total_j = entries.iter().map(|entry| entry.energy_j).collect::<NeumaierSum>().value();
            let size = entries.iter().map(|entry| entry.energy_j.abs()).sum::<f64>() / KWH_J;
            // Owner 3 is none of the list, and so nobody.
            let owners = (0..3).map(|at| Owner { vc: Some(format!("v{}", at % 2)), user: None }).collect();
            let ledger = EnergyLedger { to_ms: 50 * HOUR_MS, owners, entries, total_j, ..EnergyLedger::default() };
            let series = |map: std::collections::BTreeMap<i64, f64>| Some(Hourly::new(map.into_iter().map(|(hour, value)| (hour * HOUR_MS, value))));
            let factors = Factors { pue: pue(ratio), demand_charge: Some(charge()), ..Factors::default() };
            let loaded = Loaded { factors, intensity: series(grams), price: series(prices), currency: None };
            let account = account(&ledger, &loaded);
            let sum = |of: &dyn Fn(&Charge) -> f64| account.by_user.iter().map(of).sum::<f64>();
            let close = |result: f64, wanted: f64, scale: f64| (result - wanted).abs() <= 1e-9 * scale.max(1e-3);
            prop_assert!(close(sum(&|line| line.energy_kwh.value), total_j / KWH_J, size));
            let carbon = account.location.unwrap();
            prop_assert!(close(sum(&|line| line.location_kg.unwrap_or(0.0)), carbon.kg.map_or(0.0, |kg| kg.value), size * ratio * 1.5));
            prop_assert!(close(carbon.covered_kwh + carbon.uncovered_kwh, account.it_kwh.value * ratio, size * ratio));
            let cost = account.cost.unwrap();
            // Where an hour's parts cancel, its peak is shared by tiny divisors; nobody's charge is then large and the owners' opposite.
            let scale = account.by_user.iter().map(|line| line.cost.unwrap().abs()).sum::<f64>() + cost.total.unwrap().abs();
            prop_assert!(close(sum(&|line| line.cost.unwrap()), cost.total.unwrap(), scale));
            let slack = 1e-9 * size * ratio * 2.0;
            for amount in [Some(account.it_kwh), carbon.kg, cost.energy].into_iter().flatten() {
                prop_assert!(amount.lower <= amount.value + slack && amount.value <= amount.upper + slack, "{amount:?}");
            }
        }
    }
}
