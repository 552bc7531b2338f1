//! A mark is raised by nothing but a token that was issued, where somebody can say so.

use std::sync::Mutex;

use fencing::Sequencer;
use fencing::fence::NotIssued;

use super::*;

pub const GIANT: u64 = 999_999_999_999_999;

/// A lock service that has issued the tokens up to this one, for `files/a` only, and takes a while to say so.
pub struct Issuer {
    after: Duration,
    newest: AtomicUsize,
    /// What it was asked.
    asked: Mutex<Vec<u64>>,
    open: AtomicUsize,
    /// How many questions it had at once.
    pub most: AtomicUsize,
}

impl Issuer {
    pub fn up_to(newest: u64, after: Duration) -> Arc<Issuer> {
        let [newest, open, most] = [newest as usize, 0, 0].map(AtomicUsize::new);
        Arc::new(Issuer { after, newest, asked: Mutex::default(), open, most })
    }

    /// From now on. With none it does not answer.
    pub fn issues(&self, newest: u64) {
        self.newest.store(newest as usize, Ordering::SeqCst);
    }

    pub fn guard(self: &Arc<Issuer>, fence: Fence) -> Fence {
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
    let send =
        async |method: &str, token: u64| ask(&app, request(method, &[&token.to_string()])).await;
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
    let send = async |token: &str| ask(&app, request("PUT", &[token])).await;
    assert_eq!(send("33").await.status(), 200);
    issuer.issues(0);
    let response = send("34").await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let found = problem(response).await;
    assert_eq!(found.kind, Problem::UNAVAILABLE);
    assert!(found.detail.starts_with("the token could not be checked"), "{}", found.detail);
    assert!(!found.detail.contains("secret-host"), "{}", found.detail);
    assert_eq!(send("33").await.status(), 200, "what was checked before goes on");
    issuer.issues(34);
    assert_eq!(send("34").await.status(), 200);
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
    let send = async |token: &str| ask(&app, request("PUT", &[token])).await;
    for forged in ["1000001", "999999999999999"] {
        let found = refused(send(forged).await, 400).await;
        assert_eq!(found.kind, Problem::NOT_ISSUED);
        // Neither where the ceiling is, nor what to do about it.
        assert_eq!(found.detail, format!("token {forged} of files/a was not issued"));
        assert_eq!(found.highest, None);
    }
    assert!(issuer.asked().is_empty());
    assert_eq!(send("33").await.status(), 200);
    assert_eq!(send("1000000").await.status(), 200);
}

/// The way back, where nobody was asked and a mark was poisoned.
#[tokio::test]
async fn an_operator_puts_a_poisoned_mark_back() {
    let marks = Arc::new(MemoryMarks::default());
    let fence = Fence::new(Arc::clone(&marks));
    let app = app(fence.clone());
    let put =
        async |token: u64| send(&app, "PUT", "/files/a", Some(&token.to_string())).await.status();
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
