//! Something in between that shares one connection out among many, and loses their answers or mixes them up: an answer
//! carries the number of its request, and no two sessions count from the same one.

use crate::proxy::proxy;
use crate::scripts::member::*;

/// What becomes of the next answer of a script.
enum Next {
    /// It reaches its caller.
    Passes,
    /// It is lost, and its caller waits on.
    Lost,
    /// It is kept, and its caller waits on.
    Kept,
    /// That which was kept comes in its place.
    Swapped(Vec<u8>),
}

/// Something between clients and a server.
struct Between {
    url: String,
    next: Arc<Mutex<Next>>,
}

impl Between {
    fn clients_and(server: &RedisServer) -> Between {
        let next = Arc::new(Mutex::new(Next::Passes));
        let command = Arc::clone(&next);
        let filter = move |command: &Mutex<Next>, answer: Vec<u8>| {
            // Only scripts answer with a list, or with one of these texts.
            let text = String::from_utf8_lossy(&answer);
            if answer[0] != b'*' && !text.contains(" granted ") && !text.contains(" released") {
                return Some(answer);
            }
            let mut command = command.lock().unwrap();
            match std::mem::replace(&mut *command, Next::Passes) {
                Next::Passes => Some(answer),
                Next::Lost => None,
                Next::Kept => {
                    *command = Next::Swapped(answer);
                    None
                }
                Next::Swapped(kept) => Some(kept),
            }
        };
        let url = proxy(server.socket(), move || {
            let command = Arc::clone(&command);
            move |answer| filter(&command, answer)
        });
        Between { url, next }
    }

    fn will(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }

    /// Waits until what it will do has been done once.
    async fn is_done(&self) {
        let done = |next: &Next| matches!(next, Next::Passes | Next::Swapped(_));
        until("an answer is there", async || done(&self.next.lock().unwrap())).await;
    }

    /// A session as the clients of that server have it.
    async fn session(&self, server: &RedisServer) -> Box<dyn Session> {
        RedisNode::new(&self.url, "fencing").unwrap().open(&fleet(server), "me").await.unwrap()
    }
}

/// The grant of the first must not be taken for that of the second, who gets none.
#[tokio::test]
async fn the_answer_of_another_session_is_nobodys() {
    let (server, _member) = admitted().await;
    let between = Between::clients_and(&server);
    let acquire = |owner| acquire(&resource(), owner);
    let (first, second) = (between.session(&server).await, between.session(&server).await);
    between.will(Next::Kept);
    let unanswered = tokio::spawn(ask_alone(&*first, acquire(ALICE)));
    between.is_done().await;
    assert!(!unanswered.is_finished());
    let answer = ask_alone(&*second, acquire(BOB)).await;
    assert!(matches!(answer, Err(Fault::Disconnected(_))), "{answer:?}");
    // What comes in its turn is taken.
    let answer = ask_alone(&*between.session(&server).await, acquire(BOB)).await;
    assert!(matches!(answer, Ok(Reply::Held { .. })), "{answer:?}");
}

/// Redis numbers nothing: each later answer looks like that of the request before. The one is held by another; a grant
/// of the other must not be taken for it.
#[tokio::test]
async fn an_answer_is_not_taken_for_the_one_before() {
    let (server, member) = admitted().await;
    member.granted(BOB, TTL).await;
    let between = Between::clients_and(&server);
    let session = between.session(&server).await;
    between.will(Next::Lost);
    let held = tokio::spawn(ask_alone(&*session, acquire(&resource(), ALICE)));
    between.is_done().await;
    assert!(!held.is_finished());
    let _other = tokio::spawn(ask_alone(&*session, acquire(&named("free"), ALICE)));
    let answer = in_time(held).await.unwrap();
    assert!(matches!(answer, Err(Fault::Disconnected(_))), "{answer:?}");
}

/// A client that goes on with such a connection never gets an answer in time again.
#[tokio::test]
async fn a_client_goes_on_over_another_connection() {
    let server = RedisServer::start();
    let between = Between::clients_and(&server);
    let builder = service(&[]).redis([&between.url]).ttl(Duration::from_secs(2)).wait(PATIENCE);
    let redlock = builder.retry_delay(Duration::from_millis(5)).build().unwrap();
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..20 {
        between.will(Next::Lost);
        let lease = redlock.acquire(&resource()).await;
        let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(lease.token() > last, "round {round}");
        last = lease.token();
    }
}
