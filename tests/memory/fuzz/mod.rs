//! Random input to everything that reads what others wrote, by seed and for a bounded
//! number of rounds: `FENCING_FUZZ=100` for a hundred times as many.

mod bytes;
mod header;
mod problems;
mod replies;

/// So many rounds, times what the environment says.
fn rounds(count: u64) -> u64 {
    let times = std::env::var("FENCING_FUZZ").ok().map(|text| text.parse::<u64>().unwrap());
    count * times.unwrap_or(1)
}
