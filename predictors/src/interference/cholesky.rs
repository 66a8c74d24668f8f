//! Symmetric positive definite matrices: factors, solutions, inverses. Dense, row after row, in 64 bits.
//!
//! Cholesky: A = L Lᵀ with L lower triangular; O(n³ / 6) multiplications to factor, O(n³ / 3) to invert. Every sum runs in one order, so results do not
//! depend on threads. Worked example: of [[4, 2], [2, 3]] the factor is [[2, 0], [1, √2]].

/// A square matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Square {
    n: usize,
    values: Vec<f64>,
}

/// Sum of products.
pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Adds `factor` times a vector to another.
fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

impl Square {
    pub(super) fn zeros(n: usize) -> Self {
        Self { n, values: vec![0.0; n * n] }
    }

    pub(super) fn size(&self) -> usize {
        self.n
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        self.values.get(row * self.n..(row + 1) * self.n).unwrap_or_default()
    }

    pub(super) fn get(&self, row: usize, column: usize) -> f64 {
        self.row(row).get(column).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, row: usize, column: usize, value: f64) {
        if let Some(slot) = self.values.get_mut(row * self.n + column) {
            *slot = value;
        }
    }

    pub(super) fn add(&mut self, row: usize, column: usize, value: f64) {
        if let Some(slot) = self.values.get_mut(row * self.n + column) {
            *slot += value;
        }
    }

    /// The part of the named rows and columns.
    pub(super) fn part(&self, places: &[usize]) -> Self {
        let values = places.iter().flat_map(|row| places.iter().map(|column| self.get(*row, *column))).collect();
        Self { n: places.len(), values }
    }

    /// Takes `c cᵀ / by` away.
    pub(super) fn less_outer(&mut self, c: &[f64], by: f64) {
        for (row, factor) in self.values.chunks_exact_mut(self.n.max(1)).zip(c) {
            if *factor != 0.0 {
                add(row, -factor / by, c);
            }
        }
    }

    /// The lower factor; `None` if the matrix is not positive definite.
    pub(super) fn factor(&self) -> Option<Factor> {
        let n = self.n.max(1);
        let mut values = self.values.clone();
        for at in 0..self.n {
            let (done, rest) = values.split_at_mut(at * n);
            let row = rest.get_mut(..n)?;
            for (column, other) in done.chunks_exact(n).enumerate() {
                let known = dot(row.get(..column)?, other.get(..column)?);
                let pivot = other.get(column)?;
                let slot = row.get_mut(column)?;
                *slot = (*slot - known) / pivot;
            }
            let (left, right) = row.split_at_mut(at);
            let (pivot, above) = right.split_first_mut()?;
            let square = *pivot - dot(left, left);
            if square.is_nan() || square <= 0.0 {
                return None;
            }
            *pivot = square.sqrt();
            above.fill(0.0);
        }
        Some(Factor { lower: Self { n: self.n, values } })
    }
}

/// A lower factor.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    lower: Square,
}

impl Factor {
    /// x of A x = b.
    pub(super) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for at in 0..self.lower.n {
            let row = self.lower.row(at);
            let known = dot(row.get(..at).unwrap_or_default(), &x);
            if let (Some(x), Some(pivot)) = (x.get_mut(at), row.get(at)) {
                *x = (*x - known) / pivot;
            }
        }
        for at in (0..self.lower.n).rev() {
            let row = self.lower.row(at);
            let (before, rest) = x.split_at_mut(at);
            if let (Some(x), Some(pivot)) = (rest.first_mut(), row.get(at)) {
                *x /= pivot;
                add(before, -*x, row);
            }
        }
        x
    }

    /// The inverse of A.
    pub(super) fn inverse(&self) -> Square {
        let n = self.lower.n;
        // Rows of the inverse of the factor, each from those before.
        let mut inverse = Square::zeros(n);
        for at in 0..n {
            let (done, rest) = inverse.values.split_at_mut(at * n);
            let Some(row) = rest.get_mut(..n) else { continue };
            let factors = self.lower.row(at);
            for ((other, factor), length) in done.chunks_exact(n.max(1)).zip(factors).zip(1..) {
                if let (Some(to), Some(from)) = (row.get_mut(..length), other.get(..length)) {
                    add(to, -factor, from);
                }
            }
            let pivot = factors.get(at).copied().unwrap_or(1.0);
            if let Some(slot) = row.get_mut(at) {
                *slot += 1.0;
            }
            row.iter_mut().for_each(|value| *value /= pivot);
        }
        let mut out = Square::zeros(n);
        for row in inverse.values.chunks_exact(n.max(1)) {
            for (to, factor) in out.values.chunks_exact_mut(n.max(1)).zip(row) {
                if *factor != 0.0 {
                    add(to, *factor, row);
                }
            }
        }
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_and_a_larger_one() {
        let mut small = Square::zeros(2);
        for (row, column, value) in [(0, 0, 4.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 3.0)] {
            small.set(row, column, value);
        }
        let factor = small.factor().unwrap();
        assert!((factor.lower.get(1, 0) - 1.0).abs() < 1e-12 && (factor.lower.get(1, 1) - 2f64.sqrt()).abs() < 1e-12);
        let n = 23;
        let mut a = Square::zeros(n);
        for i in 0..n {
            for j in 0..n {
                let far = (i as f64 - j as f64) / 3.0;
                a.set(i, j, (-far * far).exp() + if i == j { 0.1 } else { 0.0 });
            }
        }
        let factor = a.factor().unwrap();
        let inverse = factor.inverse();
        let b: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
        let x = factor.solve(&b);
        for i in 0..n {
            assert!((dot(a.row(i), &x) - b[i]).abs() < 1e-9);
            assert!((dot(inverse.row(i), &b) - x[i]).abs() < 1e-9);
        }
        small.set(1, 1, 1.0);
        assert!(small.factor().is_none());
    }
}
