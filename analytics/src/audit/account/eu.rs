//! Fields that operators of data centres of 500 kW and more report under Article 12 and Annex VII
//! of Directive (EU) 2023/1791 and Annexes I to III of Delegated Regulation (EU) 2024/1364, filled
//! as far as the audit and the stated site data go.
//!
//! Energy is of the audited window and not of a calendar year: a report needs the year. Indicators of Annex III: PUE = E_DC / E_IT,
//! WUE = W_IN / E_IT, ERF = E_REUSE / E_DC, REF = E_RES-TOT / E_DC. Where E_DC is stated, PUE is computed from it and from E_IT as audited.
//!
//! Worked number: E_IT 40 kWh and a PUE of 1.25 make E_DC 50 kWh; 20 kWh from certificates and 5 kWh from a roof are REF 25 / 50 = 0.5.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Bounded, WaterFigure};
use crate::audit::factors::Site;
use crate::audit::factors::site::Stated;
use crate::report::format::percent;
use crate::time::DAY_MS;

/// Installed IT power from which reporting is due, kW.
const DUE_FROM_KW: f64 = 500.0;
/// Milliseconds in 365 days.
const YEAR_MS: i64 = 365 * DAY_MS;

/// Origin of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldBasis {
    /// Result of this audit.
    Audited,
    /// Computed from audited and stated values.
    Computed,
    /// Stated in the factor file.
    Stated,
    /// Unknown.
    Missing,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EuField {
    /// Symbol, where the regulation gives one.
    pub symbol: Option<String>,
    /// Name of the field.
    pub name: String,
    /// The number.
    pub value: Option<f64>,
    /// The text, for what is no number.
    pub text: Option<String>,
    /// Unit of the number.
    pub unit: Option<String>,
    /// Origin of the value.
    pub basis: FieldBasis,
    /// Caveat on the value.
    pub note: Option<String>,
}

fn text(name: &str, value: Option<&String>) -> EuField {
    EuField {
        symbol: None,
        name: name.to_owned(),
        value: None,
        text: value.cloned(),
        unit: None,
        basis: if value.is_some() { FieldBasis::Stated } else { FieldBasis::Missing },
        note: None,
    }
}

fn number(symbol: &str, name: &str, unit: &str, value: Option<f64>, basis: FieldBasis) -> EuField {
    EuField {
        symbol: Some(symbol.to_owned()),
        name: name.to_owned(),
        value,
        text: None,
        unit: Some(unit.to_owned()),
        basis: if value.is_some() { basis } else { FieldBasis::Missing },
        note: None,
    }
}

/// Returns all fields, in the order of the annexes.
pub(super) fn fields(
    site: &Site,
    energy: Bounded,
    pue: Option<f64>,
    water: Option<&WaterFigure>,
    (from_ms, to_ms): (i64, i64),
) -> Vec<EuField> {
    use FieldBasis::{Audited, Computed, Stated as AsStated};
    let stated = |value: Option<Stated>| value.map(Stated::value);
    let declared = |symbol, name, unit, value| number(symbol, name, unit, stated(value), AsStated);
    let over = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);

    let it_kwh = energy.value;
    let part = (to_ms - from_ms < YEAR_MS)
        .then_some("of the audited window, which is less than the calendar year that a report covers");
    let share = if it_kwh > 0.0 { energy.modelled / it_kwh } else { 0.0 };
    let modelled = (share > 0.0).then(|| format!("{} of it modelled and not metered", percent(share)));
    let said: Vec<String> = part.map(str::to_owned).into_iter().chain(modelled).collect();
    let window = (!said.is_empty()).then(|| said.join("; "));
    let facility = stated(site.facility_kwh);
    let (e_dc, e_dc_basis) = match (facility, pue) {
        (Some(metered), _) => (Some(metered), AsStated),
        (None, Some(pue)) => (Some(it_kwh * pue), Computed),
        (None, None) => (None, Computed),
    };
    let effective_pue = if facility.is_some() { over(e_dc, Some(it_kwh)) } else { pue };
    let pue_basis = if facility.is_some() { Computed } else { AsStated };
    let (water_m3, water_basis) = match (stated(site.water_m3), water) {
        (Some(metered), _) => (Some(metered), AsStated),
        (None, water) => (water.map(|water| water.litres.value / 1_000.0), Computed),
    };
    let renewable = [site.renewable_guarantees_kwh, site.renewable_ppa_kwh, site.renewable_on_site_kwh];
    let renewable_kwh =
        renewable.iter().any(Option::is_some).then(|| renewable.iter().flatten().map(|part| part.value()).sum::<f64>());
    let noted = |mut field: EuField| {
        field.note.clone_from(&window);
        field
    };

    let mut installed = declared("PD_IT", "Installed IT power demand", "kW", site.installed_it_kw);
    installed.note = installed.value.map(|kw| {
        let due = if kw >= DUE_FROM_KW { "reporting is due" } else { "reporting is not due below 500 kW" };
        due.to_owned()
    });
    vec![
        text("Name of the data centre", site.name.as_ref()),
        text("Owner", site.owner.as_ref()),
        text("Operator", site.operator.as_ref()),
        text("Location (municipality or LAU code)", site.location.as_ref()),
        text("Type (enterprise, colocation, co-hosting)", site.kind.as_ref()),
        text("In operation since", site.in_operation_since.as_ref()),
        text("Redundancy", site.redundancy.as_ref()),
        installed,
        declared("S_DC", "Floor area", "m²", site.floor_area_m2),
        declared("S_CR", "Computer room floor area", "m²", site.computer_room_area_m2),
        noted(number("E_DC", "Total energy consumption", "kWh", e_dc, e_dc_basis)),
        noted(number("E_IT", "Energy consumption of IT equipment", "kWh", Some(it_kwh), Audited)),
        text("Electrical grid functions", site.grid_functions.as_ref()),
        declared("C_BtG", "Battery capacity for the grid", "kW", site.battery_kw),
        noted(number("W_IN", "Total water input", "m³", water_m3, water_basis)),
        declared("W_IN-POT", "Of this potable water", "m³", site.potable_water_m3),
        declared("E_REUSE", "Waste heat reused", "kWh", site.waste_heat_reused_kwh),
        declared("T_WH", "Temperature of waste heat", "°C", site.waste_heat_c),
        declared("T_IN", "Setpoint of intake air", "°C", site.intake_air_c),
        text("Refrigerants", site.refrigerants.as_ref()),
        declared("CDD", "Cooling degree days", "degree days", site.cooling_degree_days),
        number("E_RES-TOT", "Renewable energy", "kWh", renewable_kwh, Computed),
        declared("E_RES-GOO", "Of this from guarantees of origin", "kWh", site.renewable_guarantees_kwh),
        declared("E_RES-PPA", "Of this from power purchase agreements", "kWh", site.renewable_ppa_kwh),
        declared("E_RES-OS", "Of this made on site", "kWh", site.renewable_on_site_kwh),
        declared("C_SERV", "Capacity of servers", "SERT", site.server_capacity),
        declared("C_STOR", "Capacity of storage", "PB", site.storage_pb),
        declared("B_IN", "Bandwidth of incoming traffic", "Gbit/s", site.incoming_gbit_s),
        declared("B_OUT", "Bandwidth of outgoing traffic", "Gbit/s", site.outgoing_gbit_s),
        declared("T_IN (traffic)", "Incoming traffic", "EB", site.incoming_eb),
        declared("T_OUT (traffic)", "Outgoing traffic", "EB", site.outgoing_eb),
        number("PUE", "Power usage effectiveness", "1", effective_pue, pue_basis),
        number("WUE", "Water usage effectiveness", "m³/kWh", over(water_m3, Some(it_kwh)), Computed),
        number("ERF", "Energy reuse factor", "1", over(stated(site.waste_heat_reused_kwh), e_dc), Computed),
        number("REF", "Renewable energy factor", "1", over(renewable_kwh, e_dc), Computed),
    ]
}
