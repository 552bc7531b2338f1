use std::sync::atomic::AtomicBool;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value};

use super::answer::{ScriptAnswer, short};
use super::{FencedError, Unfit};
use crate::server_info::ServerInfo;

/// A connection, and the `run_id` of its server.
pub(super) struct MarksConnection {
    connection: MultiplexedConnection,
    /// The server's `run_id`: another one after each restart.
    pub(super) life: String,
    /// The digest of the script that writes.
    digest: String,
    /// Whether a call has failed over it.
    pub(super) broken: AtomicBool,
}

/// The script that writes.
const ADMIT: &str = include_str!("admit.lua");

impl MarksConnection {
    /// Connects, and refuses a server that can't keep marks. The caller bounds the time.
    pub(super) async fn open(client: &Client) -> Result<MarksConnection, FencedError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let unreachable =
            |error: RedisError| refused(&error).unwrap_or_else(|| FencedError::Unreachable(words(&error)));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(unreachable)?;
        let info: Result<String, _> = ::redis::cmd("INFO").query_async(&mut connection).await;
        let life = life(&info.map_err(unreachable)?)?;
        let digest = Script::new(ADMIT).get_hash().to_owned();
        Ok(MarksConnection { connection, life, digest, broken: AtomicBool::new(false) })
    }

    /// Runs the script that writes. If the server does not have it, nothing was done, and the whole script is sent.
    pub(super) async fn admit(&self, arguments: impl Fn(&mut Cmd)) -> Result<ScriptAnswer, FencedError> {
        let mut command = ::redis::cmd("EVALSHA");
        arguments(command.arg(&self.digest));
        let answer = match self.ask(&command).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let mut command = ::redis::cmd("EVAL");
                arguments(command.arg(ADMIT));
                self.ask(&command).await
            }
            answer => answer,
        };
        ScriptAnswer::of(answer.map_err(|error| failed(&error))?)
    }

    /// Runs another script on the hash of the marks. Its first argument is the `run_id` of the server.
    pub(super) async fn run(&self, script: &str, key: &str, arguments: &[&str]) -> Result<ScriptAnswer, FencedError> {
        let mut command = ::redis::cmd("EVAL");
        command.arg(script).arg(1).arg(key).arg(&self.life).arg(arguments);
        ScriptAnswer::of(self.send(&command).await?)
    }

    /// Sends a command, once. The caller bounds the time.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, FencedError> {
        self.ask(command).await.map_err(|error| failed(&error))
    }

    async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.connection.clone().send_packed_command(command).await?.extract_error()
    }
}

/// Returns why a request failed that was sent.
fn failed(error: &RedisError) -> FencedError {
    refused(error).unwrap_or_else(|| FencedError::InDoubt(words(error)))
}

/// Reads the server's identity from `INFO`, and refuses a server that can't keep marks.
fn life(info: &str) -> Result<String, FencedError> {
    let info = ServerInfo::read(info).map_err(FencedError::Unreachable)?;
    let unfit = Unfit::of(info.loading, info.master, info.maxmemory, &info.policy);
    unfit.map_or(Ok(info.run_id), |unfit| Err(FencedError::Unfit(unfit)))
}

/// Returns what the server itself has refused. `None` where the connection failed.
fn refused(error: &RedisError) -> Option<FencedError> {
    let text = words(error);
    Some(match error.kind() {
        ErrorKind::Server(ServerErrorKind::CrossSlot | ServerErrorKind::Moved | ServerErrorKind::Ask) => {
            FencedError::OtherSlot(text)
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => FencedError::Unfit(Unfit::Replica),
        ErrorKind::Server(ServerErrorKind::BusyLoading) => FencedError::Unfit(Unfit::Loading),
        ErrorKind::Server(_) | ErrorKind::Extension if read_only(&text) => FencedError::Unfit(Unfit::Replica),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed => FencedError::Refused(text),
        _ => return None,
    })
}

/// Returns whether a script failed because the server is a replica. Older servers say it in the middle of the text.
fn read_only(text: &str) -> bool {
    text.contains("-READONLY ") || text.contains("READONLY You can't write")
}

/// Returns what an error says, fit for a line.
fn words(error: &RedisError) -> String {
    short(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As servers before 7 say it, and as later ones do.
    #[test]
    fn a_script_that_may_not_write_has_met_a_replica() {
        let old = "ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -READONLY You \
                   can't write against a read only replica.";
        assert!(read_only(old));
        assert!(read_only("READONLY You can't write against a read only replica. script: 1"));
        assert!(!read_only("NOPERM no access to the key READONLY"));
    }
}
