//! The pauses between attempts grow, and have a random part: contenders that met once must not meet
//! each time. No pause is longer than the lock lasts.

use crate::driver::fleet::*;
use crate::driver::wire::Wire;

/// The pauses of one contender while another holds the lock.
async fn pauses(from: u64) -> Vec<Duration> {
    let clock = TokioClock::new();
    let node = MemoryNode::with_clock("node", clock.clone());
    let holder = Redlock::builder().nodes([node.clone()]).clock(clock.clone()).build().unwrap();
    let _lease = holder.acquire(&resource()).await.unwrap();
    let wire = Wire::new(node);
    let contender = Redlock::builder().nodes([wire.clone()]).clock(clock).ttl(TTL);
    let contender = contender.retry_delay(RETRY).wait(RETRY * 120).build().unwrap();
    seed(Some(from));
    assert!(contender.acquire(&resource()).await.is_err());
    seed(None);
    let acquires = wire.state().acquires.clone();
    let pauses: Vec<Duration> = acquires.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() > 20, "{pauses:?}");
    pauses
}

#[tokio::test(start_paused = true)]
async fn pauses_begin_around_the_retry_delay_grow_and_differ() {
    let (pauses, others) = (pauses(1).await, pauses(2).await);
    assert_ne!(pauses, others, "two contenders");
    let tick = Duration::from_millis(1);
    for (number, pause) in pauses.iter().enumerate().take(20) {
        let delay = RETRY * (1 + number as u32).min(2);
        assert!(*pause >= delay / 2 && *pause <= delay * 3 / 2 + tick, "{pauses:?}");
    }
    let late = &pauses[3..20];
    assert!(late.iter().any(|pause| *pause < RETRY * 2 - tick * 10), "{pauses:?}");
    assert!(late.iter().any(|pause| *pause > RETRY * 2 + tick * 10), "{pauses:?}");
}
