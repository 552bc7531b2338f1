//! Something in between that shares one connection out among many, and mixes up their answers:
//! an answer carries the number of its request, and no two sessions count from the same one.

use crate::proxy::proxy;
use crate::scripts::member::*;

/// What becomes of the next answer of a script.
enum Next {
    /// It reaches its caller.
    Passes,
    /// It is kept, and its caller waits on.
    Kept,
    /// That which was kept comes in its place.
    Swapped(Vec<u8>),
}

/// The address of a proxy, and what it does with the next answer.
fn mixing(server: &RedisServer) -> (String, Arc<Mutex<Next>>) {
    let next = Arc::new(Mutex::new(Next::Passes));
    let command = Arc::clone(&next);
    let filter = move |command: &Mutex<Next>, answer: Vec<u8>| {
        // Only scripts answer with an array.
        if answer[0] != b'*' {
            return Some(answer);
        }
        let mut command = command.lock().unwrap();
        match std::mem::replace(&mut *command, Next::Passes) {
            Next::Passes => Some(answer),
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
    (url, next)
}

async fn session(url: &str, fleet: &Fleet) -> Box<dyn Session> {
    RedisNode::new(url, "fencing").unwrap().open(fleet).await.unwrap()
}

/// The grant of the first must not be taken for that of the second, who gets none.
#[tokio::test]
async fn the_answer_of_another_session_is_nobodys() {
    let (server, _member) = admitted().await;
    let (url, next) = mixing(&server);
    let fleet = fleet(std::slice::from_ref(&server));
    let acquire = |owner| acquire(resource(), owner, TTL);
    let (first, second) = (session(&url, &fleet).await, session(&url, &fleet).await);
    *next.lock().unwrap() = Next::Kept;
    let unanswered = tokio::spawn(first.call(acquire(OWNER)));
    while !matches!(&*next.lock().unwrap(), Next::Swapped(_)) {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(!unanswered.is_finished());
    let answer = second.call(acquire(OTHER)).await;
    assert!(matches!(answer, Err(Fault::Disconnected(_))), "{answer:?}");
    // What comes in its turn is taken.
    let third = session(&url, &fleet).await;
    let answer = third.call(acquire(OTHER)).await;
    assert!(matches!(answer, Ok(Reply::Held { .. })), "{answer:?}");
}
