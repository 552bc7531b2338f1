//! Medians over the rounds.

use crate::rounds::median;
use crate::way::Way;

/// What one round of one way came to.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Writes per second of all connections together.
    pub rate: f64,
    /// Microseconds of the server's processors for each write.
    pub cpu: f64,
}

/// A ratio is the median of the rounds' own ratios: whatever slowed a round down slowed both. Above
/// one is better than unguarded, for the throughput and for the processors.
pub fn print(name: &str, ways: &[&(Way, Way, &str)], rounds: &[Vec<Round>]) {
    println!("\n{name}");
    println!("{:<38}{:>10}{:>8}{:>12}{:>8}", "", "writes/s", "ratio", "server us", "ratio");
    for (&&(_, against, words), own) in ways.iter().zip(rounds) {
        let base = ways.iter().position(|way| way.0 == against).unwrap();
        let pairs = || own.iter().zip(&rounds[base]);
        println!(
            "{words:<38}{:>10.0}{:>8.2}{:>12.1}{:>8.2}",
            median(own.iter().map(|round| round.rate)),
            median(pairs().map(|(own, base)| own.rate / base.rate)),
            median(own.iter().map(|round| round.cpu)),
            median(pairs().map(|(own, base)| base.cpu / own.cpu)),
        );
    }
}
