use std::fmt;
use std::str::FromStr;

use fencing_protocol::Token;

use super::answer::{Answer, short};
use super::session::Session;
use super::{FencedError, RedisMarks};

/// How the marks of a namespace stand, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// How many marks there are.
    pub marks: u64,
    /// The floor: where a resource has no mark, smaller tokens are refused.
    pub floor: Option<Token>,
    /// The life of the server now.
    pub life: String,
    /// The life in which they were opened, if any is known: the server's `run_id` then. It begins with `closed:` once
    /// another life has found it.
    pub opened_in: Option<String>,
}

impl Standing {
    /// Returns whether they are open: whether they were opened in this life of the server.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened_in.as_ref() == Some(&self.life)
    }
}

/// Writes it as one word, `LIFE/OPENED_IN/MARKS/FLOOR`, to be read again when the operator has decided.
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened_in = self.opened_in.as_deref().unwrap_or_default();
        write!(f, "{}/{opened_in}/{}/", self.life, self.marks)?;
        self.floor.map_or(Ok(()), |floor| write!(f, "{floor}"))
    }
}

/// Why a text is no [`Standing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not what a look at the marks has printed: LIFE/OPENED_IN/MARKS/FLOOR")]
pub struct StandingError;

impl FromStr for Standing {
    type Err = StandingError;

    fn from_str(text: &str) -> Result<Standing, StandingError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [life, opened_in, marks, floor] = *parts.as_slice() else { return Err(StandingError) };
        if life.is_empty() {
            return Err(StandingError);
        }
        let floor = Some(floor).filter(|floor| !floor.is_empty()).map(str::parse).transpose();
        Ok(Standing {
            marks: marks.parse().map_err(|_| StandingError)?,
            floor: floor.map_err(|_| StandingError)?,
            life: life.to_owned(),
            opened_in: Some(opened_in.to_owned()).filter(|life| !life.is_empty()),
        })
    }
}

impl RedisMarks {
    /// Says how the marks stand. It opens nothing. Where they were opened in another life, it writes that down as closed:
    /// the server of that life refuses them then as well, should it copy this one and become a master again.
    ///
    /// # Errors
    /// [`FencedError::Unfit`] if the server cannot keep marks, [`FencedError::CorruptFloor`] if the floor is no token, and
    /// others if it cannot be asked.
    ///
    /// # Cancel safety
    /// If you drop the future, an opening of another life may be closed or not. Nothing is opened.
    pub async fn look(&self) -> Result<Standing, FencedError> {
        let asked = self.on(async |session: Session| {
            let mut command = ::redis::cmd("EVAL");
            command.arg(include_str!("look.lua")).arg(1).arg(&self.key);
            command.arg(&session.life);
            Ok((session.send(command).await?, session.life))
        });
        let (value, life) = asked.await?;
        let answer = Answer::of(value)?;
        let named = |text: String| Some(text).filter(|text| !text.is_empty());
        let floor = match named(answer.text(1)).map(|text| text.parse()) {
            None => None,
            Some(Ok(floor)) => Some(floor),
            Some(Err(_)) => {
                return Err(FencedError::CorruptFloor { found: short(&answer.text(1)) });
            }
        };
        Ok(Standing { marks: answer.number(2)?, floor, life, opened_in: named(answer.text(0)) })
    }

    /// Opens the marks for the rest of this life of the server, if they still stand as they were
    /// [found](RedisMarks::look). It writes a warning to the log. For operators: never let a program do it by itself.
    ///
    /// With a `floor`, a resource counts as marked with it unless its mark is higher: smaller tokens are refused. A
    /// floor never falls.
    ///
    /// # Errors
    /// [`FencedError::Closed`] if they have changed since, or the server was restarted. Look again.
    ///
    /// # Cancel safety
    /// If you drop the future, they may or may not be open.
    ///
    /// **Fencing.** It is safe if there were never any marks, and where the marks are all there: after a restart that
    /// lost no write (`appendfsync always`). Where marks may be lost, a stale token passes at each resource
    /// whose mark is lower than the highest token that it has seen, until a newer one has come. Give a floor that no
    /// token of before reaches, and see that the lock service grants tokens above it; or stop the writers, open the
    /// marks, raise those of the resources that matter by the tokens of their newest leases, and start the writers.
    pub async fn open(&self, found: &Standing, floor: Option<Token>) -> Result<(), FencedError> {
        let asked = self.on(async |session: Session| {
            if session.life != found.life {
                return Err(FencedError::Closed(super::Closed::Moved));
            }
            let mut command = ::redis::cmd("EVAL");
            command.arg(include_str!("open.lua")).arg(1).arg(&self.key).arg(&session.life);
            command.arg(found.opened_in.as_deref().unwrap_or_default()).arg(found.marks);
            command.arg(floor.map(|floor| floor.to_string()).unwrap_or_default());
            session.send(command).await
        });
        Answer::of(asked.await?)?;
        let (key, marks) = (&self.key, found.marks);
        tracing::warn!(%key, marks, ?floor, "high-water marks opened by an operator");
        Ok(())
    }
}
