//! Two writers with neighbouring tokens, round after round, with pauses between every two
//! statements. `FENCING_ROUNDS` sets the rounds of each play (default 12).

use crate::common::*;

/// What became of a writer.
#[derive(Debug, PartialEq)]
pub enum Written {
    Done,
    Stale,
}

pub fn rounds() -> u64 {
    std::env::var("FENCING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Rarely long enough that the other one gets all the way through.
pub async fn stall() {
    match below(4) {
        0 => tokio::time::sleep(Duration::from_micros(below(2000))).await,
        1 => tokio::task::yield_now().await,
        _ => {}
    }
}

/// Tries until the write is done, or stale.
pub async fn writer(attempt: impl AsyncFn(u64) -> Result<(), AdmitError>, number: u64) -> Written {
    loop {
        match attempt(number).await {
            Ok(()) => return Written::Done,
            Err(AdmitError::Stale(stale)) => {
                assert!(stale.highest > token(number), "{stale}");
                return Written::Stale;
            }
            Err(AdmitError::Retryable(_)) => stall().await,
            Err(error) => panic!("token {number}: {error:?}"),
        }
    }
}

/// Plays the rounds. Returns in how many the stale writer was refused.
pub async fn refused(rounds: u64, attempt: impl AsyncFn(u64) -> Result<(), AdmitError>) -> u64 {
    let mut refused = 0;
    for round in 0..rounds {
        let old = async {
            // The stale one is late more often than not.
            tokio::time::sleep(Duration::from_micros(below(1500))).await;
            writer(&attempt, 2 * round + 1).await
        };
        let (old, new) = tokio::join!(old, writer(&attempt, 2 * round + 2));
        assert_eq!(new, Written::Done, "the newest is never stale");
        refused += u64::from(old == Written::Stale);
    }
    refused
}
