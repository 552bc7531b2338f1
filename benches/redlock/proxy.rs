use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Listens at a socket, and passes on what comes to another, so much later. It has threads of its own:
/// the runtime's timers are too coarse for it.
pub fn delay(from: &Path, to: &Path, delay: Duration) {
    let listener = UnixListener::bind(from).expect("a socket");
    let to: PathBuf = to.to_owned();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = UnixStream::connect(&to).expect("the server runs");
            carry(&client, &server, delay);
            carry(&server, &client, delay);
        }
    });
}

fn carry(from: &UnixStream, to: &UnixStream, delay: Duration) {
    let (mut from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (sender, pieces) = channel();
    std::thread::spawn(move || deliver(&pieces, to));
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
}

fn deliver(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: UnixStream) {
    for (at, piece) in pieces {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
