//! Interleaved rounds, and what they came to: for the benches that compare.

/// The order of measurement. Another candidate begins each round, so that other load slows all alike.
pub fn turns(rounds: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..rounds * of).map(move |turn| (turn / of + turn) % of)
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
