use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use fencing_protocol::Mode;
use futures_util::FutureExt;
use tokio::sync::Notify;

use super::*;
use crate::lock::settings::Settings;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::lock::wait::subscriptions::Notifies;
use crate::lock::wait::wanted::Ask;

const HOLD: Duration = Duration::from_millis(10);

/// A lock service whose servers send no notifications. The tests make the attempts.
struct Parts {
    queues: WaitQueues,
    resource: Resource,
    settings: Settings,
    notifications: ReleaseNotifications,
}

impl Parts {
    fn new(wait: Duration) -> Parts {
        Parts {
            queues: WaitQueues::default(),
            resource: Resource::new("invoice/42").unwrap(),
            settings: Settings { wait, ..Settings::new("budget", (HOLD, 2)) },
            notifications: ReleaseNotifications::new(1, Notifies::Everyone, Vec::new()),
        }
    }

    fn wanted(&self) -> Wanted<'_> {
        let target = Target::One(&self.resource, &self.notifications);
        let since = Instant::now();
        let ask = Ask::new(Mode::Exclusive, since + self.settings.wait);
        Wanted { ask, since, settings: &self.settings, target }
    }
}

#[tokio::test(start_paused = true)]
async fn one_whose_wait_ends_takes_what_is_handed_over() {
    let parts = Parts::new(Duration::ZERO);
    let asked = Cell::new(0);
    let attempt = || {
        asked.set(asked.get() + 1);
        // A release comes behind the first answer, and no other client is notified.
        if asked.get() == 1 {
            parts.queues.wake(&parts.resource, true);
        }
        std::future::ready(if asked.get() == 1 { Err(AcquireError::WrongCount { count: 0, most: 0 }) } else { Ok(()) })
    };
    assert_eq!(parts.queues.acquire(parts.wanted(), attempt).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_process_pauses_now_and_again_for_clients_that_only_poll() {
    let parts = Parts::new(Duration::from_secs(30));
    let mut without_a_pause = 0;
    loop {
        let asked = Instant::now();
        let attempt = || std::future::ready(Ok::<(), AcquireError>(()));
        parts.queues.acquire(parts.wanted(), attempt).await.unwrap();
        if asked.elapsed() > Duration::ZERO {
            break;
        }
        without_a_pause += 1;
        assert!(without_a_pause < 1000, "no pause");
        tokio::time::sleep(HOLD).await;
        parts.queues.wake(&parts.resource, false);
    }
    // Ten retry delays.
    assert!(without_a_pause >= 100, "{without_a_pause}");
}

/// A caller without a place makes its last attempt while the lease comes and goes in front of it. It takes no
/// hand-over: the release must notify other clients.
#[tokio::test(start_paused = true)]
async fn nothing_is_handed_over_to_one_that_left_the_queue() {
    let parts = Parts::new(Duration::ZERO);
    parts.notifications.on_released(&parts.resource, 0, true);
    let [acquired, last] = [const { Notify::const_new() }; 2];
    let first = parts.queues.acquire(parts.wanted(), async || {
        acquired.notified().await;
        Ok::<(), AcquireError>(())
    });
    let late = parts.queues.acquire(parts.wanted(), async || {
        acquired.notify_one();
        last.notified().await;
        Err::<(), _>(AcquireError::WrongCount { count: 0, most: 0 })
    });
    let (mut first, mut late) = (pin!(first), pin!(late));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(late.as_mut().now_or_never().is_none());
    assert_eq!(first.await, Ok(()));
    assert!(!parts.queues.hands_over(&parts.resource));
    last.notify_one();
    late.await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn leases_that_follow_one_another_let_others_ask_and_those_after_a_pause_need_not() {
    let (queue, parts) = (WaitQueue::default(), Parts::new(Duration::ZERO));
    let (wanted, delay) = (parts.wanted(), parts.settings.retry_delay);
    let lease = async || {
        queue.on_acquired(&wanted, false);
        queue.on_released(false);
        tokio::time::advance(delay / 2).await;
    };
    lease().await;
    tokio::time::advance(delay * 11).await;
    assert!(!queue.ends_streak(&wanted));
    for _ in 0..=20 {
        lease().await;
    }
    assert!(queue.ends_streak(&wanted));
}

#[tokio::test]
async fn a_lease_is_handed_over_only_while_somebody_waits_here() {
    let (queue, parts) = (WaitQueue::default(), Parts::new(Duration::ZERO));
    parts.notifications.on_released(&parts.resource, 0, true);
    queue.on_acquired(&parts.wanted(), false);
    let waiter = queue.place(&parts.wanted()).await.unwrap();
    assert!(queue.hands_over());
    drop(waiter);
    assert!(!queue.hands_over());
}

/// Each lease lasts for longer than those of one process may follow one another.
#[tokio::test(start_paused = true)]
async fn tasks_that_take_turns_pause_for_clients_that_only_poll() {
    let parts = Parts::new(Duration::from_secs(30));
    let (held, paused) = (Cell::new(false), Cell::new(0));
    let (released, delay) = (Cell::new(Instant::now()), parts.settings.retry_delay);
    let taken =
        || AcquireError::Held { resource: parts.resource.clone(), retry_after: Duration::from_secs(9), holder: None };
    let task = async || {
        for _ in 0..10 {
            let attempt = || std::future::ready(if held.replace(true) { Err(taken()) } else { Ok(()) });
            parts.queues.acquire(parts.wanted(), attempt).await.unwrap();
            paused.set(paused.get() + u32::from(released.get().elapsed() >= delay / 2));
            tokio::time::sleep(delay * 12).await;
            held.set(false);
            released.set(Instant::now());
            parts.queues.wake(&parts.resource, false);
        }
    };
    tokio::select! {
        () = task() => {}
        () = task() => {}
    }
    assert!(paused.get() >= 10, "{}", paused.get());
}
