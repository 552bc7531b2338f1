use std::collections::VecDeque;
use std::io::{self, Cursor};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use ::redis::{Cmd, RedisError, Value, parse_redis_value};
use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::stream::ServerStream;

/// The room for each read, in bytes.
const READ: usize = 16 * 1024;
/// No answer is longer than this, in bytes: far above what a script says about as many locks as one attempt may have.
const MAX_ANSWER: usize = 1 << 20;
/// The lists in lists of an answer are no deeper than this.
const MAX_DEPTH: usize = 8;

/// A connection to a Redis server. Commands go in the order in which they were written, and their answers come in
/// that order. It has no task: each task that waits for an answer moves the bytes of all. Dropped, it closes. The
/// driver's own connection has two tasks, and a channel between them: each call costs twice as much on it.
pub(super) struct Wire(Mutex<Traffic>);

/// The unsent bytes, and the outstanding answers.
struct Traffic {
    stream: ServerStream,
    unsent: Cursor<Vec<u8>>,
    /// The command that is being written: its memory serves them all.
    command: Cmd,
    received: BytesMut,
    places: VecDeque<AnswerPlace>,
    /// The number of the first place.
    first: u64,
    /// The number of answers that have arrived.
    answered: u64,
    /// The error that broke the connection.
    closed: Option<RedisError>,
}

enum AnswerPlace {
    Awaited(Option<Waker>),
    Received(Value),
    /// It is not wanted any more.
    Dropped,
}

/// The answer to one command. If it is dropped, the command is still sent.
pub(super) struct CommandAnswer<'a> {
    wire: &'a Wire,
    number: u64,
    /// It was never polled.
    new: bool,
}

impl Wire {
    pub(super) fn new(stream: ServerStream) -> Wire {
        Wire(Mutex::new(Traffic {
            stream,
            unsent: Cursor::default(),
            command: Cmd::new(),
            received: BytesMut::new(),
            places: VecDeque::new(),
            first: 0,
            answered: 0,
            closed: None,
        }))
    }

    /// Sends the command that `write` writes, once its answer is awaited.
    pub(super) fn send(&self, write: impl FnOnce(&mut Cmd) -> &mut Cmd) -> CommandAnswer<'_> {
        let mut traffic = self.0.lock();
        let Traffic { command, unsent, places, first, .. } = &mut *traffic;
        command.clear();
        write(command);
        command.write_packed_command(unsent.get_mut());
        let number = *first + places.len() as u64;
        places.push_back(AnswerPlace::Awaited(None));
        CommandAnswer { wire: self, number, new: true }
    }

    /// Waits, while no answer is awaited, until the connection has closed, and returns why.
    pub(super) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<RedisError> {
        let mut traffic = self.0.lock();
        loop {
            if let Err(why) = ready!(traffic.poll_moved(context)) {
                return Poll::Ready(why);
            }
        }
    }
}

impl Future for CommandAnswer<'_> {
    type Output = Result<Value, RedisError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Bytes written at once go together.
        if mem::take(&mut self.new) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut traffic = self.wire.0.lock();
        loop {
            let Some(place) = traffic.place(self.number) else { return Poll::Pending };
            if let AnswerPlace::Received(value) = mem::replace(place, AnswerPlace::Dropped) {
                return Poll::Ready(Ok(value));
            }
            *place = AnswerPlace::Awaited(Some(context.waker().clone()));
            ready!(traffic.poll_moved(context))?;
        }
    }
}

impl Drop for CommandAnswer<'_> {
    fn drop(&mut self) {
        let mut traffic = self.wire.0.lock();
        if let Some(place) = traffic.place(self.number) {
            *place = AnswerPlace::Dropped;
            traffic.forget();
        }
        traffic.wake_another();
    }
}

impl Traffic {
    fn place(&mut self, number: u64) -> Option<&mut AnswerPlace> {
        self.places.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Forgets the places of received answers that are not wanted.
    fn forget(&mut self) {
        while self.first < self.answered
            && self.places.pop_front_if(|place| matches!(place, AnswerPlace::Dropped)).is_some()
        {
            self.first += 1;
        }
    }

    /// The stream wakes only the last that has polled it. When that one stops waiting, another has to.
    fn wake_another(&mut self) {
        let answered = usize::try_from(self.answered - self.first).unwrap_or(usize::MAX);
        let waker = self.places.iter_mut().skip(answered).find_map(|place| match place {
            AnswerPlace::Awaited(waker) => waker.take(),
            _ => None,
        });
        waker.into_iter().for_each(Waker::wake);
    }

    /// Sends what can be sent, and takes what comes at once.
    fn poll_moved(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RedisError>> {
        if let Some(why) = &self.closed {
            return Poll::Ready(Err(why.clone()));
        }
        let moved = ready!(self.poll_once(context));
        if let Err(why) = &moved {
            self.closed = Some(why.clone());
        }
        Poll::Ready(moved)
    }

    fn poll_once(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RedisError>> {
        while self.unsent.has_remaining() {
            match poll_write_buf(self.stream.as_mut(), context, &mut self.unsent) {
                Poll::Ready(written) => drop(written?),
                Poll::Pending => break,
            }
        }
        if !self.unsent.has_remaining() {
            self.unsent.set_position(0);
            self.unsent.get_mut().clear();
        }
        let _ = self.stream.as_mut().poll_flush(context)?;
        self.received.reserve(READ);
        if ready!(poll_read_buf(self.stream.as_mut(), context, &mut self.received))? == 0 {
            return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        }
        while let Some((value, length)) = read(&self.received, MAX_DEPTH)? {
            self.received.advance(length);
            self.take(value, context).ok_or_else(|| invalid("a reply without a request"))?;
        }
        if self.received.len() > MAX_ANSWER {
            return Poll::Ready(Err(invalid("a reply larger than the limit").into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next answer. `None` if nothing was asked.
    fn take(&mut self, value: Value, context: &Context<'_>) -> Option<()> {
        let place = self.place(self.answered)?;
        if let AnswerPlace::Awaited(waker) = place {
            let other = waker.take().filter(|waker| !waker.will_wake(context.waker()));
            *place = AnswerPlace::Received(value);
            other.into_iter().for_each(Waker::wake);
        }
        self.answered += 1;
        self.forget();
        Some(())
    }
}

/// Returns the first answer and its length, if it is complete. The server speaks version 2 of its protocol.
fn read(bytes: &[u8], depth: usize) -> io::Result<Option<(Value, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let (line, rest) = bytes.split_at_checked(end + 1).unwrap_or_default();
    let [kind, text @ .., b'\r', b'\n'] = line else { return Err(invalid("malformed line")) };
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let number = || number().ok_or_else(|| invalid("malformed number"));
    let value = match kind {
        b'+' | b'-' => parse_redis_value(line).map_err(io::Error::other)?,
        b':' => Value::Int(number()?),
        b'$' | b'*' if number()? < 0 => Value::Nil,
        b'$' => {
            let length = usize::try_from(number()?).unwrap_or(usize::MAX);
            let Some(text) = rest.get(..length.saturating_add(2)) else { return Ok(None) };
            let text = text.strip_suffix(b"\r\n").ok_or_else(|| invalid("malformed string"))?;
            return Ok(Some((Value::BulkString(text.to_vec()), line.len() + length + 2)));
        }
        b'*' if depth > 0 => {
            let (mut parts, mut length) = (Vec::new(), line.len());
            for _ in 0..number()? {
                let rest = bytes.get(length..).unwrap_or_default();
                let Some((part, more)) = read(rest, depth - 1)? else { return Ok(None) };
                parts.push(part);
                length += more;
            }
            return Ok(Some((Value::Array(parts), length)));
        }
        _ => return Err(invalid("unknown kind of answer")),
    };
    Ok(Some((value, line.len())))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn an_answer_is_read_when_it_has_come_whole_and_as_the_crate_reads_it() {
        for text in [
            "+OK\r\n",
            "-NOSCRIPT No matching script.\r\n",
            ":-7\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "$4\r\n\r\n\r\n\r\n",
            "*0\r\n",
            "*4\r\n:1\r\n$3\r\nabc\r\n*2\r\n+released\r\n$-1\r\n:0\r\n",
        ] {
            let whole = text.as_bytes();
            for end in 0..whole.len() {
                assert_eq!(read(&whole[..end], MAX_DEPTH).unwrap(), None, "{text:?} to {end}");
            }
            let value = parse_redis_value(whole).unwrap();
            let both = [whole, b":1\r\n"].concat();
            assert_eq!(read(&both, MAX_DEPTH).unwrap(), Some((value, whole.len())), "{text:?}");
        }
        let deep = "*1\r\n".repeat(100_000);
        for odd in ["HTTP/1.1 400 Bad Request\r\n", ":1\n", ":x\r\n", "$1\r\nabc", "%1\r\n", &deep] {
            assert!(read(odd.as_bytes(), MAX_DEPTH).is_err(), "{odd:.40?}");
        }
        assert_eq!(read(b"$9223372036854775807\r\n", MAX_DEPTH).unwrap(), None);
    }

    #[test]
    fn no_bytes_break_it() {
        let mut random = fastrand::Rng::with_seed(1);
        let parts: [&[u8]; 9] = [b"*", b"$", b":", b"-", b"2", b"9999999999", b"\r\n", b"\n", b"\xff"];
        for _ in 0..100_000 {
            let length = random.usize(..12);
            let bytes: Vec<u8> = (0..length).flat_map(|_| parts[random.usize(..9)]).copied().collect();
            if let Ok(Some((_, length))) = read(&bytes, MAX_DEPTH) {
                assert!((1..=bytes.len()).contains(&length), "{bytes:?}");
            }
        }
    }

    /// An unwanted answer goes to no other caller.
    #[tokio::test]
    async fn each_command_has_its_own_answer_until_the_connection_ends() {
        let (near, mut far) = duplex(1024);
        let wire: &Wire = Box::leak(Box::new(Wire::new(Box::pin(near))));
        let ask = || wire.send(|command| command.arg("PING").arg("x"));
        let (first, dropped, third, never) = (ask(), ask(), ask(), ask());
        drop(dropped);
        // In tasks of their own: each of them may be the one that the stream wakes.
        let [first, third, never] = [first, third, never].map(tokio::spawn);
        let mut sent = [0; 4 * 21];
        far.read_exact(&mut sent).await.unwrap();
        assert_eq!(sent, *b"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n".repeat(4));
        far.write_all(b":1\r\n:2\r\n:3\r").await.unwrap();
        assert_eq!(first.await.unwrap().unwrap(), Value::Int(1));
        far.write_all(b"\n").await.unwrap();
        assert_eq!(third.await.unwrap().unwrap(), Value::Int(3));
        drop(far);
        assert!(never.await.unwrap().unwrap_err().is_io_error());
        assert!(ask().await.is_err());
    }

    #[tokio::test]
    async fn an_answer_to_nothing_ends_it() {
        let (near, mut far) = duplex(1024);
        let wire = Wire::new(Box::pin(near));
        far.write_all(b":1\r\n").await.unwrap();
        poll_fn(|context| wire.poll_closed(context)).await;
        assert!(wire.send(|command| command.arg("PING")).await.is_err());
    }

    /// The one that the stream would wake is dropped.
    #[tokio::test]
    async fn an_answer_needs_none_of_those_before_it() {
        let (near, mut far) = duplex(1024);
        let wire: &Wire = Box::leak(Box::new(Wire::new(Box::pin(near))));
        let ask = || wire.send(|command| command.arg("PING"));
        let [last, first] = [tokio::spawn(ask()), tokio::spawn(ask())];
        tokio::task::yield_now().await;
        first.abort();
        far.write_all(b":1\r\n:2\r\n").await.unwrap();
        assert!(last.await.unwrap().is_ok());
    }
}
