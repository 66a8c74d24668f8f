//! Every number of a description of real traces against plain loops over the raw files, and what holds of every
//! description: it fits its schema, and says the same of a trace folder, on every run and on any number of threads.
//!
//! The real traces lie outside the repository; without them these tests say so and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

mod checker;
mod jobs;
mod law;
mod plain;
mod times;
mod world;

use checker::Checker;
use tracecast_analytics::describe::Description;
use tracecast_tests::{read, real_trace};
use world::World;

/// The description of some files as JSON, ready to check, with what comes before the topics checked.
fn described(paths: &[std::path::PathBuf], world: &World) -> Checker {
    let trace = read(paths).unwrap();
    let mut c = Checker::new(serde_json::to_value(Description::of(&trace)).unwrap());
    c.text("schema", "describe/1");
    c.list("sources", paths.len());
    for (ix, path) in paths.iter().enumerate() {
        c.text(&format!("sources[{ix}].name"), path.to_str().unwrap());
        c.count(&format!("sources[{ix}].size_bytes"), std::fs::metadata(path).unwrap().len());
    }
    c.count("quality.read", world.rows);
    c.count("quality.kept", world.rows);
    c.count("quality.repaired", 0);
    c.count("quality.quarantined", 0);
    for field in ["entries", "damage", "skipped"] {
        c.list(&format!("quality.{field}"), 0);
    }
    c
}

#[test]
fn philly_joined() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let world = world::philly_joined(&path);
    let mut c = described(&[path], &world);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    jobs::status(&mut c, &world);
    times::calendar(&mut c, &world);
    times::vc(&mut c, &world);
    times::arrival(&mut c, &world);
    c.missing(&["pool", "users", "usage", "fragment", "locality", "recurrence", "failure", "sharing"]);
    c.finish("Philly, joined table");
}

#[test]
fn philly_log() {
    let Some(path) = real_trace("philly/philly_cluster_job_log_ge4gpu.json.gz") else { return };
    let world = world::philly_log(&path);
    let mut c = described(&[path], &world);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    times::calendar(&mut c, &world);
    times::arrival(&mut c, &world);
    c.missing(&["status", "vc", "pool", "users", "usage", "fragment", "locality", "recurrence", "failure", "sharing"]);
    c.finish("Philly, job log of four GPUs and more");
}

#[test]
fn openb() {
    let Some(pods) = real_trace("openb_2023/openb_pod_list_default.csv.gz") else { return };
    let Some(nodes) = real_trace("openb_2023/openb_node_list_all_node.csv") else { return };
    let world = world::openb(&pods, &nodes);
    let mut c = described(&[pods, nodes], &world);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    times::wait(&mut c, &world);
    jobs::status(&mut c, &world);
    times::calendar(&mut c, &world);
    jobs::failure(&mut c, &world);
    jobs::sharing(&mut c, &world);
    times::locality_on_single_nodes(&mut c, &world);
    times::arrival(&mut c, &world);
    c.missing(&["vc", "pool", "users", "usage", "fragment", "recurrence"]);
    c.finish("openb");
}

#[test]
fn helios_slice() {
    let Some(path) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let world = world::helios_slice(&path);
    let mut c = described(&[path], &world);
    jobs::summary(&mut c, &world);
    jobs::size(&mut c, &world);
    times::duration(&mut c, &world);
    jobs::status(&mut c, &world);
    times::calendar(&mut c, &world);
    times::vc(&mut c, &world);
    jobs::users(&mut c, &world);
    jobs::recurrence(&mut c, &world);
    jobs::failure(&mut c, &world);
    times::arrival(&mut c, &world);
    c.missing(&["wait", "pool", "usage", "fragment", "locality", "sharing"]);
    c.finish("Helios Venus slice");
}

/// The totals that are known of these traces from outside this repository.
#[test]
fn published_totals() {
    if let Some(path) = real_trace("philly/philly_jobs.csv.gz") {
        let json = serde_json::to_value(Description::of(&read(&[path]).unwrap())).unwrap();
        assert_eq!(json["summary"]["jobs"], 111_549);
        assert_eq!((json["summary"]["gpu_hours"].as_f64().unwrap() / 1e4).round(), 362.0, "3.62 million GPU-hours");
        for (gpus, jobs) in [(1.0, 96_662), (2.0, 2_522), (4.0, 5_487), (8.0, 5_716)] {
            let sizes = json["size"]["by_gpus"].as_array().unwrap();
            let size = sizes.iter().find(|size| size["gpus"].as_f64() == Some(gpus)).unwrap();
            assert_eq!(size["jobs"], jobs, "jobs of {gpus} GPUs");
        }
    }
    if let Some(path) = real_trace("openb_2023/openb_pod_list_default.csv.gz") {
        let json = serde_json::to_value(Description::of(&read(&[path]).unwrap())).unwrap();
        assert_eq!(json["summary"]["jobs"], 8_152);
        let fractional = json["sharing"]["fractional_share"].as_f64().unwrap();
        assert_eq!((fractional * 1e3).round(), 436.0, "43.6 % of the GPU pods ask for a fraction");
    }
}
