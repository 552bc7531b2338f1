//! A mark is raised by nothing but a token that was issued, if somebody can say so. Requests with one token share the
//! question, and its answer if they may.

use std::sync::Mutex;

use fencing::Sequencer;
use fencing::fence::NotIssued;

use super::*;

const GIANT: u64 = 999_999_999_999_999;

/// A lock service that has issued the tokens up to this one, for `files/a` only, and takes a while to say so.
struct Issuer {
    after: Duration,
    newest: AtomicUsize,
    asked: Mutex<Vec<u64>>,
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Issuer {
    fn up_to(newest: u64, after: Duration) -> Arc<Issuer> {
        let [newest, open, most] = [newest as usize, 0, 0].map(AtomicUsize::new);
        Arc::new(Issuer { after, newest, asked: Mutex::default(), open, most })
    }

    /// From now on. With none it does not answer.
    fn issues(&self, newest: u64) {
        self.newest.store(newest as usize, Ordering::SeqCst);
    }

    fn guard(self: &Arc<Issuer>, fence: Fence) -> Fence {
        let this = Arc::clone(self);
        fence.check_sequencer(move |shown: Sequencer| {
            let this = Arc::clone(&this);
            async move {
                let newest = this.newest.load(Ordering::SeqCst) as u64;
                this.asked.lock().unwrap().push(shown.token.get());
                let open = this.open.fetch_add(1, Ordering::SeqCst) + 1;
                this.most.fetch_max(open, Ordering::SeqCst);
                tokio::time::sleep(this.after).await;
                this.open.fetch_sub(1, Ordering::SeqCst);
                let issued = shown.resource.as_str() == "files/a" && shown.token.get() <= newest;
                if newest == 0 { Err("secret-host does not answer") } else { Ok(issued) }
            }
        })
    }

    fn asked(&self) -> Vec<u64> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// What a question takes where it does not matter.
const BRIEF: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_forged_token_raises_no_mark_and_honest_clients_go_on() {
    let issuer = Issuer::up_to(34, BRIEF);
    let app = app(issuer.guard(fence()));
    let send = async |method: &str, token: u64| ask(&app, request(method, &[&token.to_string()])).await;
    assert_eq!(send("PUT", 33).await.status(), 200);
    for method in ["PUT", "GET", "HEAD", "OPTIONS", "PATCH"] {
        for forged in [GIANT, 35] {
            let response = send(method, forged).await;
            assert_eq!(response.status(), 400, "{method} {forged}");
            assert!(!response.headers().contains_key(header::RETRY_AFTER));
            assert!(matches!(response.extensions().get(), Some(Refusal::NotIssued(_))));
        }
    }
    let found = problem(send("PUT", GIANT).await).await;
    assert_eq!(found.kind, Problem::NOT_ISSUED);
    assert_eq!((found.presented, found.highest), (Some(token(GIANT)), None));
    assert!(found.detail.contains("was not issued: acquire a lease"), "{}", found.detail);
    assert_eq!(send("PUT", 33).await.status(), 200, "the honest go on");
    assert_eq!(send("PUT", 34).await.status(), 200);
    assert_eq!(send("PUT", 33).await.status(), 412);
}

#[tokio::test(start_paused = true)]
async fn only_tokens_that_would_raise_the_mark_are_asked_about_and_once() {
    let issuer = Issuer::up_to(40, BRIEF);
    let fence = issuer.guard(fence());
    let resource = file();
    for number in [33, 33, 34, 33, 34, 1, 36, 35, 36] {
        drop(fence.admit(&resource, token(number)).await);
    }
    assert_eq!(issuer.asked(), [33, 34, 36]);
    // Those that come together share one question, and its answer.
    let together = (0..50).map(|_| fence.admit(&resource, token(40)));
    let admitted = futures_util::future::join_all(together).await;
    assert!(admitted.iter().all(Result::is_ok));
    assert_eq!(issuer.asked(), [40]);
    let together = (0..50).map(|_| fence.admit(&resource, token(41)));
    for refused in futures_util::future::join_all(together).await {
        assert!(matches!(refused, Err(FenceError::NotIssued(NotIssued { ceiling: None, .. }))));
    }
    // Those that came later were refused by a question that began when they were there.
    assert_eq!(issuer.asked(), [41, 41]);
    // A token of another resource is not one of this.
    let other = named("files/b");
    assert!(matches!(fence.admit(&other, token(34)).await, Err(FenceError::NotIssued(_))));
}

#[tokio::test]
async fn when_the_lock_service_cannot_be_asked_no_mark_is_raised() {
    let issuer = Issuer::up_to(33, BRIEF);
    let app = app(issuer.guard(fence()));
    assert_eq!(write(&app, 33).await.status(), 200);
    issuer.issues(0);
    let response = write(&app, 34).await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let found = problem(response).await;
    assert_eq!(found.kind, Problem::UNAVAILABLE);
    assert!(found.detail.starts_with("the token could not be checked"), "{}", found.detail);
    assert!(!found.detail.contains("secret-host"), "{}", found.detail);
    assert_eq!(write(&app, 33).await.status(), 200, "what was checked before goes on");
    issuer.issues(34);
    assert_eq!(write(&app, 34).await.status(), 200);
}

/// Neither the lock service nor a forger keeps others waiting.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_ends_with_the_limit_and_holds_up_nobody() {
    let fence = fence().drop_older_after(Duration::ZERO).limit(Duration::from_secs(1));
    let fence = fence.check_sequencer(|shown: Sequencer| async move {
        if shown.token.get() != 33 && shown.token.get() != 34 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(true)
    });
    let resource = file();
    let first = fence.admit(&resource, token(33)).await.unwrap();
    let mut superseded = Box::pin(first.superseded());
    let forged = begun(fence.admit(&resource, token(GIANT)));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!((&mut superseded).now_or_never().is_none(), "it stops nobody");
    drop((superseded, first));
    assert!(fence.admit(&resource, token(34)).now_or_never().unwrap().is_ok());
    let error = forged.await.unwrap_err();
    assert!(matches!(error, FenceError::Unchecked { .. }), "{error}");
    assert!(error.to_string().contains("no answer within 1000 ms"), "{error}");
}

#[tokio::test]
async fn a_token_above_the_ceiling_is_refused_before_anybody_is_asked() {
    let issuer = Issuer::up_to(GIANT, BRIEF);
    let app = app(issuer.guard(fence()).ceiling(token(1_000_000)));
    for forged in [1_000_001, GIANT] {
        let found = refused(write(&app, forged).await, 400).await;
        assert_eq!(found.kind, Problem::NOT_ISSUED);
        // Neither where the ceiling is, nor what to do about it.
        assert_eq!(found.detail, format!("token {forged} of files/a was not issued"));
        assert_eq!(found.highest, None);
    }
    assert!(issuer.asked().is_empty());
    assert_eq!(write(&app, 33).await.status(), 200);
    assert_eq!(write(&app, 1_000_000).await.status(), 200);
}

/// The way back, where nobody was asked and a mark was poisoned.
#[tokio::test]
async fn an_operator_puts_a_poisoned_mark_back() {
    let marks = Arc::new(MemoryMarks::default());
    let fence = Fence::new(Arc::clone(&marks));
    let app = app(fence.clone());
    let put = async |token: u64| write(&app, token).await.status();
    let resource = file();
    let lower = |from, to| marks.lower(&resource, token(from), token(to)).map_err(|no| no.mark);
    assert_eq!(lower(GIANT, 34), Err(None));
    assert_eq!(put(34).await, 200);
    let forged = fence.admit(&resource, token(GIANT)).await.unwrap();
    assert_eq!(put(34).await, 412);
    assert_eq!(lower(GIANT, 34), Ok(()));
    assert_eq!(put(34).await, 412, "the forged one is in flight yet");
    drop(forged);
    assert_eq!(put(34).await, 200);
    assert_eq!(put(33).await, 412, "the fence holds as before");
    assert_eq!(lower(GIANT, 34), Err(Some(token(34))), "it is lowered already");
    assert_eq!(lower(34, 40), Err(Some(token(34))), "it never raises");
    assert_eq!(put(35).await, 200);
}

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

#[tokio::test(start_paused = true)]
async fn forged_tokens_of_other_resources_keep_no_holder_out() {
    let issuer = Issuer::up_to(34, Duration::from_millis(100));
    let fence = issuer.guard(fence());
    let forged = (0..1000).map(|number| {
        let fence = fence.clone();
        tokio::spawn(async move {
            let resource = named(&format!("forged/{}", number / 16));
            fence.admit(&resource, token(35 + number % 16)).await.map(drop)
        })
    });
    let forged: Vec<_> = forged.collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for number in 0..100 {
        let holder = fence.admit(&named(&format!("files/{number}")), token(34)).now_or_never();
        assert!(holder.is_none(), "the check of {number}: {holder:?}");
    }
    let holder = fence.admit(&file(), token(34)).await;
    assert!(holder.is_ok(), "{holder:?}");
    for refused in forged {
        assert!(refused.await.unwrap().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_token_is_refused_at_the_gate_before_the_marks_are_asked() {
    let pool = Arc::new(Semaphore::new(1));
    let fence = Issuer::up_to(GIANT, Duration::ZERO).guard(Fence::new(pooled(&pool)));
    let _newer = fence.admit(&file(), token(34)).await.unwrap();
    let _busy = pool.acquire().await.unwrap();
    let stale = fence.admit(&file(), token(33)).now_or_never();
    assert!(matches!(stale, Some(Err(FenceError::Stale(_)))), "it asks the marks: {stale:?}");
}

/// The newer request gets as far as the gate, and asks the older one to stop.
#[tokio::test(start_paused = true)]
async fn an_older_request_that_has_the_connection_of_the_marks_is_asked_to_stop() {
    let pool = Arc::new(Semaphore::new(1));
    let fence = Fence::new(pooled(&pool)).drop_older_after(Duration::ZERO);
    let fence = Issuer::up_to(GIANT, Duration::ZERO).guard(fence);
    let older = fence.admit(&file(), token(33)).await.unwrap();
    let transaction = Arc::clone(&pool).acquire_owned().await.unwrap();
    let stop = older.superseded();
    let task = tokio::spawn(async move {
        stop.await;
        drop((transaction, older));
    });
    let newer = fence.admit(&file(), token(34)).await;
    assert!(newer.is_ok(), "{newer:?}");
    task.await.unwrap();
}

/// The marks had little time, and are not said to be slow.
#[tokio::test(start_paused = true)]
async fn marks_that_had_what_the_question_left_are_not_blamed_for_the_whole_limit() {
    let pool = Arc::new(Semaphore::new(0));
    let fence = Issuer::up_to(GIANT, Duration::from_secs(2)).guard(Fence::new(pooled(&pool)));
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

/// The first one is alive, and its task does something else.
#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_polls_holds_up_no_equal_token() {
    let fence = Issuer::up_to(GIANT, Duration::from_millis(5)).guard(fence());
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
