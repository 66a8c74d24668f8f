//! Names of the sensors that measure a node's power, and what they measure: the one home of both.
//!
//! Sensors overlap (`Sys Power` holds `CPU Power`), and some are shared: `Chassis Power` and `PSU Power` read the same on
//! every node of a chassis. So a node's power is that of one sensor, the first of [`MAIN`] it has, and a shared sensor is
//! never summed over nodes. Names are those of the management controllers (IPMI sensor records, `ipmitool dcmi`).
//!
//! O(sensors) for a name. Worked number: `Sys Power` is the first choice, so its rank is 0; `CPU Power` measures a part
//! of a node and has none.

/// The whole node, under the most common name.
pub const SYS_POWER: &str = "Sys Power";

/// The whole node, read over the Data Center Manageability Interface rather than from a sensor record.
pub const DCMI: &str = "DCMI";

/// Sensors that measure a whole node and no more, in order of preference; a sensor without a name comes last.
pub const MAIN: [&str; 7] =
    [SYS_POWER, "System Power", "Total Power", "Node Power", "Pwr Consumption", DCMI, "Instantaneous power reading"];

/// Place of a sensor among the main ones, 0 the first choice; `None` if it does not measure a whole node.
pub fn rank(sensor: Option<&str>) -> Option<usize> {
    match sensor {
        None => Some(MAIN.len()),
        Some(sensor) => MAIN.iter().position(|main| main.eq_ignore_ascii_case(sensor.trim())),
    }
}

/// Whether the nodes of a chassis share a sensor, so that each reports the power of all.
pub fn is_shared(sensor: &str) -> bool {
    sensor.starts_with("Chassis") || sensor == "PSU Power"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nameless_sensor_comes_last_and_a_part_of_a_node_has_no_rank() {
        assert_eq!(rank(Some(" sys power")), Some(0));
        assert_eq!(rank(Some("DCMI")), Some(5));
        assert_eq!((rank(None), rank(Some("CPU Power"))), (Some(7), None));
    }

    #[test]
    fn no_main_sensor_is_shared() {
        assert!(is_shared("Chassis Power") && is_shared("PSU Power") && !is_shared("PSU 1"));
        assert!(!MAIN.into_iter().any(is_shared));
    }
}
