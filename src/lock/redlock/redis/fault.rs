use ::redis::{ErrorKind, RedisError, ServerErrorKind};

use fencing_protocol::Fault;

use crate::server_info::{ServerInfo, Unfit, shorten};

pub(super) fn fault(error: RedisError) -> Fault {
    let text = || shorten(&error);
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => Fault::Denied(text()),
        ErrorKind::Server(ServerErrorKind::BusyLoading) => Fault::Loading,
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Fault::NotMaster,
        _ => match error.code() {
            Some("OOM") => Fault::OutOfMemory,
            Some("BUSY") => Fault::NotNow(text()),
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Fault::Denied(text()),
            _ if error.detail().is_some_and(|detail| detail.contains("OOM")) => Fault::OutOfMemory,
            _ if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => Fault::Refused(text()),
            _ => Fault::Disconnected(text()),
        },
    }
}

pub(super) fn unreachable(error: RedisError) -> Fault {
    match fault(error) {
        Fault::Disconnected(text) => Fault::Unreachable(text),
        other => other,
    }
}

/// Returns the fault of an answer that no node gives.
pub(super) fn invalid(text: &str) -> Fault {
    Fault::InvalidReply(text.chars().take(200).collect())
}

/// Returns why such a server can't keep locks.
pub(super) fn unfit(server: &ServerInfo) -> Option<Fault> {
    Unfit::of(server).map(|unfit| match unfit {
        Unfit::Loading => Fault::Loading,
        Unfit::Replica => Fault::NotMaster,
        Unfit::Evicts { policy } => Fault::MaxmemoryPolicy(policy),
    })
}
