use std::collections::VecDeque;
use std::io::{self, Cursor};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, Pipeline, RedisError, RedisFuture, Value, parse_redis_value};
use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::stream::Stream;

/// The room for each read, in bytes.
const READ: usize = 16 * 1024;
/// No answer is longer than this, in bytes: far above what a script says about as many locks as one attempt may have.
const MAX_ANSWER: usize = 1 << 20;
/// The lists in lists of an answer are no deeper than this.
const MAX_DEPTH: usize = 8;

/// A connection to a Redis server. Commands go in the order in which they were written, and their answers come in
/// that order; its [`Motion`] moves the bytes. Dropped, it closes.
///
/// The driver's own connection has two tasks, and a channel between them: each call costs twice as much on it.
pub(super) struct Wire(Arc<Mutex<Traffic>>);

/// What was written and not sent yet, and the answers that are awaited.
#[derive(Default)]
struct Traffic {
    unsent: Vec<u8>,
    /// The command that is being written: its memory serves them all.
    command: Cmd,
    places: VecDeque<Place>,
    /// The number of the first place.
    first: u64,
    /// How many answers have come.
    come: u64,
    /// Why nothing goes any more.
    closed: Option<RedisError>,
    motion: Option<Waker>,
}

/// The place of one answer.
enum Place {
    Awaited(Option<Waker>),
    /// Nobody wants what will come.
    Abandoned,
    Come(Value),
    Over,
}

/// The answer to one command. Dropped, the command is sent all the same.
pub(super) struct CommandAnswer {
    traffic: Arc<Mutex<Traffic>>,
    number: u64,
}

/// Sends what was written on a [`Wire`], and takes the answers. It ends when the connection has closed.
pub(super) struct Motion {
    traffic: Arc<Mutex<Traffic>>,
    stream: Stream,
    sending: Cursor<Vec<u8>>,
    received: BytesMut,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> (Wire, Motion) {
        let traffic = Arc::<Mutex<Traffic>>::default();
        let (sending, received) = (Cursor::default(), BytesMut::new());
        let motion = Motion { traffic: Arc::clone(&traffic), stream, sending, received };
        (Wire(traffic), motion)
    }

    /// Sends the command that `write` writes.
    pub(super) fn send(&self, write: impl FnOnce(&mut Cmd)) -> CommandAnswer {
        let mut traffic = self.0.lock();
        let Traffic { command, unsent, .. } = &mut *traffic;
        command.clear();
        write(command);
        command.write_packed_command(unsent);
        self.answer(&mut traffic)
    }

    /// Makes the place of the next answer.
    fn answer(&self, traffic: &mut Traffic) -> CommandAnswer {
        let number = traffic.first + traffic.places.len() as u64;
        traffic.places.push_back(Place::Awaited(None));
        if let Some(motion) = traffic.motion.take() {
            motion.wake();
        }
        CommandAnswer { traffic: Arc::clone(&self.0), number }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.0.lock().close(io::Error::from(io::ErrorKind::NotConnected).into());
    }
}

/// For commands that the `redis` crate makes.
impl ConnectionLike for &Wire {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.send(|command| command.clone_from(cmd)).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let mut traffic = self.0.lock();
        traffic.unsent.extend(pipeline.get_packed_pipeline());
        let all = (0..offset + count).map(|_| self.answer(&mut traffic)).collect::<Vec<_>>();
        drop(traffic);
        async move { join_all(all).await.into_iter().skip(offset).collect() }.boxed()
    }

    fn get_db(&self) -> i64 {
        0
    }
}

impl Traffic {
    fn place(&mut self, number: u64) -> Option<&mut Place> {
        self.places.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Takes the next answer. `None` where nothing was asked.
    fn take(&mut self, value: Value) -> Option<()> {
        let place = self.place(self.come)?;
        match mem::replace(place, Place::Over) {
            Place::Awaited(waker) => {
                *place = Place::Come(value);
                waker.into_iter().for_each(Waker::wake);
            }
            _ => self.forget(),
        }
        self.come += 1;
        Some(())
    }

    fn forget(&mut self) {
        while self.places.pop_front_if(|place| matches!(place, Place::Over)).is_some() {
            self.first += 1;
        }
    }

    fn close(&mut self, why: RedisError) {
        self.closed.get_or_insert(why);
        self.motion.take().into_iter().for_each(Waker::wake);
        for place in &mut self.places {
            if let Place::Awaited(waker) = place {
                waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Future for CommandAnswer {
    type Output = Result<Value, RedisError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut traffic = self.traffic.lock();
        let closed = traffic.closed.clone();
        let Some(place) = traffic.place(self.number) else { return Poll::Pending };
        match mem::replace(place, Place::Over) {
            Place::Come(value) => {
                traffic.forget();
                Poll::Ready(Ok(value))
            }
            other => {
                *place = other;
                if let Some(why) = closed {
                    return Poll::Ready(Err(why));
                }
                if let Place::Awaited(waker) = place {
                    *waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for CommandAnswer {
    fn drop(&mut self) {
        let mut traffic = self.traffic.lock();
        if let Some(place) = traffic.place(self.number) {
            *place = match place {
                Place::Awaited(_) => Place::Abandoned,
                _ => Place::Over,
            };
            traffic.forget();
        }
    }
}

impl Future for Motion {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let why = loop {
            match self.poll_once(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(why)) => break why,
                Poll::Pending => return Poll::Pending,
            }
        };
        self.traffic.lock().close(why);
        Poll::Ready(())
    }
}

impl Motion {
    /// Sends what can be sent, and reads once.
    fn poll_once(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RedisError>> {
        let mut traffic = self.traffic.lock();
        traffic.motion = Some(context.waker().clone());
        traffic.closed.clone().map_or(Ok(()), Err)?;
        drop(traffic);
        loop {
            if !self.sending.has_remaining() {
                let mut traffic = self.traffic.lock();
                if traffic.unsent.is_empty() {
                    break;
                }
                self.sending.set_position(0);
                self.sending.get_mut().clear();
                mem::swap(&mut traffic.unsent, self.sending.get_mut());
            }
            match poll_write_buf(self.stream.as_mut(), context, &mut self.sending) {
                Poll::Ready(written) => drop(written?),
                Poll::Pending => break,
            }
        }
        let _ = self.stream.as_mut().poll_flush(context)?;
        self.received.reserve(READ);
        if ready!(poll_read_buf(self.stream.as_mut(), context, &mut self.received))? == 0 {
            return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        }
        while let Some((value, length)) = read(&self.received, MAX_DEPTH)? {
            self.received.advance(length);
            self.traffic.lock().take(value).ok_or_else(|| odd("an answer to nothing"))?;
        }
        if self.received.len() > MAX_ANSWER {
            return Poll::Ready(Err(odd("an answer without end").into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the first answer and its length, if it has come whole. The server speaks version 2 of its protocol.
fn read(bytes: &[u8], depth: usize) -> io::Result<Option<(Value, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let (line, rest) = bytes.split_at_checked(end + 1).unwrap_or_default();
    let [kind, text @ .., b'\r', b'\n'] = line else { return Err(odd("not a line of Redis")) };
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let number = || number().ok_or_else(|| odd("not a number of Redis"));
    let value = match kind {
        b'+' | b'-' => parse_redis_value(line).map_err(io::Error::other)?,
        b':' => Value::Int(number()?),
        b'$' | b'*' if number()? < 0 => Value::Nil,
        b'$' => {
            let length = usize::try_from(number()?).unwrap_or(usize::MAX);
            let Some(text) = rest.get(..length.saturating_add(2)) else { return Ok(None) };
            let text = text.strip_suffix(b"\r\n").ok_or_else(|| odd("a text without its end"))?;
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
        _ => return Err(odd("not an answer of Redis")),
    };
    Ok(Some((value, line.len())))
}

fn odd(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
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
        for odd in ["HTTP/1.1 400 Bad Request\r\n", ":1\n", ":x\r\n", "$1\r\nabc", "%1\r\n", &deep]
        {
            assert!(read(odd.as_bytes(), MAX_DEPTH).is_err(), "{odd:.40?}");
        }
        assert_eq!(read(b"$9223372036854775807\r\n", MAX_DEPTH).unwrap(), None);
    }

    #[test]
    fn no_bytes_break_it() {
        let mut random = fastrand::Rng::with_seed(1);
        let parts: [&[u8]; 9] =
            [b"*", b"$", b":", b"-", b"2", b"9999999999", b"\r\n", b"\n", b"\xff"];
        for _ in 0..100_000 {
            let length = random.usize(..12);
            let bytes: Vec<u8> =
                (0..length).flat_map(|_| parts[random.usize(..9)]).copied().collect();
            if let Ok(Some((_, length))) = read(&bytes, MAX_DEPTH) {
                assert!((1..=bytes.len()).contains(&length), "{bytes:?}");
            }
        }
    }

    /// An answer that nobody wants any more is nobody else's.
    #[tokio::test]
    async fn each_command_has_its_own_answer_until_the_connection_ends() {
        let (near, mut far) = duplex(1024);
        let (wire, motion) = Wire::new(Box::pin(near));
        let moving = tokio::spawn(motion);
        let ask = || wire.send(|command| command.clone_from(::redis::cmd("PING").arg("x")));
        let (first, dropped, third, never) = (ask(), ask(), ask(), ask());
        drop(dropped);
        let mut sent = [0; 4 * 21];
        far.read_exact(&mut sent).await.unwrap();
        assert_eq!(sent, *b"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n".repeat(4));
        far.write_all(b":1\r\n:2\r\n:3\r").await.unwrap();
        assert_eq!(first.await.unwrap(), Value::Int(1));
        far.write_all(b"\n").await.unwrap();
        assert_eq!(third.await.unwrap(), Value::Int(3));
        drop(far);
        assert!(never.await.unwrap_err().is_io_error());
        moving.await.unwrap();
        assert!(ask().await.is_err());
    }

    #[tokio::test]
    async fn an_answer_to_nothing_ends_it() {
        let (near, mut far) = duplex(1024);
        let (wire, motion) = Wire::new(Box::pin(near));
        far.write_all(b":1\r\n").await.unwrap();
        motion.await;
        assert!(wire.send(|command| command.clone_from(&::redis::cmd("PING"))).await.is_err());
    }

    #[tokio::test]
    async fn without_its_wire_nothing_moves() {
        let (near, _far) = duplex(1024);
        let (wire, motion) = Wire::new(Box::pin(near));
        let moving = tokio::spawn(motion);
        drop(wire);
        moving.await.unwrap();
    }
}
