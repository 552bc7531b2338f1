//! What `fencing run` and its guard send each other: a file descriptor, then texts that end in NUL, as arguments do.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

/// The clock that both sides read. It goes on while the machine is suspended, where there is such a clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the time of the clock that both sides read.
pub(super) fn now() -> Duration {
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// What `fencing run` asks of its guard, once the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// The lease lasts until then, by the clock of [`now`].
    Until(Duration),
    /// The command gets this signal.
    Signal(Signal),
}

impl Message {
    pub(super) fn write(self) -> String {
        match self {
            Message::Until(time) => format!("until {}\0", time.as_nanos()),
            Message::Signal(signal) => format!("signal {}\0", signal.as_raw()),
        }
    }

    pub(super) fn read(text: &[u8]) -> Option<Message> {
        let (kind, number) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        match kind {
            "until" => Some(Message::Until(Duration::from_nanos(number.parse().ok()?))),
            "signal" => Some(Message::Signal(Signal::from_named_raw(number.parse().ok()?)?)),
            _ => None,
        }
    }
}

/// Sends a file descriptor.
pub(super) fn send(socket: &UnixStream, file: impl AsFd) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Waits for a file descriptor. An error if the sender has died.
pub(super) fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut ancillary, RecvFlags::empty())?;
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    // The copy is closed when the command starts.
    file.ok_or(io::ErrorKind::UnexpectedEof)?.try_clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        for message in [Message::Until(now()), Message::Signal(Signal::TERM)] {
            let text = message.write();
            assert_eq!(
                text.strip_suffix('\0').map(|text| Message::read(text.as_bytes())),
                Some(Some(message))
            );
        }
        for text in ["", "until", "until x", "signal 0", "signal -1", "signal 9999", "all 12"] {
            assert_eq!(Message::read(text.as_bytes()), None, "{text}");
        }
    }
}
