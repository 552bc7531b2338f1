//! Ports for servers that must be told theirs before they start.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex};

static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Ports that nobody listens on, below those that the kernel gives to clients: before the server listens, a connection
/// of another test cannot take them. None is given twice.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let random = || 10_000 + (RandomState::new().hash_one(0) % 20_000) as u16;
    let mut given = GIVEN.lock().expect("no test fails here");
    [(); N].map(|()| {
        let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok() && given.insert(*port);
        std::iter::repeat_with(random).find(free).expect("there is one")
    })
}

pub fn free_port() -> u16 {
    let [port] = free_ports();
    port
}
