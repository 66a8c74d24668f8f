//! `tracecast serve`.

use anyhow::Result;
use tracecast_analytics::report::format;
use tracecast_predictors::serve::{self, Config, Token, terminated};

use crate::args::Serve;
use crate::cmd::predict;
use crate::output;

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
