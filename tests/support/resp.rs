//! What a client of Redis sends, for servers that are none.

use std::io::BufRead;
use std::net::{TcpListener, TcpStream};

/// Reads one command. `None` where there is none any more.
pub fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(reader, '*')? {
        let mut word = vec![0; number(reader, '$')? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim().strip_prefix(sign)?.parse().ok()
}

/// Listens for as long as the test runs, and returns the address. Each connection is served until `None`.
pub fn fake(serve: impl Fn(TcpStream) -> Option<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

/// A text, as a server writes it.
pub fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// What a server says of itself that could be a node.
pub const INFO: &str = "run_id:0123\r\nrole:master\r\nloading:0\r\nmaxmemory:0\r\n";
