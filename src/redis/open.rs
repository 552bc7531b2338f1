use std::str::FromStr;

use fencing_protocol::Token;

use super::connection::floor;
use super::{Closed, FencedError, RedisMarks};

/// The state of the marks of a namespace, for an operator. It is written as one word, `LIFE/OPENED_IN/MARKS/FLOOR`, to be
/// read again when the operator has decided.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq)]
#[display(
    "{life}/{}/{marks}/{}",
    opened_in.as_deref().unwrap_or_default(),
    floor.map(|it| it.to_string()).unwrap_or_default()
)]
#[non_exhaustive]
pub struct MarksState {
    /// The number of marks.
    pub marks: u64,
    /// The floor: if a resource has no mark, smaller tokens are refused.
    pub floor: Option<Token>,
    /// The server's present `run_id`.
    pub life: String,
    /// The `run_id` at their opening, if known. It begins with `closed:` once a server with another one has found it.
    pub opened_in: Option<String>,
}

impl MarksState {
    /// Returns whether they are open: whether they were opened under the present `run_id`.
    pub fn is_open(&self) -> bool {
        self.opened_in.as_ref() == Some(&self.life)
    }
}

/// Why a text is no [`MarksState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a marks state, LIFE/OPENED_IN/MARKS/FLOOR, as `fencing db marks open` prints it")]
pub struct MarksStateError;

impl FromStr for MarksState {
    type Err = MarksStateError;

    fn from_str(text: &str) -> Result<MarksState, MarksStateError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [life, opened_in, marks, floor] = *parts.as_slice() else {
            return Err(MarksStateError);
        };
        if life.is_empty() {
            return Err(MarksStateError);
        }
        let floor = Some(floor).filter(|floor| !floor.is_empty()).map(str::parse).transpose();
        Ok(MarksState {
            marks: marks.parse().map_err(|_| MarksStateError)?,
            floor: floor.map_err(|_| MarksStateError)?,
            life: life.to_owned(),
            opened_in: Some(opened_in.to_owned()).filter(|life| !life.is_empty()),
        })
    }
}

impl RedisMarks {
    /// Returns the state of the marks. It opens nothing. If they were opened under another `run_id`, it marks them as
    /// closed: that server then refuses them as well, should it copy this one and become a master again.
    ///
    /// # Errors
    /// [`FencedError`]: `Unfit` (cannot keep marks), `CorruptFloor` (the floor is no token), others if not reached.
    ///
    /// # Cancel safety
    /// If you drop the future, an opening under another `run_id` may be closed or not. Nothing is opened.
    pub async fn look(&self) -> Result<MarksState, FencedError> {
        let asked = self.on(async |connection| {
            let answer = connection.run(include_str!("look.lua"), &self.key, &[]).await?;
            Ok((answer, connection.life.clone()))
        });
        let (answer, life) = asked.await?;
        let (marks, floor) = (answer.number(2)?, floor(&answer.text(1))?);
        let opened_in = Some(answer.text(0)).filter(|life| !life.is_empty());
        Ok(MarksState { marks, floor, life, opened_in })
    }

    /// Opens the marks until the server restarts, if their state is still the one that was
    /// [found](RedisMarks::look). It writes a warning to the log. For operators: never automate it.
    ///
    /// With a `floor`, every resource's mark is at least that: smaller tokens are refused. A floor never falls.
    ///
    /// # Errors
    /// [`FencedError::Closed`] if they have changed since, or the server was restarted. Look again.
    ///
    /// # Cancel safety
    /// If you drop the future, they may or may not be open.
    ///
    /// **Fencing.** It is safe if there were never any marks, or if none is lost: after a restart that lost no write
    /// (`appendfsync always`). If marks may be lost, a stale token passes at each resource whose mark is lower than the
    /// highest token seen, until a newer one arrives. Set a floor above every token granted before, and make sure that
    /// the lock service grants tokens above it; or stop the writers, open the marks, raise those of the resources that
    /// matter by the tokens of their newest leases, and start the writers.
    pub async fn open(&self, found: &MarksState, floor: Option<Token>) -> Result<(), FencedError> {
        let (opened_in, marks) = (found.opened_in.as_deref().unwrap_or_default(), found.marks);
        let (seen, floor_text) = (marks.to_string(), floor.map(|f| f.to_string()).unwrap_or_default());
        let asked = self.on(async |connection| {
            if connection.life != found.life {
                return Err(FencedError::Closed(Closed::Moved));
            }
            connection.run(include_str!("open.lua"), &self.key, &[opened_in, &seen, &floor_text]).await
        });
        asked.await?;
        tracing::warn!(key = self.key, marks, ?floor, "high-water marks opened by an operator");
        Ok(())
    }
}
