//! No reader claims what is no trace: prose, source code, markup, even where it speaks of the formats we read.

use std::path::{Path, PathBuf};

use tracecast_analytics::ingest::{self, SourceFile};

/// Prose that quotes every format in which a line or a word tells the reader.
const MARKDOWN: &str = r#"# Formats

The spot history is `{"SpotPriceHistory": [{"SpotPrice": "0.9", "AvailabilityZone": "a", "InstanceType": "p3"}]}`,
sacct writes `{"jobs": [{"association": {}, "submission": 1}]}` and the HTTP API `{"status": "success", "data":
{"resultType": "vector", "result": []}}`; spot traces have `{"gap_seconds": 1, "data": []}`.

| JobID | State | Submit | Start | End | Elapsed |
|---|---|---|---|---|---|
| 1 | COMPLETED | 2024-01-01T00:00:00 | 2024-01-01T00:00:00 | 2024-01-01T00:00:00 | 1 |

```
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 45
Sys Power | 650 Watts | ok
DCGM_FI_DEV_POWER_USAGE is the power
; MaxProcs: 100
03/04/2024 10:00:00;Q;12.server;queue=batch
"JOB_FINISH" "10.1" 1709550300 300 1501 33554438 4
gpu.q:g1:lab:ana:train:1:sge:0:1709546400:1709546700:1709550300:0:0:3600
1 0 5 60 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1
timestamp, index, utilization.gpu
time,active,total
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
```
"#;

/// A table and nothing before it.
const TABLE: &str = "| JobID | State | Submit | Start | End |\n|---|---|---|---|---|\n| 1 | COMPLETED | x | y | z |\n";

const CODE: &str = "import json\n\ndef power(line):\n    # DCGM_FI_DEV_POWER_USAGE\n    return \"DCGM_FI_DEV_GPU_UTIL\"\n\n\
                    FIELDS = {\"SpotPrice\", \"AvailabilityZone\", \"InstanceType\"}\n";

const XML: &str = "<?xml version=\"1.0\"?>\n<jobs><job id=\"1\" state=\"COMPLETED\" gpus=\"8\"/></jobs>\n";

const HTML: &str = "<!DOCTYPE html>\n<html><body><script>\nvar x = {\"SpotPriceHistory\": [], \"resultType\": 1, \
                    \"status\": 2, \"result\": 3};\n</script><table><tr><td>JobID|State|Submit</td></tr></table>\n";

const LICENSE: &str = "MIT License\n\nCopyright (c) 2026\n\nPermission is hereby granted, free of charge, to any person \
                       obtaining a copy, to deal in the Software without restriction, and to permit persons to do so.\n";

fn claimed(path: &Path) -> Option<&'static str> {
    ingest::sniff(&SourceFile::new(path)).unwrap().map(ingest::Reader::id)
}

#[test]
fn no_reader_claims_plain_texts() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("FORMATS.md", MARKDOWN),
        ("TABLE.md", TABLE),
        ("tool.py", CODE),
        ("jobs.xml", XML),
        ("page.html", HTML),
        ("LICENSE", LICENSE),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(claimed(&path), None, "{name}");
    }
}

/// The project's own texts speak of the formats more than any others do.
#[test]
fn no_reader_claims_the_projects_own_texts() {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text =
                path.extension().is_some_and(|end| end == "rs" || end == "md" || end == "toml" || end == "ipynb");
            if path.is_dir() {
                walk(&path, found);
            } else if text {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = vec![root.join("README.md"), root.join("Cargo.toml"), root.join("Cargo.lock")];
    for folder in ["analytics", "datasets", "notebooks", "cli/src", "tests/golden", "tests/src"] {
        walk(&root.join(folder), &mut texts);
    }
    assert!(texts.len() > 100, "the texts are found");
    for path in texts {
        assert_eq!(claimed(&path), None, "{}", path.display());
    }
}
