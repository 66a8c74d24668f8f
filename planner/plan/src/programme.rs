//! Programmes solved: the one place that knows the solver.
//!
//! As slow as the solver. Worked example: the greatest 2x + y with x ≤ 1 and x + y ≤ 3 is 4, at x = 1 and y = 2.

use good_lp::solvers::microlp::MicroLpSolution;
use good_lp::variable::UnsolvedProblem;
use good_lp::{Constraint, ResolutionError, SolverModel as _, microlp};

use crate::error::{Error, Result};

/// The solution of a programme, linear or mixed-integer, under `rows`; `of` says what is planned.
///
/// # Errors
/// If there is none, which no input should bring about.
pub fn solved(problem: UnsolvedProblem, rows: Vec<Constraint>, of: &str) -> Result<MicroLpSolution> {
    solved_if_possible(problem, rows, of)?
        .ok_or_else(|| Error::defect(format!("the programme of {of} has no solution: its rows contradict each other")))
}

/// Solves a programme like [`solved`]; `None` if its rows contradict each other.
///
/// # Errors
/// If the solver fails, which no input should bring about.
pub fn solved_if_possible(
    problem: UnsolvedProblem,
    rows: Vec<Constraint>,
    of: &str,
) -> Result<Option<MicroLpSolution>> {
    let mut model = problem.using(microlp);
    for row in rows {
        model.add_constraint(row);
    }
    match model.solve() {
        Ok(result) => Ok(Some(result)),
        Err(ResolutionError::Infeasible) => Ok(None),
        Err(error) => Err(Error::defect(format!("the programme of {of} has no solution: {error}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use good_lp::{Solution as _, constraint, variable, variables};

    use super::*;

    #[test]
    fn the_worked_example() {
        let mut vars = variables!();
        let (x, y) = (vars.add(variable().min(0.0)), vars.add(variable().min(0.0)));
        let rows = vec![constraint!(x <= 1.0), constraint!(x + y <= 3.0)];
        let result = solved(vars.maximise(2.0 * x + y), rows, "a test").unwrap();
        assert!((result.value(x) - 1.0).abs() < 1e-9 && (result.value(y) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_solution_is_a_defect() {
        let mut vars = variables!();
        let x = vars.add(variable().min(0.0));
        let told =
            solved(vars.maximise(x), vec![constraint!(x >= 2.0), constraint!(x <= 1.0)], "a test").err().unwrap();
        assert!(told.to_string().contains("the programme of a test has no solution"), "{told}");
    }
}
