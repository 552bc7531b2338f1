//! What the errors of a transaction are to a fence: so a handler behind the tower layer can
//! answer them with `?`.

use super::AdmitError;
use crate::fence::FenceError;

impl From<AdmitError> for FenceError {
    fn from(error: AdmitError) -> FenceError {
        match error {
            AdmitError::Stale(stale) => FenceError::Stale(stale),
            error @ AdmitError::Retryable(_) => FenceError::Conflict(Box::new(error)),
            error @ AdmitError::Database(sqlx::Error::PoolTimedOut) => {
                FenceError::NoConnection(Box::new(error))
            }
            error @ AdmitError::NotMigrated(_) => FenceError::NotSetUp(Box::new(error)),
            error => FenceError::Unreachable(Box::new(error)),
        }
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> FenceError {
        AdmitError::from(error).into()
    }
}
