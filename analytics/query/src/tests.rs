//! Questions worked out by hand, the mask of a condition, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use tracecast_analytics::schema::{JobRow, NodeRow};
use tracecast_analytics::time::parse_with_offset;

/// Two jobs of the module's worked number, and one of which little is known.
fn trace() -> Trace {
    let mut trace = Trace { zone: "America/Los_Angeles".to_owned(), ..Trace::default() };
    for (key, vc, gpus, run_s, submit) in [
        ("a", Some("x"), Some(8.0), Some(1_800.0), "2017-10-06T16:30:00Z"),
        ("b", Some("y"), Some(1.0), Some(3_600.0), "2017-10-07T06:59:59Z"),
        ("c", None, None, None, "2017-10-07T07:00:00Z"),
    ] {
        let submit = parse_with_offset(submit);
        trace.jobs.push(JobRow {
            job_key: Some(key.into()),
            vc: vc.map(Into::into),
            alloc_gpus: gpus,
            run_s,
            submit,
            start: submit,
            end: submit.zip(run_s).map(|(submit, run_s)| submit + (run_s * 1e3) as i64),
            ..JobRow::default()
        });
    }
    trace.nodes.push(NodeRow { node: Some("n1".into()), gpus: Some(8.0), ..NodeRow::default() });
    trace
}

fn ask(sql: &str) -> String {
    let mut csv = Vec::new();
    Tables::of_trace(trace()).unwrap().ask(sql).unwrap().write_csv(&mut csv).unwrap();
    String::from_utf8(csv).unwrap()
}

fn refusal(sql: &str) -> String {
    Tables::of_trace(trace()).unwrap().ask(sql).unwrap_err().to_string()
}

#[test]
fn the_worked_number() {
    assert_eq!(
        ask("select sum(gpu_hours) as h, count(gpus) as known, count(*) as n from job_facts"),
        "h,known,n\n5.0,2,3\n"
    );
}

#[test]
fn days_begin_at_midnight_of_the_zone() {
    // 06:59:59 UTC is still the 6th in Los Angeles.
    assert_eq!(ask("select job_key from jobs where submit >= '2017-10-07'"), "job_key\nc\n");
    assert_eq!(
        ask("select job_key, submit from jobs where submit < '2017-10-06 10:00:00'"),
        "job_key,submit\na,2017-10-06T09:30:00-07:00\n"
    );
    assert_eq!(
        ask("select submit_date, count(*) as n from job_facts group by submit_date"),
        "submit_date,n\n2017-10-06,2\n2017-10-07,1\n"
    );
    assert_eq!(ask("select job_key, \"end\" - start as s from jobs where job_key = 'a'"), "job_key,s\na,1800.0\n");
}

#[test]
fn groups_come_in_one_order_and_unknown_is_one_of_them() {
    assert_eq!(ask("select vc, count(*) as n from job_facts group by vc order by n desc"), "vc,n\nx,1\ny,1\n,1\n");
    assert_eq!(ask("select distinct state from job_facts"), "state\nunknown\n");
    assert_eq!(ask("SELECT count(*) AS n FROM Job_Facts;"), "n\n3\n");
    assert_eq!(ask("select job_key from jobs order by job_key desc limit 1"), "job_key\nc\n");
    assert_eq!(
        ask("with few as (select * from job_facts order by job_key limit 2) select count(*) from few"),
        "count\n2\n"
    );
}

#[test]
fn an_empty_table_has_its_columns() {
    assert_eq!(ask("select node, util_ratio from gpu_samples"), "node,util_ratio\n");
    assert_eq!(ask("select node, gpus from nodes"), "node,gpus\nn1,8.0\n");
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(refusal("select nothing from jobs").contains("nothing"));
    assert!(refusal("select * from job").contains("there are job_facts, jobs"));
    assert!(refusal("select vc, vc from jobs").contains("another name with AS"));
    assert!(refusal("select date_trunc('week', submit) from jobs").contains("submit_week"));
    assert!(
        refusal("select job_key, array_agg(gpus) as all_gpus from job_facts group by job_key").contains("all_gpus")
    );
    assert!(matches!(
        Tables::of_trace(trace()).unwrap().ask("select sum(vc) over from jobs"),
        Err(Error::Query { .. })
    ));
}

#[test]
fn only_the_columns_that_are_asked_for_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    storage::save(&trace(), &path).unwrap();
    let tables = Tables::of_folder(&path, None).unwrap();
    let plan = tables.explain("select sum(run_s) from jobs where vc = 'x'").unwrap();
    assert!(plan.contains("PROJECT 2/") && plan.contains("jobs.parquet"), "{plan}");
    let mut csv = Vec::new();
    tables.ask("select job_key, submit from jobs where submit >= '2017-10-07'").unwrap().write_csv(&mut csv).unwrap();
    assert_eq!(String::from_utf8(csv).unwrap(), "job_key,submit\nc,2017-10-07T00:00:00-07:00\n");
}

fn selected(selection: &selection::Selection) -> usize {
    selection.mask.iter().filter(|selected| **selected).count()
}

#[test]
fn a_condition_selects_and_counts_what_is_unknown() {
    let selection = selection::select(&trace(), "gpus >= 8").unwrap();
    assert_eq!((selection.mask, selection.unknown), (vec![true, false, false], 1));
    let selection = selection::select(&trace(), "vc is null or submit < '2017-10-06 12:00:00'").unwrap();
    assert_eq!((selected(&selection), selection.unknown), (2, 0));
    assert_eq!(selected(&selection::select(&trace(), "1 = 1").unwrap()), 3);
    for wrong in ["gpus", "gpu > 1", "gpus > 'x' > 3", "gpus in (select gpus from nodes)"] {
        assert!(matches!(selection::select(&trace(), wrong), Err(Error::Query { .. })), "{wrong}");
    }
}

#[test]
fn a_text_that_no_row_has_is_told_with_what_there_is() {
    let told = |sql: &str| -> Vec<String> {
        Tables::of_trace(trace()).unwrap().ask(sql).unwrap().absent.iter().map(ToString::to_string).collect()
    };
    assert_eq!(told("select count(*) as n from job_facts where vc = 'xy'"), ["no row has vc = 'xy'; there are x, y"]);
    assert_eq!(
        told("select job_key from jobs where job_key in ('a', 'd') and vc = 'y'"),
        ["no row has job_key = 'd'; there are a, b, c"]
    );
    // One of two tables has it; a column without texts has none to compare with.
    assert_eq!(
        told("select j.vc from jobs j join nodes n on j.vc = n.vc where j.vc = 'x' and submit = '2017-10-07'"),
        [] as [&str; 0]
    );
    let selection = selection::select(&trace(), "vc = 'z' or gpus > 1").unwrap();
    assert_eq!(selection.absent.iter().map(|text| text.text.as_str()).collect::<Vec<_>>(), ["z"]);
    assert_eq!(told("select node from nodes where vc = 'x'"), ["no row has vc = 'x'"]);
}

#[test]
fn the_listing_counts_unknowns() {
    let listed = Tables::of_trace(trace()).unwrap().list().unwrap();
    assert_eq!(listed.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["job_facts", "jobs", "nodes"]);
    let Some(gpus) = listed[0].columns.iter().find(|column| column.name == "gpu_hours") else { panic!("no gpu_hours") };
    assert_eq!((gpus.unknown, gpus.unit, gpus.kind.as_str()), (1, Some("GPU-hours"), "number"));
    assert!(gpus.meaning.is_some());
}
