//! `tracecast serve`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_predictors::serve::{self, Config, Token, terminated};

use crate::cmd::predict;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The model file, from `tracecast train duration`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// File with the token that clients must show
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    pub(crate) bind: std::net::SocketAddr,
    /// Folder in which what is learned survives a crash; without it nothing is learned
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
    /// Train again after so many ended jobs [default: never]
    #[arg(long, value_name = "JOBS")]
    pub(crate) retrain_after: Option<std::num::NonZeroU64>,
    /// GPUs of the cluster: jobs of more are refused [default: as the trace that the model was trained on has it, if it says]
    #[arg(long, value_name = "GPUS")]
    pub(crate) cluster_gpus: Option<std::num::NonZeroU32>,
}

pub(crate) fn run(request: &Serve, quiet: bool) -> Result<()> {
    let predictor = predict::load(&request.model)?;
    let mut config = Config::new(Token::from_file(&request.token_file)?);
    config.bind = request.bind;
    config.journal.clone_from(&request.journal);
    config.retrain_after = request.retrain_after.map(std::num::NonZeroU64::get);
    config.cluster_gpus = request.cluster_gpus.map(|gpus| f64::from(gpus.get()));
    config.notice = |message| output::say(false, &format!("tracecast: {message}"));
    let started = |address, found: &serve::Recovered| {
        let replayed = format::counted(found.events, "event", "events");
        output::say(quiet, &format!("tracecast: listening on http://{address}, {replayed} taken up from the journal"));
    };
    Ok(serve::serve(config, predictor, started, terminated())?)
}
