#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use super::*;
use crate::error::Result;
use crate::schema::{CarbonRow, CarbonTable};

fn parse(text: &str) -> Result<Factors> {
    Factors::parse("audit.toml", text, Path::new("/site"), &Zone::utc())
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_file_with_everything_is_understood() {
    let text = r#"
[pue]
value = 1.25
category = 2
period = "annual"
source = "report"
[carbon.location]
file = "grid/de.csv"
zone = "DE"
method = "lca"
[carbon.market]
residual_g_per_kwh = 450
contracts = [{ kind = "ppa", share = 0.6, g_per_kwh = 0 }, { kind = "certificate", share = 0.1, g_per_kwh = 20 }]
[price]
per_kwh = 0.12
currency = "EUR"
add_per_kwh = 0.03
[demand_charge]
per_kw_month = 9.5
interval = "quarter_hour"
timezone = "Europe/Berlin"
[water]
l_per_kwh = 1.8
[embodied]
kg_per_gpu = 150
kg_per_node = 1200
gpus_per_node = 8
lifetime_years = 5
[site]
installed_it_kw = 800
intake_air_c = -2.5
"#;
    let factors = parse(text).unwrap();
    assert_eq!(factors.pue.unwrap().words(), "1.25, category 2 (IT energy at the output of the PDUs), annual");
    let location = factors.location.unwrap();
    assert_eq!((location.values, location.method), (Values::File("/site/grid/de.csv".into()), Method::Lca));
    // 0.6 · 0 + 0.1 · 20 = 2 g; 0.3 are left.
    let (grams, rest) = factors.market.unwrap().covered();
    assert!((grams - 2.0).abs() < 1e-12 && (rest - 0.3).abs() < 1e-12);
    // 150 + 1,200 / 8.
    assert_eq!(factors.embodied.unwrap().kg_per_gpu, 300.0);
    assert_eq!(factors.demand_charge.unwrap().zone.name(), "Europe/Berlin");
    assert_eq!(factors.site.intake_air_c.map(site::Stated::value), Some(-2.5));
    assert_eq!(factors.price.unwrap().add_per_kwh, 0.03);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_mend_it() {
    for (text, line, words) in [
        ("[pue]\nvalue = 0.9\n", 2, "the PUE is 0.9; give a number from 1 to 10"),
        ("[pue]\nvalue = 1.2\ncategory = 4\n", 3, "no PUE category 4"),
        ("[pue]\nvalue = nan\n", 2, "the PUE is NaN"),
        ("\n[carbon.location]\ng_per_kwh = -5\n", 3, "the carbon intensity is -5"),
        ("[carbon.location]\n", 1, "give one of `g_per_kwh`, `file` and `trace = true`"),
        ("[carbon.location]\ng_per_kwh = 3\ntrace = true\n", 1, "in no way, or in several"),
        ("[carbon.location]\ng_per_kwh = 3\nzone = \"DE\"\n", 1, "a constant has none"),
        (
            "[carbon.market]\ncontracts = [{ kind = \"ppa\", share = 0.7, g_per_kwh = 0 }, { kind = \"ppa\", share = 0.4, g_per_kwh = 0 }]\n",
            1,
            "must not add up to more than 1",
        ),
        (
            "[carbon.market]\ncontracts = [{ kind = \"ppa\", share = 0.7, g_per_kwh = 0 }]\n",
            1,
            "the 0.3000 that no contract covers",
        ),
        ("[price]\n", 1, "give `per_kwh` or `file`"),
        (
            "[demand_charge]\nper_kw_month = 9\ninterval = \"hour\"\ntimezone = \"Mars\"\n",
            4,
            "`Mars` is not in the IANA",
        ),
        ("[embodied]\nkg_per_gpu = 1\nkg_per_node = 2\nlifetime_years = 5\n", 3, "give `gpus_per_node`"),
        ("[site]\nname = \"x\"\nstorage_pb = -1\n", 3, "`storage_pb` is -1"),
        ("[pue]\nvalue = 1.2\nvalues = 3\n", 3, "unknown field `values`"),
        ("[pue\n", 1, "audit.toml"),
    ] {
        let result = refusal(text);
        assert!(result.starts_with(&format!("audit.toml, line {line}: ")), "{text}: {result}");
        assert!(result.contains(words), "{text}: {result}");
    }
}

#[test]
fn contracts_that_cover_everything_need_no_residual_mix() {
    let third = "{ kind = \"certificate\", share = 0.3333333333333333, g_per_kwh = 30 }";
    let market = parse(&format!("[carbon.market]\ncontracts = [{third}, {third}, {third}]\n")).unwrap().market.unwrap();
    let (grams, rest) = market.covered();
    assert!((grams - 30.0).abs() < 1e-9);
    assert_eq!(rest, 0.0);
}

#[test]
fn values_within_an_hour_are_averaged_and_hours_without_have_none() {
    let hour = crate::time::HOUR_MS;
    let quarter = hour / 4;
    let series = Hourly::new([(0, 40.0), (quarter, 60.0), (2 * quarter, 80.0), (3 * quarter, 100.0), (2 * hour, 7.0)]);
    assert_eq!((series.at(0), series.at(hour), series.at(2 * hour)), (Some(70.0), None, Some(7.0)));
    assert_eq!((series.len(), series.span()), (Some(2), Some((0, 3 * hour))));
    // Before the epoch, the hour of −1 ms begins at −1 h.
    assert_eq!(Hourly::new([(-1, 5.0)]).at(-hour), Some(5.0));
}

fn grid(zones: &[&str], methods: &[&str]) -> CarbonTable {
    let mut table = CarbonTable::default();
    for zone in zones {
        for method in methods {
            table.push(CarbonRow {
                zone: Some((*zone).into()),
                ts: Some(0),
                g_per_kwh: Some(if *method == "lca" { 130.0 } else { 100.0 }),
                method: Some((*method).into()),
                estimated: Some(false),
            });
        }
    }
    table
}

#[test]
fn zones_must_be_clear_and_a_missing_method_is_told() {
    let both = grid(&["DE"], &["direct", "lca"]);
    assert_eq!(Hourly::carbon(&both, "x", None, Method::Direct).unwrap().at(0), Some(100.0));
    assert_eq!(Hourly::carbon(&both, "x", Some("DE"), Method::Lca).unwrap().at(0), Some(130.0));
    let one = Hourly::carbon(&grid(&["DE"], &["lca"]), "x", None, Method::Direct).unwrap();
    assert_eq!(one.at(0), Some(130.0));
    assert!(one.notes.iter().any(|note| note.contains("There is none that is direct")), "{:?}", one.notes);
    let two = grid(&["DE", "FR"], &["direct"]);
    let why = Hourly::carbon(&two, "x", None, Method::Direct).unwrap_err().to_string();
    assert!(why.contains("DE, FR") && why.contains("--zone"), "{why}");
    let why = Hourly::carbon(&two, "x", Some("ES"), Method::Direct).unwrap_err().to_string();
    assert!(why.contains("no zone `ES`"), "{why}");
    assert!(Hourly::carbon(&CarbonTable::default(), "x", None, Method::Direct).is_err());
}

#[test]
fn a_factor_of_1e308_is_refused_with_its_range() {
    for (text, result, range) in [
        ("[price]\nper_kwh = 1e308", "1e308", "from 0 to 1000000"),
        ("[carbon.location]\ng_per_kwh = 1e308", "1e308", "from 0 to 5000"),
        ("[water]\nl_per_kwh = 1e308", "1e308", "from 0 to 1000"),
        ("[site]\ninstalled_it_kw = 1e308", "`installed_it_kw` is 1e308", "from 0 to 1e15"),
        ("[site]\nintake_air_c = 1e308", "`intake_air_c` is 1e308", "from -100 to 200"),
        ("[site]\nwater_m3 = -1", "`water_m3` is -1", "from 0 to 1e15"),
    ] {
        let why = parse(text).unwrap_err().to_string();
        assert!(why.contains("line 2") && why.contains(result) && why.contains(range), "{why}");
    }
    assert!(parse("[site]\nintake_air_c = -5").is_ok());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("price.csv");
    std::fs::write(&file, "Datetime (UTC),Price (EUR/MWh)\n2020-01-01 00:00:00,40\n2020-01-01 01:00:00,1e308\n")
        .unwrap();
    let why = Hourly::price_file(&file).unwrap_err().to_string();
    assert!(why.contains("line 3") && why.contains("1e308") && why.contains("from -1000000 to 1000000"), "{why}");
    let mut table = grid(&["DE"], &["direct"]);
    table.g_per_kwh.set(0, Some(1e30));
    let why = Hourly::carbon(&table, "x", None, Method::Direct).unwrap_err().to_string();
    assert!(why.contains("1e30 g/kWh at 1970-01-01") && why.contains("from 0 to 5000"), "{why}");
}

#[test]
fn prices_are_read_in_the_unit_of_their_heading_and_may_be_negative() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("price.csv");
    let text = "Datetime (UTC),Datetime (Local),Price (EUR/MWh)\n\
        1970-01-01 00:00:00+00:00,1970-01-01 01:00:00+01:00,-20\n\
        1970-01-01 01:00:00+00:00,1970-01-01 02:00:00+01:00,\n\
        1970-01-01 03:00:00+01:00,1970-01-01 03:00:00+01:00,50\n";
    std::fs::write(&file, text).unwrap();
    let (series, currency) = Hourly::price_file(&file).unwrap();
    assert_eq!(currency, "EUR");
    // −20 EUR/MWh; no value; 03:00 at +01:00 is 02:00 UTC.
    let hour = crate::time::HOUR_MS;
    assert_eq!((series.at(0), series.at(hour), series.at(2 * hour)), (Some(-0.02), None, Some(0.05)));
    assert!(series.notes.iter().any(|note| note.starts_with("1 of 3 rows")), "{:?}", series.notes);
    std::fs::write(&file, "time,price\n0,1\n").unwrap();
    let why = Hourly::price_file(&file).unwrap_err().to_string();
    assert!(why.contains("line 1") && why.contains("Price (EUR/MWh)"), "{why}");
}

proptest::proptest! {
    /// Whatever the text: an answer or a refusal that names the file, never a panic.
    #[test]
    fn any_text_is_understood_or_refused(text in "(\\[(pue|price|carbon\\.(location|market)|meter|site)\\]|[a-z_]+ = ([0-9.eE+-]{1,6}|nan|inf|\"[a-zé]*\")|[\\[\\]{}=\"\n#])(\n[a-z_]+ = [0-9.-]{1,5})?{0,4}") {
        if let Err(error) = parse(&text) {
            proptest::prop_assert!(error.to_string().starts_with("audit.toml, line "), "{error}");
        }
    }
}
