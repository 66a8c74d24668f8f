//! Facts on a site, beside its energy, that it reports to the European database on data centres.
//!
//! Symbols and units are those of Annex II of Delegated Regulation (EU) 2024/1364.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

/// A number with where it stands in its file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Stated {
    value: f64,
    #[serde(skip)]
    at: usize,
}

impl<'de> Deserialize<'de> for Stated {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = Spanned::<f64>::deserialize(from)?;
        Ok(Self { value: *number.get_ref(), at: number.span().start })
    }
}

/// Range of a site's number. More than 10¹⁵ of anything listed is a mistake; temperatures are those
/// of air and water on Earth.
pub(super) fn range(name: &str) -> (f64, f64) {
    if name.ends_with("_c") { (-100.0, 200.0) } else { (0.0, 1e15) }
}

macro_rules! site {
    ($( $(#[$text_doc:meta])* $text:ident, )* ; $( $(#[$doc:meta])* $number:ident, )*) => {
        /// Facts of the site, each as it was stated.
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Site {
            $( $(#[$text_doc])* pub $text: Option<String>, )*
            $( $(#[$doc])* pub $number: Option<Stated>, )*
        }

        impl Site {
            /// The first number that cannot be: its key, where it stands, and what it is. Temperatures may be negative.
            pub(super) fn wrong(&self) -> Option<(&'static str, usize, f64)> {
                $(
                    if let Some(stated) = self.$number {
                        let name = stringify!($number);
                        let (least, most) = range(name);
                        if !(least..=most).contains(&stated.value) {
                            return Some((name, stated.at, stated.value));
                        }
                    }
                )*
                None
            }
        }
    };
}

site! {
    /// Name of the data centre.
    name,
    /// Owner.
    owner,
    /// Operator.
    operator,
    /// Municipality or its LAU code.
    location,
    /// Enterprise, colocation or co-hosting.
    kind,
    /// Date of the beginning of operation.
    in_operation_since,
    /// Redundancy of its infrastructure.
    redundancy,
    /// Refrigerants in use.
    refrigerants,
    /// Services to the electrical grid.
    grid_functions,
    /// Source of these facts.
    source,
    ;
    /// PD_IT: installed information technology power demand, kW.
    installed_it_kw,
    /// S_DC: floor area, m².
    floor_area_m2,
    /// S_CR: computer room floor area, m².
    computer_room_area_m2,
    /// E_DC: energy of the data centre over the window as metered, kWh; else it is IT energy times PUE.
    facility_kwh,
    /// C_BtG: battery capacity for the grid, kW.
    battery_kw,
    /// W_IN: water input over the window, m³; else it is IT energy times WUE.
    water_m3,
    /// W_IN-POT: of this potable, m³.
    potable_water_m3,
    /// E_REUSE: waste heat reused, kWh.
    waste_heat_reused_kwh,
    /// T_WH: temperature of waste heat, °C.
    waste_heat_c,
    /// T_IN: setpoint of intake air of IT equipment, °C.
    intake_air_c,
    /// CDD: cooling degree days, degree-days.
    cooling_degree_days,
    /// E_RES-GOO: renewable energy from guarantees of origin, kWh.
    renewable_guarantees_kwh,
    /// E_RES-PPA: renewable energy from power purchase agreements, kWh.
    renewable_ppa_kwh,
    /// E_RES-OS: renewable energy from the site, kWh.
    renewable_on_site_kwh,
    /// C_SERV: capacity of servers, SERT active state performance.
    server_capacity,
    /// C_STOR: capacity of storage, petabytes.
    storage_pb,
    /// B_IN: bandwidth of incoming traffic, gigabits a second.
    incoming_gbit_s,
    /// B_OUT: bandwidth of outgoing traffic, gigabits a second.
    outgoing_gbit_s,
    /// T_IN: incoming traffic, exabytes.
    incoming_eb,
    /// T_OUT: outgoing traffic, exabytes.
    outgoing_eb,
}

impl Stated {
    /// The number.
    pub fn value(self) -> f64 {
        self.value
    }
}
