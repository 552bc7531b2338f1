//! Something in between that shares one connection out among many, and loses their answers or mixes them up: an answer
//! carries the number of its request, and no two sessions count from the same one. What one client sends arrives in its
//! order; a TTL is rounded up to milliseconds, as a lock must not end before its lease. A session loads its scripts
//! once; a server that has lost them costs a vote, and no lock is left.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use support::ports::serve_each;
use tokio::task::unconstrained;

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

impl Next {
    fn in_place_of(&mut self, answer: Vec<u8>) -> Option<Vec<u8>> {
        // Only scripts answer with a list, or with one of these texts.
        let text = String::from_utf8_lossy(&answer);
        if answer[0] != b'*' && !text.contains(" granted ") && !text.contains(" released") {
            return Some(answer);
        }
        match std::mem::replace(self, Next::Passes) {
            Next::Passes => Some(answer),
            Next::Lost => None,
            Next::Kept => {
                *self = Next::Swapped(answer);
                None
            }
            Next::Swapped(kept) => Some(kept),
        }
    }
}

struct Between {
    url: String,
    next: Arc<Mutex<Next>>,
}

impl Between {
    fn clients_and(server: &RedisServer) -> Between {
        let next = Arc::new(Mutex::new(Next::Passes));
        let (of_each, socket) = (Arc::clone(&next), server.socket());
        let address = serve_each(move |mut client| {
            let mut server = UnixStream::connect(&socket).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count @ 1..) = server.read(&mut bytes) {
                let answer = of_each.lock().unwrap().in_place_of(bytes[..count].to_vec());
                if let Some(answer) = answer {
                    client.write_all(&answer)?;
                }
            }
            std::io::Result::Ok(())
        });
        Between { url: format!("redis://{address}"), next }
    }

    fn will(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }

    /// Waits until what it will do has been done once.
    async fn is_done(&self) {
        let done = |next: &Next| matches!(next, Next::Passes | Next::Swapped(_));
        until("an answer is there", async || done(&self.next.lock().unwrap())).await;
    }

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

/// Some requests are sent while others are written. An attempt that is dropped takes its lock back: the release must
/// not come before the request for the lock, or the lock stays for its TTL.
#[tokio::test]
async fn no_release_overtakes_its_attempt() {
    let server = RedisServer::start();
    Member::in_era_7(&server).await;
    let session = node(&server).open(&fleet(&server), "me").await.unwrap();
    let name = |number: u128| named(&format!("burst/{number}"));
    unconstrained(async {
        let acquire = |number| ask_alone(&*session, acquire(&name(number), Owner(number)));
        let mut calls: Vec<_> = (1..=120).map(acquire).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        // Those in front make room, and the next ones learn of it.
        calls.retain_mut(|call| call.now_or_never().is_none());
        let mut release = ask_alone(&*session, release(&name(110), Owner(110)));
        assert!((&mut release).now_or_never().is_none());
        calls.push(release);
        join_all(calls).await;
    })
    .await;
    let left = server.cli(&["KEYS", "*:lock:burst/*"]);
    assert_eq!(left.lines().count(), 119);
    assert!(!left.lines().any(|key| key.ends_with("/110")), "it stays for its TTL");
}

/// What the server was asked of late, one argument in a line.
fn asked(server: &RedisServer) -> Vec<String> {
    let log = server.cli(&["SLOWLOG", "GET", "-1"]);
    log.lines().map(|line| line.trim().to_owned()).collect()
}

#[tokio::test]
async fn a_part_of_a_millisecond_is_a_whole_one() {
    let (server, member) = admitted().await;
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let ttl = Duration::from_micros(600_000_500);
    let (stamp, _) = member.granted(ALICE, ttl).await;
    assert!(asked(&server).contains(&"600001".into()), "{:?}", asked(&server));
    let ttl = Duration::from_nanos(700_000_000_001);
    assert_eq!(member.renew(ALICE, stamp, ttl).await, Reply::Renewed);
    assert!(asked(&server).contains(&"700001".into()), "{:?}", asked(&server));
    // What is whole stays.
    assert_eq!(member.renew(ALICE, stamp, Duration::from_secs(800)).await, Reply::Renewed);
    assert!(asked(&server).contains(&"800000".into()), "{:?}", asked(&server));
    // Rounded down it would be nothing, and the server would refuse it.
    assert_granted(member.ask(lasting(acquire(&named("less"), BOB), Duration::from_micros(400))).await);
}

#[tokio::test]
async fn requests_carry_digests_and_a_server_that_lost_its_scripts_has_them_again_for_the_next_request() {
    let servers = five();
    let redlock = steady(&servers).build().unwrap();
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    redlock.settle().await;
    let before: Vec<_> = servers.iter().map(|server| calls(server, "eval")).collect();
    for _ in 0..20 {
        let lease = redlock.acquire(&resource()).await.unwrap();
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
    }
    redlock.settle().await;
    for (server, before) in servers.iter().zip(before) {
        assert_eq!(calls(server, "eval"), before);
        assert!(calls(server, "evalsha") >= 60);
    }

    let flush = |servers: &[RedisServer]| servers.iter().for_each(|server| drop(server.cli(&["SCRIPT", "FLUSH"])));
    let lease = redlock.acquire(&resource()).await.unwrap();
    redlock.settle().await;
    flush(&servers);
    let error = lease.renew().await.unwrap_err();
    assert!(error.to_string().contains("has lost the scripts"), "{error}");
    redlock.settle().await;
    lease.renew().await.unwrap();
    flush(&servers[..2]);
    lease.renew().await.unwrap();
    redlock.settle().await;
    // A release is sent again, with its script.
    flush(&servers);
    assert_eq!(lease.release().await, Ok(Released::Released));
    redlock.settle().await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
}

/// Then each request carries its script.
#[tokio::test]
async fn a_user_who_may_not_load_scripts_gets_leases() {
    let servers = five();
    for server in &servers {
        server.cli(&["ACL", "SETUSER", "default", "-script"]);
    }
    let redlock = steady(&servers).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
    assert!(servers.iter().all(|server| calls(server, "evalsha") == 0));
}
