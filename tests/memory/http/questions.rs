//! Requests with one token share the question whether it was issued, and its answer where they may.

use fencing::Sequencer;
use fencing::fence::Admission;
use tokio::sync::Semaphore;

use super::*;

const GIANT: u64 = 999_999_999_999_999;

/// A lock service that has issued up to 34 and takes 100 ms, and how many questions it had at once.
fn with_a_count() -> (Fence, Arc<AtomicUsize>) {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let fence = fence().check_sequencer(move |shown: Sequencer| {
        let (open, highest) = (Arc::clone(&open), Arc::clone(&highest));
        async move {
            highest.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            open.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Infallible>(shown.token.get() <= 34)
        }
    });
    (fence, most)
}

#[tokio::test(start_paused = true)]
async fn forged_tokens_are_asked_about_16_at_a_time_and_the_holder_among_them() {
    let (fence, most) = with_a_count();
    let resource = file();
    let forged = (0..1000).map(|number| {
        let (fence, resource) = (fence.clone(), resource.clone());
        tokio::spawn(async move { fence.admit(&resource, token(35 + number)).await.map(drop) })
    });
    let forged: Vec<_> = forged.collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let holder = fence.admit(&resource, token(34)).await;
    assert!(holder.is_ok(), "{holder:?}");
    let mut crowded = 0;
    for refused in forged {
        match refused.await.unwrap().unwrap_err() {
            FenceError::NotIssued(_) => {}
            FenceError::Unchecked { cause, .. } => {
                assert!(cause.to_string().contains("too many tokens"), "{cause}");
                crowded += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(crowded >= 1000 - 16, "{crowded}");
    // The one that gave way ends when it is polled.
    assert!(most.load(Ordering::SeqCst) <= 17, "{most:?} at once");
}

#[tokio::test(start_paused = true)]
async fn a_fence_asks_about_1000_tokens_at_a_time() {
    let (fence, most) = with_a_count();
    let name = |number: u64| named(&format!("files/{number}"));
    let forged = (0..5000).map(|number| {
        let fence = fence.clone();
        async move { fence.admit(&name(number), token(35)).await.map(drop) }
    });
    let refused = futures_util::future::join_all(forged).await;
    let asked = refused.iter().filter(|no| matches!(no, Err(FenceError::NotIssued(_)))).count();
    assert_eq!((asked, most.load(Ordering::SeqCst)), (1000, 1000));
    assert!(fence.admit(&file(), token(34)).await.is_ok());
}

/// Marks that need a connection of this pool.
fn pooled(pool: &Arc<Semaphore>) -> impl Marks + use<> {
    let pool = Arc::clone(pool);
    marks_behind(move || Arc::clone(&pool).acquire_owned())
}

/// A lock service that has issued every token, which it says after this time.
fn all_issued(fence: Fence, after: Duration) -> Fence {
    fence.check_sequencer(move |_: Sequencer| async move {
        tokio::time::sleep(after).await;
        Ok::<_, Infallible>(true)
    })
}

#[tokio::test(start_paused = true)]
async fn a_stale_token_is_refused_at_the_gate_before_the_marks_are_asked() {
    let pool = Arc::new(Semaphore::new(1));
    let fence = all_issued(Fence::new(pooled(&pool)), Duration::ZERO);
    let _newer = fence.admit(&file(), token(34)).await.unwrap();
    let _busy = pool.acquire().await.unwrap();
    let stale = fence.admit(&file(), token(33)).now_or_never();
    assert!(matches!(stale, Some(Err(FenceError::Stale(_)))), "it asks the marks: {stale:?}");
}

/// The newer request gets as far as the gate, and asks the older one to stop.
#[tokio::test(start_paused = true)]
async fn an_older_request_that_has_the_connection_of_the_marks_is_asked_to_stop() {
    for checks in [false, true] {
        let pool = Arc::new(Semaphore::new(1));
        let fence = Fence::new(pooled(&pool)).drop_older_after(Duration::ZERO);
        let fence = if checks { all_issued(fence, Duration::ZERO) } else { fence };
        let older = fence.admit(&file(), token(33)).await.unwrap();
        let transaction = Arc::clone(&pool).acquire_owned().await.unwrap();
        let stop = older.superseded();
        let task = tokio::spawn(async move {
            stop.await;
            drop((transaction, older));
        });
        let newer = fence.admit(&file(), token(34)).await;
        assert!(newer.is_ok(), "{checks}: {newer:?}");
        task.await.unwrap();
    }
}

/// The marks had little time, and are not said to be slow.
#[tokio::test(start_paused = true)]
async fn marks_that_had_what_the_question_left_are_not_blamed_for_the_whole_limit() {
    let pool = Arc::new(Semaphore::new(0));
    let fence = all_issued(Fence::new(pooled(&pool)), Duration::from_secs(2));
    let error = fence.admit(&file(), token(34)).await.unwrap_err().to_string();
    let blamed = "no answer within what the lock service had left of 5000 ms";
    assert!(error.ends_with(blamed), "{error}");
}

/// Marks whose mark an operator lowers just when somebody has read it.
struct LoweredAfterTheRead(Arc<MemoryMarks>);

impl Marks for LoweredAfterTheRead {
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), FenceError>> {
        self.0.raise(resource, token)
    }

    fn highest<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        async move {
            let highest = self.0.highest(resource).await;
            if highest.as_ref().is_ok_and(|highest| *highest == Some(token(GIANT))) {
                self.0.lower(resource, token(GIANT), token(34)).unwrap();
            }
            highest
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_token_below_a_poisoned_mark_is_stale_even_if_the_mark_is_lowered_meanwhile() {
    let marks = Arc::new(MemoryMarks::default());
    marks.raise(&file(), token(GIANT)).await.unwrap();
    let fence = Fence::new(LoweredAfterTheRead(Arc::clone(&marks)))
        .check_sequencer(|_: Sequencer| async { Ok::<_, Infallible>(false) });
    let refused = fence.admit(&file(), token(GIANT - 1)).await;
    assert!(matches!(refused, Err(FenceError::Stale(_))), "{refused:?}");
    assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(34)));
}

/// A lock service whose answers are on their way for 20 ms, and how many leases it has granted.
fn with_a_way_back() -> (Fence, Arc<AtomicUsize>) {
    let newest = Arc::new(AtomicUsize::new(34));
    let read = Arc::clone(&newest);
    let fence = fence().check_sequencer(move |shown: Sequencer| {
        let read = Arc::clone(&read);
        async move {
            let newest = read.load(Ordering::SeqCst) as u64;
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Infallible>(shown.token.get() <= newest)
        }
    });
    (fence, newest)
}

#[tokio::test(start_paused = true)]
async fn a_no_from_before_the_grant_does_not_refuse_the_holder() {
    let (fence, newest) = with_a_way_back();
    let forger = fence.clone();
    let forger = tokio::spawn(async move { forger.admit(&file(), token(35)).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(10)).await;
    newest.store(35, Ordering::SeqCst);
    let holder = fence.admit(&file(), token(35)).await;
    assert!(forger.await.unwrap().is_err());
    assert!(holder.is_ok(), "{holder:?}");
}

#[tokio::test(start_paused = true)]
async fn forgers_who_guess_the_next_token_refuse_no_holder() {
    let (fence, newest) = with_a_way_back();
    for forger in 1..5_u64 {
        let (fence, newest) = (fence.clone(), Arc::clone(&newest));
        tokio::spawn(async move {
            loop {
                let next = newest.load(Ordering::SeqCst) as u64 + 1;
                let _ = fence.admit(&file(), token(next)).await.map(drop);
                tokio::time::sleep(Duration::from_millis(forger)).await;
            }
        });
    }
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(37)).await;
        let mine = newest.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        let outcome = fence.admit(&file(), token(mine)).await;
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// The first one is alive, and its task does something else.
#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_polls_holds_up_no_equal_token() {
    let fence = all_issued(fence(), Duration::from_millis(5));
    let first = begun(async { fence.admit(&file(), token(34)).await });
    let second = fence.admit(&file(), token(34)).await;
    assert!(second.is_ok(), "{second:?}");
    drop(first);
}

/// Ten requests with one token at once, where the lock service takes this long for each answer, and never answers the
/// first question if that hangs. Returns the outcomes, and how often it was asked.
async fn ten_at_once(
    seconds: f32,
    answer: Result<bool, &'static str>,
    hangs: bool,
) -> (Vec<Result<Admission, FenceError>>, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let fence = fence().check_sequencer(move |_: Sequencer| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first && hangs {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs_f32(seconds)).await;
            answer
        }
    });
    let resource = file();
    let ten = (0..10).map(|_| fence.admit(&resource, token(34)));
    (futures_util::future::join_all(ten).await, asked.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_question_that_hangs_is_asked_once_more() {
    let (admitted, asked) = ten_at_once(0.05, Ok(true), true).await;
    assert!(admitted.iter().all(Result::is_ok), "{admitted:?}");
    assert_eq!(asked, 2);
}

/// The first one has the answer, though it took more than its share of the limit.
#[tokio::test(start_paused = true)]
async fn a_late_yes_counts() {
    let (admitted, _) = ten_at_once(4.0, Ok(true), false).await;
    assert!(admitted.iter().all(Result::is_ok), "{admitted:?}");
}

#[tokio::test(start_paused = true)]
async fn all_who_ask_share_an_error() {
    let (refused, asked) = ten_at_once(2.0, Err("it is down"), false).await;
    for refused in refused {
        assert!(refused.unwrap_err().to_string().contains("it is down"));
    }
    assert_eq!(asked, 1);
}
