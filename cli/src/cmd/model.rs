//! `tracecast model`: what can be learned from a trace, and what a model file holds.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cmd::{
    backtest, backtest_demand, backtest_interference, backtest_start, models, predict, predict_interference, spot,
    train, train_all, train_demand, train_interference, utilisation,
};

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    /// Train all models that a record can teach and write them to a folder, or one of them
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "\
Examples, all models that the bundled sample can teach, for plans, and one model of run times:
  tracecast model train datasets/sample --save models
  tracecast model train duration datasets/sample --trees 20 --out sample.model"
    )]
    Train(Box<Training>),
    /// Predict with a trained model
    #[command(
        subcommand,
        after_help = "\
Example, run times of the jobs of the bundled sample that come after the training data:
  tracecast model train duration datasets/sample --to 2024-03-24 --trees 20 --out past.model
  tracecast model predict duration datasets/sample --model past.model"
    )]
    Predict(Predict),
    /// Compare predictions with what really happened, beside simple baselines
    #[command(
        subcommand,
        after_help = "\
Example, two simple models of run times on the bundled sample:
  tracecast model backtest duration datasets/sample --methods running_mean,recent_median"
    )]
    Backtest(Backtest),
    /// List model files: what each predicts, its size, and which program wrote it
    List(models::ListModels),
}

/// Training of everything, or of one model.
#[derive(Debug, Args)]
pub(crate) struct Training {
    #[command(subcommand)]
    pub(crate) one: Option<Train>,
    #[command(flatten)]
    pub(crate) all: train_all::TrainAll,
}

/// What to train.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Train a model of how long jobs run
    Duration(train::TrainDuration),
    /// Train a model of how many nodes or GPUs will be needed
    Demand(train_demand::TrainDemand),
    /// Train a model of how much jobs slow each other that share a GPU
    Interference(train_interference::TrainInterference),
    /// Train a model of whether spot instances will be there, and say what it knows
    ///
    /// It says how long spot lasts in each zone, when in the week it is worst, how zones move
    /// together, and the chance of enough spot for the next hours.
    Spot(Box<spot::TrainSpot>),
    /// Write what the telemetry of a trace knows of its job types, as a table of profiles (CSV)
    ///
    /// Readings of GPUs are joined to the jobs that held them. `model backtest interference`,
    /// `model train interference` and `plan share couples` take the table as --profiles, `model
    /// predict utilisation` forecasts other job types from it, and `model backtest utilisation`
    /// tests such forecasts.
    Utilisation(utilisation::TrainUtilisation),
}

/// What to predict.
#[derive(Debug, Subcommand)]
pub(crate) enum Predict {
    /// Predict how long jobs will run
    ///
    /// The predictions are written as rows, and on request as a table for Slurm and as a summary
    /// for Prometheus.
    Duration(Box<predict::PredictDuration>),
    /// Forecast how many nodes or GPUs the next slots will need
    Demand(Box<train_demand::Forecast>),
    /// Predict how much two jobs slow each other on one GPU, and rank the running jobs that a new
    /// one could share with
    ///
    /// The answer gives both speeds as quantiles, the chance that the two do not fit, and whether
    /// they should share.
    Interference(Box<predict_interference::PredictInterference>),
    /// Predict whether there will be enough spot instances, for the next hours and throughout them
    Spot(Box<spot::PredictSpot>),
    /// Predict how much of a GPU, and of its memory, job types or waiting jobs will use
    ///
    /// The answer gives the expected value and quantiles, the model that was chosen, and what it
    /// rests on: what was measured, the family, or the recurring group.
    Utilisation(Box<utilisation::PredictUtilisation>),
}

/// What to compare with what happened.
#[derive(Debug, Subcommand)]
pub(crate) enum Backtest {
    /// Compare predictions of run times with the recorded runs, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and
    /// predicts the jobs that came next.
    Duration(Box<backtest::BacktestDuration>),
    /// Compare forecasts of nodes or GPUs in use with what was used, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and
    /// forecasts the slots that came next.
    Demand(Box<backtest_demand::BacktestDemand>),
    /// Compare forecast speeds of jobs that share a GPU with measured ones, model by model
    ///
    /// Whole families of jobs, or whole GPU types, are left out in turn, and every model forecasts
    /// their speeds from the other pairs.
    Interference(Box<backtest_interference::BacktestInterference>),
    /// Compare chances of spot instances with what came, model by model
    ///
    /// Every model is fitted again and again, each time on what was known at that moment, and says
    /// how likely there is enough spot for the hours that come.
    Spot(Box<spot::BacktestSpot>),
    /// Compare answers to when a waiting job will start with when it started, model by model
    ///
    /// The jobs are replayed under a policy, and jobs that had to wait are asked about as they were submitted, on what was known then.
    Start(Box<backtest_start::BacktestStart>),
    /// Compare forecasts of GPU utilisation and memory with what was read, model by model
    ///
    /// On a trace, every job is forecast when it starts, from readings taken before. On a table of
    /// profiles, whole families of models are left out in turn.
    Utilisation(Box<utilisation::BacktestUtilisation>),
}

/// Runs what was asked.
pub(crate) fn run(model: &Model, quiet: bool) -> Result<()> {
    match model {
        Model::Train(training) => match &training.one {
            None => train_all::run(&training.all, quiet),
            Some(Train::Duration(request)) => train::run(request, quiet),
            Some(Train::Demand(request)) => train_demand::run(request, quiet),
            Some(Train::Interference(request)) => train_interference::run(request, quiet),
            Some(Train::Spot(request)) => spot::train(request, quiet),
            Some(Train::Utilisation(request)) => utilisation::train(request, quiet),
        },
        Model::Predict(Predict::Duration(request)) => predict::run(request, quiet),
        Model::Predict(Predict::Demand(request)) => train_demand::forecast(request, quiet),
        Model::Predict(Predict::Interference(request)) => predict_interference::run(request, quiet),
        Model::Predict(Predict::Spot(request)) => spot::predict(request, quiet),
        Model::Predict(Predict::Utilisation(request)) => utilisation::predict(request, quiet),
        Model::Backtest(Backtest::Duration(request)) => backtest::run(request, quiet),
        Model::Backtest(Backtest::Demand(request)) => backtest_demand::run(request, quiet),
        Model::Backtest(Backtest::Interference(request)) => backtest_interference::run(request, quiet),
        Model::Backtest(Backtest::Spot(request)) => spot::backtest(request, quiet),
        Model::Backtest(Backtest::Start(request)) => backtest_start::run(request, quiet),
        Model::Backtest(Backtest::Utilisation(request)) => utilisation::backtest(request, quiet),
        Model::List(request) => models::run(request),
    }
}
