//! A GiB passes in constant memory.

use std::io::{BufReader, Read, Write};

use super::Door;
use super::client::{connect, head, read};
use super::upstream::{MANY, Upstream};

/// The most that the process has had in memory, in KiB.
fn peak(door: &Door) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", door.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

const BOUND: usize = 64 << 10;

#[test]
fn a_gib_goes_up_and_comes_down_in_constant_memory() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let piece = vec![b'x'; 1 << 20];
    for chunked in [false, true] {
        let stream = connect(door.requests);
        let mut writing = stream.try_clone().unwrap();
        let length = MANY.to_string();
        let framing = match chunked {
            false => ("Content-Length", length.as_str()),
            true => ("Transfer-Encoding", "chunked"),
        };
        let head = head("PUT", "/files/a", &[("Fencing-Token", "33"), framing]);
        writing.write_all(head.as_bytes()).unwrap();
        for _ in 0..MANY >> 20 {
            if chunked {
                writing.write_all(b"100000\r\n").unwrap();
            }
            writing.write_all(&piece).unwrap();
            if chunked {
                writing.write_all(b"\r\n").unwrap();
            }
        }
        if chunked {
            writing.write_all(b"0\r\n\r\n").unwrap();
        }
        let answer = read(&mut BufReader::new(stream)).unwrap();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some(length.as_str())));
        assert!(peak(&door) < BOUND, "{} KiB", peak(&door));
    }
    let mut stream = connect(door.requests);
    stream
        .write_all(super::client::head("GET", "/many/a", &[("Fencing-Token", "33")]).as_bytes())
        .unwrap();
    let mut piece = piece;
    let mut all = 0;
    while all < MANY {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "it ended after {all} bytes");
        all += read;
    }
    assert!(peak(&door) < BOUND, "{} KiB", peak(&door));
}
