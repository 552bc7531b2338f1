use crate::driver::fleet;
use crate::driver::fleet::*;

/// More polls than any of these futures takes.
const MANY: usize = 300;

/// Nodes whose answers are late: there is more to be dropped in between.
async fn slow() -> (Fleet, Redlock) {
    let (fleet, redlock) = Fleet::with_client(5).await;
    for (faults, late) in fleet.faults.iter().zip(1..) {
        faults.delay_replies(BUDGET * late / 10);
    }
    (fleet, redlock)
}

/// Everything is released as soon as the answers are there, long before the TTL, and the
/// next caller gets it.
async fn next_succeeds(fleet: &Fleet, redlock: &Redlock, what: &str) {
    sleep(BUDGET * 3).await;
    assert_eq!(fleet.locked().await, [false; 5], "{what}");
    let lease = redlock.try_acquire(&resource()).await;
    lease.unwrap_or_else(|error| panic!("{what}: {error}")).release().await.unwrap();
    sleep(BUDGET * 3).await;
}

/// Lets one node count further than the others, so that the next token must be published.
async fn out_of_step(fleet: &Fleet) {
    let session = fleet.nodes[0].open(&members(5)).await.unwrap();
    session.call(fleet::acquire(TTL)).await.unwrap();
    session.call(fleet::release()).await.unwrap();
}

/// Drops what `act` makes after each number of polls, until it needs no more.
async fn at_each_poll(
    fleet: &Fleet,
    redlock: &Redlock,
    least: usize,
    act: impl AsyncFn(usize) -> bool,
) {
    for polls in 0.. {
        let done = act(polls).await;
        next_succeeds(fleet, redlock, &format!("{polls} polls")).await;
        assert!(polls < MANY);
        if done {
            assert!(polls > least, "nothing was ever dropped half way");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_and_try_acquire() {
    let (fleet, redlock) = slow().await;
    for single in [false, true] {
        at_each_poll(&fleet, &redlock, 2, async |polls| {
            out_of_step(&fleet).await;
            let outcome = match single {
                true => polled(redlock.try_acquire(&resource()), polls).await,
                false => polled(redlock.acquire(&resource()), polls).await,
            };
            outcome.is_some()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn release() {
    let (fleet, redlock) = slow().await;
    at_each_poll(&fleet, &redlock, 1, async |polls| {
        let lease = redlock.acquire(&resource()).await.unwrap();
        polled(lease.release(), polls).await.is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn health() {
    let (fleet, redlock) = slow().await;
    at_each_poll(&fleet, &redlock, 1, async |polls| {
        polled(redlock.health(), polls).await.is_some()
    })
    .await;
    assert_eq!(redlock.health().await.granting, 5);
}

/// The lease stays, is renewed, and can be waited for again.
#[tokio::test(start_paused = true)]
async fn run_and_lost() {
    let fleet = Fleet::of(5).await;
    let redlock = fleet.service().max_hold(TTL * 20).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    for polls in 0..30 {
        let yields = async {
            for _ in 0..polls + 1 {
                sleep(TTL / 40).await;
            }
        };
        assert!(polled(lease.run(yields), polls).await.is_none(), "{polls}");
        assert!(polled(lease.lost(), polls).await.is_none(), "{polls}");
        assert!(lease.valid_for() > TTL / 2, "{polls}");
    }
    assert_eq!(lease.run(async { 7 }).await, Ok(7));
    assert_eq!(lease.lost().await, Loss::MaxHold);
    drop(lease);
    settle().await;
    next_succeeds(&fleet, &redlock, "after all").await;
}

/// Who waits behind a holder, and who waits behind it in the queue.
#[tokio::test(start_paused = true)]
async fn acquire_behind_a_holder() {
    let (fleet, redlock) = slow().await;
    let other = fleet.connected().await;
    for polls in 0..40 {
        let held = other.acquire(&resource()).await.unwrap();
        let first = {
            let redlock = redlock.clone();
            tokio::spawn(async move { polled(redlock.acquire(&resource()), polls).await.is_some() })
        };
        assert!(polled(redlock.acquire(&resource()), polls).await.is_none(), "{polls} polls");
        assert!(!first.await.unwrap());
        held.release().await.unwrap();
        next_succeeds(&fleet, &redlock, &format!("{polls} polls")).await;
    }
    let start = Instant::now();
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "somebody is left in the queue");
}
