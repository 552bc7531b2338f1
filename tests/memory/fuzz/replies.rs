use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use fencing::Resource;
use fencing::lock::redlock::{Node, RedisNode};
use fencing_protocol::{Fleet, Incarnation, Mode, Nonce, Owner, Reply, Request};

use crate::fuzz::bytes::{one, spoiled};
use crate::fuzz::rounds;
use support::resp::{INFO, bulk, command, fake};

const NONCE: &str = "$32\r\n00112233445566778899aabbccddeeff\r\n";

/// Answers a script may give, as a server writes them.
fn good(number: &str, rng: &mut Rng) -> String {
    let numbers =
        ["0", "1", "-1", "34", "999999", "1000000", "9223372036854775807", "-9223372036854775808"];
    let mut any = || one(&numbers, rng).to_owned();
    let [a, b, c, d] = [any(), any(), any(), any()];
    // Each begins with the number of its request.
    let int = |number: &str| format!(":{number}\r\n");
    let many =
        |parts: &[String]| format!("*{}\r\n{}{}", parts.len() + 1, int(number), parts.concat());
    match rng.u8(0..9) {
        0 => many(&[bulk("granted"), int(&a), int(&b), NONCE.into(), int("0")]),
        1 => many(&[bulk("held"), int(&a)]),
        2 => many(&[bulk("quarantined"), int(&a)]),
        3 => many(&[bulk("state"), int(&a), int(&b), int(&c)]),
        4 => {
            let numbers = [&a, &b, &c, &d, &a, &b].map(|number| int(number)).concat();
            format!("*9\r\n{}{}{NONCE}{numbers}", int(number), bulk("prepared"))
        }
        5 => {
            let words = ["not-admitted", "exhausted", "published", "renewed", "released"];
            many(&[bulk(one(&words, rng))])
        }
        6 => "-ERR no\r\n".into(),
        // Of a group.
        7 => many(&[int(&a), NONCE.into(), int(&b)]),
        // Anything at all.
        _ => {
            let mut nested = String::new();
            for _ in 0..rng.u8(1..30) {
                nested.push_str(one(
                    &["*2\r\n", ":1\r\n", "$-1\r\n", "%1\r\n", "#t\r\n", "_\r\n"],
                    rng,
                ));
                nested.push_str(one(
                    &[",inf\r\n", "(12345678901234567890\r\n", "+a\r\n", "~1\r\n"],
                    rng,
                ));
            }
            nested
        }
    }
}

/// A server that is one until a script is run; most of its answers are spoiled.
fn serve(stream: TcpStream, mut rng: Rng) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    let info = bulk(INFO);
    loop {
        let words = command(&mut reader)?;
        let answer = match words.first()?.as_str() {
            "SCRIPT" if rng.bool() => {
                b"$40\r\n0123456789012345678901234567890123456789\r\n".to_vec()
            }
            // Some are whole, so that there is something to be read.
            "EVAL" | "EVALSHA" if rng.u8(0..4) == 0 => good(words.last()?, &mut rng).into_bytes(),
            "EVAL" | "EVALSHA" => spoiled(good(words.last()?, &mut rng).as_bytes(), &mut rng),
            "INFO" if rng.u8(0..4) == 0 => spoiled(info.as_bytes(), &mut rng),
            "INFO" => info.clone().into_bytes(),
            _ => b"+OK\r\n".to_vec(),
        };
        writer.write_all(&answer).ok()?;
    }
}

fn request(rng: &mut Rng) -> Request {
    let resource = Resource::new("invoice/42").unwrap();
    let (owner, nonce, ttl) = (Owner(7), Nonce(8), Duration::from_secs(1));
    match rng.u8(0..7) {
        0..3 => Request::Acquire { mode: Mode::Exclusive, resource, owner, ttl },
        3 => Request::Prepare { nonce, from: None },
        4 => Request::Read,
        5 => Request::Release { resource, owner },
        _ => Request::Activate {
            incarnation: Incarnation::new("0123"),
            nonce,
            era: 3,
            collect: rng.bool(),
            quarantine: ttl,
            new: rng.bool(),
        },
    }
}

/// Nothing panics, nothing hangs, and no answer is taken for one that is out of range.
#[tokio::test]
async fn redis_replies() {
    let round = Arc::new(AtomicU64::new(0));
    let seed = Arc::clone(&round);
    let url = fake(move |stream| serve(stream, Rng::with_seed(seed.load(Ordering::SeqCst))));
    let fleet = Fleet::new(["a", "b"]).unwrap();
    let (mut answered, mut failed) = (0, 0);
    for seed in 0..rounds(700) {
        round.store(seed, Ordering::SeqCst);
        let mut rng = Rng::with_seed(!seed);
        let node = RedisNode::new(&url, "fencing").unwrap();
        let patience = Duration::from_millis(50);
        let Ok(Ok(session)) = tokio::time::timeout(patience, node.open(&fleet)).await else {
            failed += 1;
            continue;
        };
        for _ in 0..rng.u8(1..4) {
            // Cut short as a lane does it: an answer that never ends is none.
            match tokio::time::timeout(patience, session.call(request(&mut rng))).await {
                Ok(Ok(reply)) => {
                    answered += 1;
                    if let Reply::Granted { stamp, .. } = reply {
                        let token = stamp.token();
                        assert!(token.is_none_or(|token| token.get() > 0), "seed {seed}");
                    }
                }
                Ok(Err(_)) | Err(_) => failed += 1,
            }
        }
    }
    println!("{answered} {failed}");
    assert!(answered > 20 && failed > 50, "{answered} {failed}");
}
