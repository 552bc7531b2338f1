use std::sync::atomic::AtomicBool;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value};
use fencing_protocol::{Resource, Token, TokenError};

use super::{Closed, FencedError, Unfit};
use crate::fence::Stale;
use crate::server_info::{ServerInfo, shorten};

pub(super) struct MarksConnection {
    connection: MultiplexedConnection,
    /// The server's `run_id`: another one after each restart.
    pub(super) life: String,
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
        let unreached =
            |error: RedisError| refused(&error).unwrap_or_else(|| FencedError::Unreachable(shorten(&error)));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(unreached)?;
        let info: Result<String, _> = ::redis::cmd("INFO").query_async(&mut connection).await;
        let server = ServerInfo::read(&info.map_err(unreached)?).map_err(FencedError::Unreachable)?;
        if let Some(unfit) = Unfit::of(&server) {
            return Err(FencedError::Unfit(unfit));
        }
        let digest = Script::new(ADMIT).get_hash().to_owned();
        Ok(MarksConnection { connection, life: server.run_id, digest, broken: AtomicBool::new(false) })
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
    refused(error).unwrap_or_else(|| FencedError::InDoubt(shorten(error)))
}

/// Returns what the server itself has refused. `None` where the connection failed.
fn refused(error: &RedisError) -> Option<FencedError> {
    let text = shorten(error);
    Some(match error.kind() {
        ErrorKind::Server(ServerErrorKind::CrossSlot | ServerErrorKind::Moved | ServerErrorKind::Ask) => {
            FencedError::OtherSlot(text)
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => FencedError::Unfit(Unfit::Replica),
        ErrorKind::Server(ServerErrorKind::BusyLoading) => FencedError::Unfit(Unfit::Loading),
        _ if error.code() == Some("BUSY") => FencedError::Unreachable(text),
        ErrorKind::Server(_) | ErrorKind::Extension if read_only(&text) => FencedError::Unfit(Unfit::Replica),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed => FencedError::Refused(text),
        _ => return None,
    })
}

/// Returns whether a script failed because the server is a replica. Older servers say it in the middle of the text.
fn read_only(text: &str) -> bool {
    text.contains("-READONLY ") || text.contains("READONLY You can't write")
}

/// The reply of a script: a word, and its values.
pub(super) struct ScriptAnswer {
    pub(super) word: String,
    pub(super) rest: Vec<Value>,
}

impl ScriptAnswer {
    /// Reads an answer. Closed marks are an error, whatever was asked for.
    pub(super) fn of(value: Value) -> Result<ScriptAnswer, FencedError> {
        let Value::Array(parts) = value else { return Err(unknown(&value)) };
        let mut parts = parts.into_iter();
        let Some(word) = parts.next().as_ref().and_then(text) else {
            return Err(FencedError::InDoubt("an empty reply".into()));
        };
        match word.as_str() {
            "never-opened" => Err(FencedError::Closed(Closed::NeverOpened)),
            "other-life" => Err(FencedError::Closed(Closed::OtherLife)),
            "moved" => Err(FencedError::Closed(Closed::Moved)),
            _ => Ok(ScriptAnswer { word, rest: parts.collect() }),
        }
    }

    /// Returns a text of the answer; empty if it is not there.
    pub(super) fn text(&self, at: usize) -> String {
        self.rest.get(at).and_then(text).unwrap_or_default()
    }

    pub(super) fn number(&self, at: usize) -> Result<u64, FencedError> {
        match self.rest.get(at) {
            Some(Value::Int(number)) if *number >= 0 => Ok(number.cast_unsigned()),
            other => Err(unknown(other.unwrap_or(&Value::Nil))),
        }
    }

    /// Reads the answer of an admission: what the command has returned.
    pub(super) fn passed(&self, resource: &Resource, token: Token) -> Result<u64, FencedError> {
        match self.word.as_str() {
            "passed" => self.number(0),
            "stale" => {
                Stale::check(resource, token, mark(resource, &self.text(0))?)?;
                Err(FencedError::InDoubt("the reported mark is not higher".into()))
            }
            "corrupt" => Err(corrupt(resource, &self.text(0))),
            "corrupt-floor" => Err(corrupt_floor(&self.text(0))),
            "wrong-type" => Err(FencedError::WrongType { found: shorten(self.text(0)) }),
            _ => Err(FencedError::InDoubt("an unknown answer".into())),
        }
    }
}

/// Reads a mark; none if the text is empty.
pub(super) fn mark(resource: &Resource, found: &str) -> Result<Option<Token>, FencedError> {
    token(found).map_err(|_| corrupt(resource, found))
}

/// Reads the floor; none if the text is empty.
pub(super) fn floor(found: &str) -> Result<Option<Token>, FencedError> {
    token(found).map_err(|_| corrupt_floor(found))
}

fn token(found: &str) -> Result<Option<Token>, TokenError> {
    Some(found).filter(|found| !found.is_empty()).map(str::parse).transpose()
}

fn corrupt(resource: &Resource, found: &str) -> FencedError {
    FencedError::Corrupt { resource: resource.clone(), found: shorten(found) }
}

fn corrupt_floor(found: &str) -> FencedError {
    FencedError::CorruptFloor { found: shorten(found) }
}

pub(super) fn unknown(value: &Value) -> FencedError {
    FencedError::InDoubt(shorten(format_args!("an unknown answer: {value:?}")))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
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
