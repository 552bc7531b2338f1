//! Something between clients and a server that keeps or changes what the server says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::spawn;

/// Starts a proxy, and returns its address. Each connection has a filter of its own, which says what comes in place of
/// an answer, if anything.
pub fn proxy<F>(server: PathBuf, filter: impl Fn() -> F + Send + 'static) -> String
where
    F: Fn(Vec<u8>) -> Option<Vec<u8>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            spawn(move || std::io::copy(&mut from, &mut to));
            let filter = filter();
            spawn(move || answers(server, client, filter));
        }
    });
    url
}

fn answers(mut from: UnixStream, mut to: TcpStream, filter: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(answer) = filter(bytes[..count].to_vec())
            && to.write_all(&answer).is_err()
        {
            return;
        }
    }
}
