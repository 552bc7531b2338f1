//! Something in between that shares one connection out among many, and mixes up their answers:
//! an answer carries the number of its request, and no two sessions count from the same one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::lock::redlock::{Node, RedisNode, Session};
use fencing_protocol::{Fault, Fleet, Mode, Reply, Request};

use crate::scripts::member::{OTHER, OWNER, TTL, admitted, fleet};
use crate::scripts::resource;

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
fn proxy(server: PathBuf) -> (String, Arc<Mutex<Next>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let next = Arc::new(Mutex::new(Next::Passes));
    let command = Arc::clone(&next);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let command = Arc::clone(&command);
            std::thread::spawn(move || answers(server, client, &command));
        }
    });
    (url, next)
}

fn answers(mut server: UnixStream, mut client: TcpStream, command: &Mutex<Next>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        let mut answer = bytes[..count].to_vec();
        // Only scripts answer with an array.
        if answer[0] == b'*' {
            let mut command = command.lock().unwrap();
            match std::mem::replace(&mut *command, Next::Passes) {
                Next::Passes => {}
                Next::Kept => {
                    *command = Next::Swapped(answer);
                    continue;
                }
                Next::Swapped(kept) => answer = kept,
            }
        }
        if client.write_all(&answer).is_err() {
            return;
        }
    }
}

async fn session(url: &str, fleet: &Fleet) -> Box<dyn Session> {
    RedisNode::new(url, "fencing").unwrap().open(fleet).await.unwrap()
}

/// The grant of the first must not be taken for that of the second, who gets none.
#[tokio::test]
async fn the_answer_of_another_session_is_nobodys() {
    let (server, _member) = admitted().await;
    let (url, next) = proxy(server.socket());
    let fleet = fleet(std::slice::from_ref(&server));
    let acquire =
        |owner| Request::Acquire { mode: Mode::Exclusive, resource: resource(), owner, ttl: TTL };
    let (first, second) = (session(&url, &fleet).await, session(&url, &fleet).await);
    *next.lock().unwrap() = Next::Kept;
    let unanswered = tokio::spawn(first.call(acquire(OWNER)));
    while !matches!(&*next.lock().unwrap(), Next::Swapped(_)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!unanswered.is_finished());
    let answer = second.call(acquire(OTHER)).await;
    assert!(matches!(answer, Err(Fault::Disconnected(_))), "{answer:?}");
    // What comes in its turn is taken.
    let third = session(&url, &fleet).await;
    let answer = third.call(acquire(OTHER)).await;
    assert!(matches!(answer, Ok(Reply::Held { .. })), "{answer:?}");
}
