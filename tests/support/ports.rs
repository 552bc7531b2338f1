//! Ports for servers that must be told theirs before they start, and a port for one that a test plays.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;

/// They keep the ports from other processes, whose server could listen before ours and answer in its place.
static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Ports that nobody listens on, below those that the kernel gives to clients: before the server listens, a connection
/// of another test cannot take them. None is given twice, while this process lasts.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let random = || 10_000 + (RandomState::new().hash_one(0) % 20_000) as u16;
    let mut claims = CLAIMS.lock().expect("no test fails here");
    [(); N].map(|()| {
        let free = |port: &u16| {
            let address = (Ipv4Addr::LOCALHOST, *port);
            let claim = UdpSocket::bind(address).ok().filter(|_| TcpListener::bind(address).is_ok());
            claim.map(|claim| claims.push(claim)).is_some()
        };
        std::iter::repeat_with(random).take(10_000).find(free).expect("there is one")
    })
}

pub fn free_port() -> u16 {
    let [port] = free_ports();
    port
}

/// Serves each connection in a thread of its own, for as long as the process lasts, and returns the address.
pub fn serve_each<T: Send + 'static>(serve: impl Fn(TcpStream) -> T + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}
