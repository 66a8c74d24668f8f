//! `tracecast predict`.

use std::path::Path;

use anyhow::{Result, bail};
use tracecast_analytics::report::format;
use tracecast_predictors::duration::apply::apply;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::output as rows;
use tracecast_predictors::slurm::{self, Comment, ScriptOptions, TimeLimit};
use tracecast_predictors::timeline::Timeline;

use crate::args::{Predict, RowForm};
use crate::cmd::train;
use crate::{output, source};

/// Names of the files for Slurm.
const TABLE: &str = "tracecast-durations.txt";
const SCRIPT: &str = "job_submit.lua";

/// The predictor in a file.
pub(crate) fn load(path: &Path) -> Result<Predictor> {
    let bytes = tracecast_predictors::read_model(path)?;
    Ok(Predictor::from_bytes(&path.display().to_string(), &bytes)?)
}

pub(crate) fn run(request: &Predict, quiet: bool) -> Result<()> {
    let mut predictor = load(&request.model)?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let timeline = Timeline::of(&trace, train::which(&request.learning))?;
    let trained = predictor.trained().clone();
    let applied = apply(&mut predictor, &timeline)?;
    output::say(
        quiet,
        &format!(
            "tracecast: {} predicted, {} of them open when the training ended; {} had ended by then and get none",
            format::counted(applied.predictions.len() as u64, "job", "jobs"),
            format::count(applied.open as u64),
            format::count(applied.known as u64)
        ),
    );
    if applied.refused > 0 {
        let events = format::counted(applied.refused as u64, "event was", "events were");
        output::say(
            quiet,
            &format!("tracecast: {events} refused (of jobs that come twice or are unknown), and taught nothing"),
        );
    }
    if let Some(path) = &request.textfile {
        output::write(path, rows::prometheus(&applied, &trained).as_bytes())?;
    }
    if let Some(folder) = &request.slurm {
        let script = folder.join(SCRIPT);
        if std::fs::read(&script).is_ok_and(|own| !own.starts_with(slurm::SCRIPT_BEGINS.as_bytes())) {
            bail!(
                "{} is a plugin of your own, which is not replaced; name another folder, and call the script from yours (its last lines say how)",
                script.display()
            );
        }
        let entries = rows::slurm_entries(&predictor, &timeline)?;
        output::write(&folder.join(TABLE), &slurm::write_table(&entries))?;
        let options = ScriptOptions {
            table_path: request.slurm_table.clone(),
            comment: Comment::Admin,
            time_limit: request.slurm_time_limit.then(TimeLimit::default),
            ..ScriptOptions::default()
        };
        output::write(&script, slurm::script(&options).as_bytes())?;
        output::say(
            quiet,
            &format!("tracecast: {} entries in {}", format::count(entries.len() as u64), folder.display()),
        );
    }
    let bytes = match request.format {
        RowForm::Csv => rows::csv(&applied.predictions)?,
        RowForm::Jsonl => rows::json_lines(&applied.predictions, &trained)?,
        RowForm::Parquet => rows::parquet(&applied.predictions, &trained)?,
        RowForm::Arrow => rows::arrow_ipc(&applied.predictions, &trained)?,
    };
    output::bytes(&bytes, request.out.as_deref())
}
