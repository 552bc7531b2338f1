//! Requests with one token share the question whether it was issued, and its answer where they may.

use fencing::Sequencer;

use super::issued::{GIANT, Issuer};
use super::*;

#[tokio::test(start_paused = true)]
async fn forged_tokens_are_asked_about_16_at_a_time_and_the_holder_among_them() {
    let issuer = Issuer::up_to(34, Duration::from_millis(100));
    let (fence, resource) = (issuer.guard(fence()), file());
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
                assert!(cause.to_string().contains("too many checks"), "{cause}");
                crowded += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(crowded >= 1000 - 16, "{crowded}");
    // The one that gave way ends when it is polled.
    assert!(issuer.most.load(Ordering::SeqCst) <= 17, "{:?} at once", issuer.most);
}

#[tokio::test(start_paused = true)]
async fn a_fence_asks_about_1000_tokens_at_a_time() {
    let issuer = Issuer::up_to(34, Duration::from_millis(100));
    let fence = issuer.guard(fence());
    let name = |number: u64| named(&format!("files/{number}"));
    let forged = (0..5000).map(|number| {
        let fence = fence.clone();
        async move { fence.admit(&name(number), token(35)).await.map(drop) }
    });
    let refused = futures_util::future::join_all(forged).await;
    let asked = refused.iter().filter(|no| matches!(no, Err(FenceError::NotIssued(_)))).count();
    assert_eq!((asked, issuer.most.load(Ordering::SeqCst)), (1000, 1000));
    assert!(fence.admit(&file(), token(34)).await.is_ok());
}

/// Behind a lock service that has issued every token, which it says after this time.
fn all_issued(fence: Fence, after: Duration) -> Fence {
    Issuer::up_to(GIANT, after).guard(fence)
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

#[tokio::test]
async fn a_token_below_a_poisoned_mark_is_stale_even_if_the_mark_is_lowered_meanwhile() {
    /// Lowers the mark just when somebody has read it.
    struct Lowers(Arc<MemoryMarks>);
    impl Drop for Lowers {
        fn drop(&mut self) {
            let _ = self.0.lower(&file(), token(GIANT), token(34));
        }
    }
    let marks = Arc::new(MemoryMarks::default());
    marks.raise(&file(), token(GIANT)).await.unwrap();
    let lowered = Arc::clone(&marks);
    let fence = Fence::new(Behind(Arc::clone(&marks), move || ready(Lowers(Arc::clone(&lowered)))))
        .check_sequencer(|_: Sequencer| async { Ok::<_, Infallible>(false) });
    let refused = fence.admit(&file(), token(GIANT - 1)).await;
    assert!(matches!(refused, Err(FenceError::Stale(_))), "{refused:?}");
    assert_eq!(marks.highest(&file()).await.unwrap(), Some(token(34)));
}

/// The answers of the lock service are on their way for 20 ms.
#[tokio::test(start_paused = true)]
async fn a_no_from_before_the_grant_does_not_refuse_the_holder() {
    let issuer = Issuer::up_to(34, Duration::from_millis(20));
    let fence = issuer.guard(fence());
    let forger = fence.clone();
    let forger = tokio::spawn(async move { forger.admit(&file(), token(35)).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(10)).await;
    issuer.issues(35);
    let holder = fence.admit(&file(), token(35)).await;
    assert!(forger.await.unwrap().is_err());
    assert!(holder.is_ok(), "{holder:?}");
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

/// Ten requests with one token at once, where each answer of the lock service takes this many milliseconds; one that
/// hangs never answers the first question. A late yes counts, though it took more than its share of the limit, a
/// question that hangs is asked once more, and all who ask share an error.
#[tokio::test(start_paused = true)]
async fn ten_at_once_share_the_question_and_its_answer() {
    type Answer = Result<bool, &'static str>;
    let cases: [(u64, Answer, bool, usize); 3] =
        [(50, Ok(true), true, 2), (4000, Ok(true), false, 2), (2000, Err("it is down"), false, 1)];
    for (millis, answer, hangs, questions) in cases {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let fence = fence().check_sequencer(move |_: Sequencer| {
            let first = count.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first && hangs {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(millis)).await;
                answer
            }
        });
        let resource = file();
        let ten = (0..10).map(|_| fence.admit(&resource, token(34)));
        for outcome in futures_util::future::join_all(ten).await {
            match answer {
                Ok(_) => assert!(outcome.is_ok(), "{millis}: {outcome:?}"),
                Err(error) => assert!(outcome.unwrap_err().to_string().contains(error)),
            }
        }
        assert_eq!(asked.load(Ordering::SeqCst), questions, "{millis}");
    }
}
