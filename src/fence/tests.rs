use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{sleep, timeout};

use super::*;

fn resource() -> Resource {
    Resource::new("files/a").unwrap()
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn fence() -> Fence {
    Fence::new(MemoryMarks::default())
}

fn stale(error: FenceError) -> (u64, u64) {
    let FenceError::Stale(stale) = error else { panic!("{error}") };
    (stale.presented.get(), stale.highest.get())
}

/// Counts the resources that have requests in flight.
fn busy(fence: &Fence) -> usize {
    fence.gate.0.len()
}

#[tokio::test]
async fn equal_passes_and_lower_is_refused() {
    let fence = fence();
    drop(fence.admit(&resource(), token(33)).await.unwrap());
    drop(fence.admit(&resource(), token(33)).await.unwrap());
    drop(fence.admit(&resource(), token(34)).await.unwrap());
    assert_eq!(stale(fence.admit(&resource(), token(33)).await.unwrap_err()), (33, 34));
    let other = Resource::new("files/A").unwrap();
    assert!(fence.admit(&other, token(1)).await.is_ok());
    assert_eq!(busy(&fence), 0);
}

#[tokio::test]
async fn a_token_above_the_ceiling_raises_no_mark() {
    let fence = fence().ceiling(token(1000));
    let error = fence.admit(&resource(), token(1001)).await.unwrap_err();
    assert!(matches!(error, FenceError::NotIssued(_)), "{error}");
    drop(fence.admit(&resource(), token(1000)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn equal_tokens_run_side_by_side_and_a_newer_one_waits_for_all_of_them() {
    let fence = fence();
    let first = fence.admit(&resource(), token(33)).await.unwrap();
    let second = fence.admit(&resource(), token(33)).await.unwrap();
    let resource = resource();
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none());
    drop(first);
    assert!((&mut newer).now_or_never().is_none());
    drop(second);
    assert_eq!(newer.await.unwrap().token(), token(34));
}

type Holds = Arc<Mutex<std::collections::HashMap<u64, Arc<Semaphore>>>>;

async fn hold(holds: &Holds, number: u64) -> Arc<Semaphore> {
    let gate = Arc::new(Semaphore::new(0));
    holds.lock().await.insert(number, Arc::clone(&gate));
    gate
}

async fn pass(holds: &Holds, token: Token) {
    let gate = holds.lock().await.get(&token.get()).cloned();
    if let Some(gate) = gate {
        let _ = gate.acquire().await;
    }
}

/// Marks that answer when a test lets them.
#[derive(Clone, Default)]
struct SlowMarks {
    marks: Arc<MemoryMarks>,
    /// Permits to ask the marks.
    questions: Holds,
    /// Permits to answer, after the marks were compared and raised.
    answers: Holds,
}

impl Marks for SlowMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        async move {
            pass(&self.questions, token).await;
            let outcome = self.marks.raise(resource, token).await;
            pass(&self.answers, token).await;
            outcome
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn marks_that_do_not_answer_let_nobody_pass() {
    let marks = SlowMarks::default();
    let _answer = hold(&marks.answers, 33).await;
    let fence = Fence::new(marks).limit(Duration::from_secs(1));
    let error = fence.admit(&resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, FenceError::Unreachable(_)), "{error}");
    assert_eq!(error.to_string(), "high-water marks unreachable: no answer within 1000 ms");
    assert_eq!(busy(&fence), 0);
}

#[test]
fn without_a_tokio_runtime_nobody_is_admitted_and_nothing_panics() {
    let fence = fence();
    let error = fence.admit(&resource(), token(34)).now_or_never().expect("it does not wait");
    let error = error.unwrap_err();
    assert!(matches!(error, FenceError::NoRuntime), "{error}");
    assert_eq!(busy(&fence), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(fence.admit(&resource(), token(33))).is_ok(), "no mark was raised");
}

/// Admits many tokens at once, and holds each admission over a few yields: requests in flight have equal tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_never_overlaps_with_another_token() {
    let fence = fence();
    let held = Arc::new(std::sync::Mutex::new(Vec::<Token>::new()));
    let tasks = (0..400_u64).map(|number| {
        let (fence, held) = (fence.clone(), Arc::clone(&held));
        tokio::spawn(async move {
            for _ in 0..number % 7 {
                tokio::task::yield_now().await;
            }
            let presented = token(1 + (number * 7919) % 40);
            let Ok(admission) = fence.admit(&resource(), presented).await else { return 0 };
            held.lock().unwrap().push(presented);
            for _ in 0..3 {
                tokio::task::yield_now().await;
                assert!(held.lock().unwrap().iter().all(|other| *other == presented));
            }
            let mut held = held.lock().unwrap();
            let position = held.iter().position(|other| *other == presented).unwrap();
            held.swap_remove(position);
            drop(admission);
            1
        })
    });
    let admitted: usize = futures_util::future::join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    assert!(admitted > 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_stale_requests_does_not_hold_up_a_newer_one() {
    let marks = SlowMarks::default();
    let _never = hold(&marks.answers, 32).await;
    let fence = Fence::new(marks);
    let resource = resource();
    let older = fence.admit(&resource, token(33)).await.unwrap();
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none());
    let late = fence.admit(&resource, token(32)).now_or_never().expect("refused at the gate");
    assert_eq!(stale(late.unwrap_err()), (32, 34));
    drop(older);
    assert!(newer.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_newer_one_overtakes_at_the_marks_is_refused() {
    let marks = SlowMarks::default();
    let answer = hold(&marks.answers, 33).await;
    let fence = Fence::new(marks);
    let resource = resource();
    let mut older = Box::pin(fence.admit(&resource, token(33)));
    assert!((&mut older).now_or_never().is_none());
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none(), "33 has passed the marks, and may write yet");
    answer.add_permits(1);
    assert_eq!(stale(older.await.unwrap_err()), (33, 34));
    assert!(newer.await.is_ok());
}

/// Fast marks stop nobody, and slow ones not at once.
#[tokio::test(start_paused = true)]
async fn an_older_request_has_100_ms_until_marks_count_as_slow() {
    let marks = SlowMarks::default();
    let _never = hold(&marks.questions, 34).await;
    let fence = Fence::new(marks).drop_older_after(Duration::ZERO);
    let older = fence.admit(&resource(), token(33)).await.unwrap();
    tokio::spawn({
        let fence = fence.clone();
        async move { fence.admit(&resource(), token(34)).await.map(drop) }
    });
    assert!(timeout(Duration::from_millis(99), older.superseded()).await.is_err());
    assert!(timeout(Duration::from_millis(2), older.superseded()).await.is_ok());
}

/// Marks that one token cannot reach: each attempt fails after 300 ms.
struct Unreachable(MemoryMarks, Token, fn(&str) -> FenceError);

impl Marks for Unreachable {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        async move {
            if token == self.1 {
                sleep(Duration::from_millis(300)).await;
                return Err(self.2("down"));
            }
            self.0.raise(resource, token).await
        }
        .boxed()
    }
}

/// The older request may be what keeps the marks from answering.
#[tokio::test(start_paused = true)]
async fn failed_attempts_to_reach_the_marks_do_not_restart_the_grace() {
    let errors: [fn(&str) -> FenceError; 2] =
        [|why| FenceError::Unreachable(why.into()), |why| FenceError::NoConnection(why.into())];
    for error in errors {
        let marks = Unreachable(MemoryMarks::default(), token(34), error);
        let fence = Fence::new(marks).drop_older_after(Duration::from_secs(1));
        let older = fence.admit(&resource(), token(33)).await.unwrap();
        tokio::spawn({
            let fence = fence.clone();
            async move { while fence.admit(&resource(), token(34)).await.is_err() {} }
        });
        assert!(timeout(Duration::from_secs(2), older.superseded()).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn the_shortest_grace_counts() {
    let patient = fence().drop_older_after(Duration::from_secs(60));
    let older = patient.admit(&resource(), token(33)).await.unwrap();
    let prompt = patient.drop_older_after(Duration::ZERO);
    tokio::spawn(async move { prompt.admit(&resource(), token(34)).await.map(drop) });
    assert!(timeout(Duration::from_secs(1), older.superseded()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn each_request_has_a_grace_of_its_own() {
    let fence = fence().drop_older_after(Duration::from_secs(2));
    let oldest = fence.admit(&resource(), token(33)).await.unwrap();
    let admit = |number| {
        let fence = fence.clone();
        tokio::spawn(async move { fence.admit(&resource(), token(number)).await })
    };
    let next = admit(34);
    sleep(Duration::from_secs(1)).await;
    drop(oldest);
    let next = next.await.unwrap().unwrap();
    let _newest = admit(35);
    assert!(timeout(Duration::from_millis(1900), next.superseded()).await.is_err());
    assert!(timeout(Duration::from_millis(200), next.superseded()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_limit_covers_the_marks_and_the_wait_together() {
    let marks = SlowMarks::default();
    let question = hold(&marks.questions, 34).await;
    let fence = Fence::new(marks).limit(Duration::from_secs(1));
    let _older = fence.admit(&resource(), token(33)).await.unwrap();
    tokio::spawn(async move {
        sleep(Duration::from_millis(800)).await;
        question.add_permits(1);
    });
    let resource = resource();
    let newer = timeout(Duration::from_millis(1100), fence.admit(&resource, token(34))).await;
    assert!(matches!(newer, Ok(Err(FenceError::Busy { .. }))), "{newer:?}");
}

/// Marks that answer at once, and let another request come in between.
struct Interrupted(MemoryMarks, Arc<std::sync::OnceLock<Fence>>);

impl Marks for Interrupted {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        self.0.raise(resource, token)
    }

    fn raise_now(&self, resource: &Resource, token: Token) -> Option<Result<(), FenceError>> {
        let raised = self.0.raise_now(resource, token);
        if let Some(fence) = self.1.get().filter(|_| token.get() == 33) {
            let newer = fence.admit(resource, Token::new(34).unwrap()).now_or_never();
            assert!(newer.is_none(), "33 has passed the marks, and may write yet");
        }
        raised
    }
}

#[tokio::test]
async fn a_pause_after_marks_that_answer_at_once_admits_nobody_newer() {
    let fence_of_marks = Arc::default();
    let fence = Fence::new(Interrupted(MemoryMarks::default(), Arc::clone(&fence_of_marks)));
    fence_of_marks.set(fence.clone()).unwrap();
    assert_eq!(stale(fence.admit(&resource(), token(33)).await.unwrap_err()), (33, 34));
}

#[tokio::test]
async fn the_longest_limit_does_not_panic() {
    assert!(fence().limit(Duration::MAX).admit(&resource(), token(1)).await.is_ok());
}

#[test]
fn the_limit_of_the_marks_is_exact_however_they_are_divided() {
    let marks = MemoryMarks::new(1000);
    let name = |number: u64| Resource::new(format!("files/{number}")).unwrap();
    let raise = |number: u64, high: u64| marks.raise(&name(number), token(high)).now_or_never();
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let raise = &raise;
                scope.spawn(move || {
                    let numbers = (0..500).map(|number| 4 * number + thread);
                    numbers.filter(|number| raise(*number, 34).unwrap().is_ok()).collect::<Vec<u64>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(found.len(), 1000);
    for number in 0..2000 {
        let [lower, equal] = [33, 34].map(|high| raise(number, high).unwrap());
        if found.contains(&number) {
            assert!(matches!(lower, Err(FenceError::Stale(_))) && equal.is_ok());
        } else {
            assert!(matches!(lower, Err(FenceError::Full { limit: 1000 })));
            assert!(matches!(equal, Err(FenceError::Full { limit: 1000 })));
        }
    }
}

/// However a request with a new token ends, its question is not kept.
#[tokio::test(start_paused = true)]
async fn no_question_stays_open() {
    let check = |shown: crate::sequencer::Sequencer| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        match shown.token.get() {
            33..=36 => Ok(true),
            37 => Err("no answer"),
            _ => Ok(false),
        }
    };
    let fence = fence().limit(Duration::from_secs(1)).check_sequencer(check);
    let open = || fence.checks.as_ref().unwrap().open.lock().newest.len();
    let resource = resource();
    let mut dropped = Box::pin(fence.admit(&resource, token(34)));
    let mut joined = Box::pin(fence.admit(&resource, token(34)));
    let mut other = Box::pin(fence.admit(&resource, token(36)));
    for request in [&mut dropped, &mut joined, &mut other] {
        assert!(request.now_or_never().is_none());
    }
    assert_eq!(open(), 2);
    drop((dropped, other));
    assert_eq!(open(), 1);
    let admission = joined.await.unwrap();
    assert_eq!(open(), 0);
    // One that waits for an older request holds none either.
    let mut newer = Box::pin(fence.admit(&resource, token(35)));
    assert!((&mut newer).now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!((&mut newer).now_or_never().is_none());
    assert_eq!(open(), 0);
    drop(admission);
    assert!(newer.await.is_ok());
    for refused in [37, 38, 999] {
        assert!(fence.admit(&resource, token(refused)).await.is_err());
    }
    assert_eq!(open(), 0);
}
