use fencing_protocol::Token;
use sqlx::Transaction;

use super::AdmitError;
use crate::database::Database;
use crate::sequencer::Sequencer;

/// A presentation to protected tables: a [`Sequencer`], or a bare [`Token`].
#[derive(Debug, Clone)]
pub struct Presented(String);

impl From<&Sequencer> for Presented {
    fn from(sequencer: &Sequencer) -> Presented {
        Presented(sequencer.to_string())
    }
}

impl From<Token> for Presented {
    fn from(token: Token) -> Presented {
        Presented(token.to_string())
    }
}

/// Presents a sequencer to the triggers of protected tables (`fencing db protect`), which admit its token to its resource
/// when a row of that is written next. Rows of other resources are refused as [`AdmitError::Unpresented`].
///
/// A bare token is admitted to the resource of every row written next. It guards less: the holder
/// of one lease may then write what belongs to another, and shut out the other's holder if the
/// token is larger. Present a bare token only where one statement writes rows of several resources.
///
/// On PostgreSQL it lasts until the transaction ends, or until the next is presented. On MySQL it
/// lasts for the next statement that writes to a protected table: present before each. On SQLite
/// it does nothing: there the write itself presents, in the column `fencing_token`.
///
/// **Fencing.** It counts for everything that is written next: in a transaction that writes under several leases,
/// present each one's sequencer before its statements. Nothing of it is left for later users of the session. There is
/// one exception: if no statement writes after it, what you presented on MySQL stays in the session until
/// [`begin`](super::begin()) clears it, or `SET @fencing_sequencer = NULL, @fencing_token = NULL`.
///
/// # Errors
/// As for [`admit`](super::admit()), but never [`AdmitError::Stale`]: the write returns that.
///
/// # Cancel safety
/// If it is dropped, it may or may not have been presented: roll the transaction back.
pub async fn present<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    presented: impl Into<Presented>,
) -> Result<(), AdmitError> {
    match DB::present(&presented.into().0) {
        Some(present) => Ok(DB::execute(tx, present).await?),
        None => Ok(()),
    }
}
