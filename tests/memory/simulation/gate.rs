use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// A process that can be stopped for a time, as with `SIGSTOP` and `SIGCONT`. It wakes
/// those who wait in the order in which they came, unlike tokio's `watch`.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    until: Option<Instant>,
    waiting: Vec<Waker>,
}

impl Gate {
    /// Stops it for this long, or longer if it is stopped for longer already.
    pub fn stop(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut inner = self.0.lock().unwrap();
        inner.until = inner.until.max(Some(until));
        drop(inner);
        let gate = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            let mut inner = gate.0.lock().unwrap();
            if inner.until <= Some(until) {
                inner.until = None;
                std::mem::take(&mut inner.waiting).into_iter().for_each(Waker::wake);
            }
        });
    }

    pub fn is_stopped(&self) -> bool {
        self.0.lock().unwrap().until.is_some()
    }

    pub async fn pass(&self) {
        self.during(async {}).await;
    }

    /// Polls `work` only while the process runs.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let mut inner = self.0.lock().unwrap();
            if inner.until.is_some() {
                inner.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            drop(inner);
            work.as_mut().poll(context)
        })
        .await
    }
}
