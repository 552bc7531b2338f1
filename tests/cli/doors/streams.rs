//! Large bodies pass in constant memory.

use std::io::Read;

use super::upstream::MANY;
use super::*;

/// The process has never had more than this in memory, in KiB.
const BOUND: usize = 64 << 10;

fn assert_bounded(door: &Door) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", door.process.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < BOUND, "{peak} KiB");
}

#[test]
fn large_bodies_go_up_and_come_down_in_constant_memory() {
    let (_upstream, door) = proxied("");
    let mut piece = vec![b'x'; 1 << 20];
    let chunk = [b"100000\r\n", &piece[..], b"\r\n"].concat();
    for (length, piece, end) in [(Some(MANY), &piece, ""), (None, &chunk, "0\r\n\r\n")] {
        let mut client = door.begin("/files/a", 33, length, "");
        (0..MANY >> 20).for_each(|_| client.send(piece));
        client.send(end);
        let (answer, read) = (client.answer(), MANY.to_string());
        assert_eq!((answer.status, answer.header("x-read")), (200, Some(&*read)));
        assert_bounded(&door);
    }
    let mut client = Client::connect(door.requests);
    client.send(head("GET", "/many/a", &[("Fencing-Token", "33")]));
    let mut all = 0;
    while all < MANY {
        let read = client.stream().read(&mut piece).unwrap();
        assert!(read > 0, "it ended after {all} bytes");
        all += read;
    }
    assert_bounded(&door);
}
