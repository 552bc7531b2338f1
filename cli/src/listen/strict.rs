use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::chunks::Chunks;
use super::framing::{Framing, framing};

/// How a connection in HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The longest head, in bytes.
const HEAD: usize = 64 << 10;
/// How much is read at once.
const PIECE: usize = 16 << 10;
/// What hyper answers with a 400, and with the end of the connection.
const NO_REQUEST: &[u8] = b"\0\r\n\r\n";

/// A connection whose requests in HTTP/1 are looked at before hyper reads them: each must have one
/// length, in one form. It passes a head on when it is complete, and never a byte behind the end of a
/// request together with it.
pub(super) struct Strict<T> {
    io: T,
    buffer: BytesMut,
    /// So much of the buffer was looked at, and may be read.
    ready: usize,
    stage: Stage,
    /// How long the other side may take to read what is written.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

enum Stage {
    Start,
    Head,
    Length(u64),
    Chunked(Chunks),
    Http2,
    Refused,
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

impl<T: AsyncRead + Unpin> Strict<T> {
    pub(super) fn new(io: T, patience: Duration) -> Strict<T> {
        let (buffer, stage) = (BytesMut::new(), Stage::Start);
        Strict { io, buffer, ready: 0, stage, patience, stalled: None }
    }

    /// Waits until it is known what the client speaks. Returns `None` if it says nothing.
    pub(super) async fn version(&mut self) -> io::Result<Option<Version>> {
        loop {
            if self.buffer.starts_with(PREFACE) {
                self.stage = Stage::Http2;
                return Ok(Some(Version::Http2));
            }
            if !PREFACE.starts_with(&self.buffer) {
                self.stage = Stage::Head;
                return Ok(Some(Version::Http1));
            }
            if poll_fn(|context| self.poll_more(context)).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads more into the buffer; returns how much.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut piece = [0; PIECE];
        let mut piece = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut piece))?;
        self.buffer.extend_from_slice(piece.filled());
        Poll::Ready(Ok(piece.filled().len()))
    }

    /// Looks at what is in the buffer. Returns whether some of it may be read.
    fn look(&mut self) -> io::Result<bool> {
        if self.buffer.is_empty() {
            return Ok(false);
        }
        match &mut self.stage {
            Stage::Http2 | Stage::Refused => self.ready = self.buffer.len(),
            Stage::Start | Stage::Head => match framing(&self.buffer) {
                Ok(Some((length, framing))) => {
                    self.ready = length;
                    self.stage = match framing {
                        Framing::Length(0) => Stage::Head,
                        Framing::Length(length) => Stage::Length(length),
                        Framing::Chunked => Stage::Chunked(Chunks::new()),
                    };
                }
                Ok(None) if self.buffer.len() < HEAD => {}
                Ok(None) => self.refuse("the head of the request is too long"),
                Err(why) => self.refuse(why),
            },
            Stage::Length(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                *left -= here as u64;
                self.ready = here;
                if *left == 0 {
                    self.stage = Stage::Head;
                }
            }
            Stage::Chunked(chunks) => {
                let malformed = |_| {
                    refused("a chunk of the body is malformed");
                    io::Error::from(ErrorKind::InvalidData)
                };
                self.ready = chunks.read(&self.buffer).map_err(malformed)?;
                if *chunks == Chunks::End {
                    self.stage = Stage::Head;
                }
            }
        }
        Ok(self.ready > 0)
    }

    /// Lets hyper answer, and reads nothing more.
    fn refuse(&mut self, why: &'static str) {
        refused(why);
        self.stage = Stage::Refused;
        self.buffer.clear();
        self.buffer.extend_from_slice(NO_REQUEST);
        self.ready = self.buffer.len();
    }
}

fn refused(why: &'static str) {
    tracing::warn!(why, "request refused: it can be read in more than one way");
    metrics::counter!("fencing_requests_malformed_total").increment(1);
}

impl<T: AsyncRead + Unpin> AsyncRead for Strict<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.ready == 0 && !self.look()? {
            // An unfinished head is no request, and what stands behind a refused one is none either.
            if matches!(self.stage, Stage::Refused) || ready!(self.poll_more(context))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let here = self.ready.min(into.remaining());
        into.put_slice(self.buffer.get(..here).unwrap_or_default());
        self.buffer.advance(here);
        self.ready -= here;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> Strict<T> {
    /// Ends a connection whose other side has not read for too long.
    fn bounded<R>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Strict<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
