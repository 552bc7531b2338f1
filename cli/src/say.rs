//! Prints on stdout and stderr. If the reader has gone away, that is not an error. If it has stopped
//! reading, only the results on stdout wait for it: a thread writes messages and the log.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

/// Messages that wait for the reader. More are dropped, and counted.
const MAX_WAITING: usize = 8192;
/// Time for which the end of the program waits for the reader.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

type Message = Box<dyn FnOnce() + Send>;

static MESSAGES: LazyLock<Option<SyncSender<Message>>> = LazyLock::new(|| {
    let (messages, waiting) = sync_channel(MAX_WAITING);
    let writer = thread::Builder::new().name("messages".into());
    writer.spawn(move || write(waiting)).is_ok().then_some(messages)
});
static DROPPED: AtomicU64 = AtomicU64::new(0);

fn write(waiting: Receiver<Message>) {
    for message in waiting {
        message();
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = writeln!(stderr(), "fencing: {dropped} messages dropped: the output was not read");
        }
    }
}

fn send(message: impl FnOnce() + Send + 'static) {
    let sent = MESSAGES.as_ref().is_some_and(|it| it.try_send(Box::new(message)).is_ok());
    DROPPED.fetch_add(u64::from(!sent), Ordering::Relaxed);
}

pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        raw(String::from_utf8_lossy(text).into_owned());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until all messages are written, for a second at most.
pub(crate) fn flush() {
    let (written, waits) = sync_channel::<()>(0);
    send(move || drop(written));
    let _ = waits.recv_timeout(FLUSH_TIMEOUT);
}

/// Prints a line on stderr, under the program's name. It never waits for the reader.
pub(crate) fn error(text: impl Display) {
    raw(format!("fencing: {text}\n"));
}

/// Prints text on stderr as it is. It never waits for the reader.
pub(crate) fn raw(text: String) {
    send(move || drop(stderr().write_all(text.as_bytes())));
}

/// Prints text on stdout as it is. It never waits for the reader.
pub(crate) fn notice(text: &'static str) {
    send(move || drop(stdout().write_all(text.as_bytes())));
}

/// Why a result could not be written, if not because its reader has gone away.
pub(crate) static NOT_WRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Prints a result on stdout, and waits for the reader.
pub(crate) fn out(text: impl Display) {
    try_out(text);
}

/// The same. Returns whether it was written.
pub(crate) fn try_out(text: impl Display) -> bool {
    let mut out = stdout().lock();
    let Err(error) = write!(out, "{text}").and_then(|()| out.flush()) else { return true };
    if error.kind() != io::ErrorKind::BrokenPipe {
        let _ = NOT_WRITTEN.set(error);
    }
    false
}

pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    // The errors of the library repeat what the driver said.
    while let Some(error) = next.filter(|error| !error.is::<sqlx::Error>()) {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    text.replace('\n', " ")
}

pub(crate) fn listed(all: impl IntoIterator<Item = impl Display>, separator: &str) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(separator)
}

pub(crate) fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Hides what may be a password in a URL, and perhaps more: clap repeats arguments that it does not understand.
pub(crate) fn without_passwords(text: &str) -> String {
    text.split('\n').map(hidden).collect::<Vec<_>>().join("\n")
}

fn hidden(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some((before, url)) = rest.split_once("://") {
        let (url, after) = url.split_at(url.find("://").unwrap_or(url.len()));
        // The account of an error is in quotation marks: 'me'@'h'.
        let is_host = |at: &usize| !url.split_at(*at).1.starts_with("@'");
        let at = url.rmatch_indices('@').map(|(at, _)| at).find(is_host);
        let url = at.map_or(url.into(), |at| format!("***{}", url.split_at(at).1));
        (shown, rest) = (format!("{shown}{before}://{url}"), after);
    }
    ["pass=", "password="].into_iter().fold(shown + rest, |line, key| {
        let mut parts = line.split(key);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |shown, value| {
            // The last quotation mark is the end of a quotation, and not of the password.
            let end = value.find('&').or(value.rfind('\'')).unwrap_or(value.len());
            format!("{shown}{key}***{}", value.get(end..).unwrap_or_default())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (text, expected) in [
            ("unexpected 'redis://me:s3cret@h:1/2' found", "unexpected 'redis://***@h:1/2' found"),
            ("a,rediss://:p@ss@h,b\n", "a,rediss://***@h,b\n"),
            ("invalid 'redis://me:s3'cret@h'", "invalid 'redis://***@h'"),
            ("'unix:///s?user=me&pass=s3'cret&db=1'", "'unix:///s?user=me&pass=***&db=1'"),
            ("'unix:///s?user=me&pass=s3cret&db=1'", "'unix:///s?user=me&pass=***&db=1'"),
            ("'postgres:///d?password=s3cret&x=1'", "'postgres:///d?password=***&x=1'"),
            ("'unix:///s?pass=s3cret'", "'unix:///s?pass=***'"),
            ("'unix:///a?pass=s3 ,cret' found", "'unix:///a?pass=***' found"),
            ("unix:///a?pass=s3cret&db=1,unix:///b?pass=s3", "unix:///a?pass=***&db=1,unix:///b?pass=***"),
            ("mysql://me:s3@h/d: denied for 'me'@'h'", "mysql://***@h/d: denied for 'me'@'h'"),
            ("redis://me:s3/c r@et@a,redis://b", "redis://***@a,redis://b"),
            ("--marks 'postgres://me:s3,c r@et@h/d' found", "--marks 'postgres://***@h/d' found"),
            ("redis://me:s3/c,r@et@a redis://me:s3@b", "redis://***@a redis://***@b"),
            ("mysql://h/d: denied for 'me'@'h'", "mysql://h/d: denied for 'me'@'h'"),
            ("mail me@h about redis://h", "mail me@h about redis://h"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
