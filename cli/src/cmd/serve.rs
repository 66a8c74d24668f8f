//! `tracecast serve`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_predictors::serve::{self, Config, Token, terminated};

use crate::cmd::models::{DURATION, INTERFERENCE, model_file};
use crate::cmd::{predict, predict_interference};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Example, a model of the bundled sample, and a server that listens until it is stopped:
  tracecast model train duration datasets/sample --trees 20 --out sample.model
  (umask 077 && openssl rand -hex 32 > token)
  tracecast serve --model sample.model --token-file token --journal state")]
pub(crate) struct Serve {
    /// Model file that `tracecast model train duration` wrote, or the folder of all trained models
    #[arg(long, short, visible_alias = "models", value_name = "FILE|FOLDER")]
    pub(crate) model: PathBuf,
    /// File with the token that clients must send: one line of visible ASCII characters
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    pub(crate) bind: std::net::SocketAddr,
    /// Folder for the journal, in which what the server learns survives a crash
    ///
    /// Without a journal the server refuses events and learns nothing.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
    /// Train the model again each time this many jobs have ended [default: never]
    #[arg(long, value_name = "JOBS")]
    pub(crate) retrain_after: Option<std::num::NonZeroU64>,
    /// Number of GPUs in the cluster [default: as in the training data, if they record it]
    ///
    /// The server refuses jobs that ask for more GPUs.
    #[arg(long, value_name = "GPUS")]
    pub(crate) cluster_gpus: Option<std::num::NonZeroU32>,
    /// Model file that `tracecast model train interference` wrote, for the question who can share a
    /// GPU with whom (/v1/share) [default: that of the folder of models, if it has one]
    #[arg(long, value_name = "FILE")]
    pub(crate) share_model: Option<PathBuf>,
}

pub(crate) fn run(request: &Serve, quiet: bool) -> Result<()> {
    let predictor = predict::load(&model_file(&request.model, DURATION))?;
    let in_folder = Some(request.model.join(INTERFERENCE)).filter(|model| model.is_file());
    let share_model = request.share_model.clone().or(in_folder);
    let mut config = Config::new(Token::from_file(&request.token_file)?);
    config.bind = request.bind;
    config.journal.clone_from(&request.journal);
    config.retrain_after = request.retrain_after.map(std::num::NonZeroU64::get);
    config.cluster_gpus = request.cluster_gpus.map(|gpus| f64::from(gpus.get()));
    config.sharing = share_model.as_deref().map(predict_interference::load).transpose()?;
    config.notice = |message| output::say(false, &format!("tracecast: {message}"));
    let started = |address, result: &serve::Recovered| {
        let replayed = format::counted(result.events, "event", "events");
        output::say(quiet, &format!("tracecast: listening on http://{address}, {replayed} restored from the journal"));
    };
    Ok(serve::serve(config, predictor, started, terminated())?)
}
