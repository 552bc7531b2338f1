//! The messages of `fencing run` to its guard: a file descriptor, then a line of JSON for each. The guard answers with
//! an empty line when it stops the command, or with why it cannot run it.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The clock that both sides read. It runs while the machine is suspended, if there is such a clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

pub(super) fn now() -> Duration {
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
pub(super) struct GuardStart {
    /// The process group of the command; zero for one of its own.
    pub(super) group: i32,
    /// The time between SIGTERM and the end of the lease.
    pub(super) grace: Duration,
    /// The end of the lease, by the clock of [`now`].
    pub(super) deadline: Duration,
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The lease lasts until then, by the clock of [`now`].
    Until(Duration),
    Signal(i32),
}

pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

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
