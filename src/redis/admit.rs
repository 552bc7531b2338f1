use fencing_protocol::{Resource, Token};

use super::answer::Answer;
use super::marks::FIELD;
use super::session::Session;
use super::{FencedError, RedisMarks};

/// How the keys end that this crate keeps for itself, in any namespace.
const OWN: [&[u8]; 2] = [b"}:marks", b"}:memory"];

/// A command that the script runs behind its check.
pub(super) struct Write<'a> {
    pub(super) command: &'static str,
    /// The type that the key must have if it is there; empty if any will do.
    pub(super) kind: &'static str,
    pub(super) key: &'a [u8],
    /// What stands behind the key.
    pub(super) arguments: Vec<&'a [u8]>,
}

impl RedisMarks {
    /// Raises the mark, and writes nothing else.
    pub(super) async fn touch(&self, resource: &Resource, token: Token) -> Result<(), FencedError> {
        self.run(resource, token, None).await.map(drop)
    }

    /// Checks the token, raises the mark and writes, in one script. Returns what the command returned.
    pub(super) async fn admit(
        &self,
        resource: &Resource,
        token: Token,
        write: Write<'_>,
    ) -> Result<u64, FencedError> {
        let outcome = match OWN.iter().any(|end| write.key.ends_with(end)) {
            true => Err(FencedError::OwnKey),
            false => self.run(resource, token, Some(write)).await,
        };
        let label = match &outcome {
            Ok(_) => "admitted",
            Err(error) => {
                tracing::info!(%error, "write not admitted");
                error.label()
            }
        };
        metrics::counter!("fencing_admissions_total", "door" => "redis", "outcome" => label)
            .increment(1);
        outcome
    }

    async fn run(
        &self,
        resource: &Resource,
        token: Token,
        write: Option<Write<'_>>,
    ) -> Result<u64, FencedError> {
        let answer = self.on(async |session: Session| {
            let arguments = |command: &mut ::redis::Cmd| {
                let keys: &[&[u8]] = match &write {
                    Some(write) => &[self.key.as_bytes(), write.key],
                    None => &[self.key.as_bytes()],
                };
                command.arg(keys.len()).arg(keys);
                command.arg(&session.life).arg(format!("{FIELD}{resource}")).arg(token.get());
                match &write {
                    Some(write) => {
                        command.arg(write.kind).arg(write.command).arg(&write.arguments);
                    }
                    None => {
                        command.arg("").arg("");
                    }
                }
            };
            session.admit(arguments).await
        });
        Answer::of(answer.await?)?.passed(resource, token)
    }
}
