use sqlx::error::DatabaseError;

use super::{Meaning, NO_FLOOR};

const TABLES: &[fn(&dyn DatabaseError) -> Option<Meaning>] = &[
    #[cfg(feature = "mysql")]
    super::mysql::meaning,
    #[cfg(feature = "postgres")]
    super::postgres::meaning,
    #[cfg(feature = "sqlite")]
    super::sqlite::meaning,
];

/// Returns the meaning of an error. `None` if it is the driver's own.
pub fn meaning(error: &sqlx::Error) -> Option<Meaning> {
    let error = error.as_database_error()?;
    // The SQLSTATEs of this crate's functions end like the HTTP statuses of the layer.
    Some(match error.code().as_deref() {
        Some("ZF412") => Meaning::Stale,
        Some("ZF409") => Meaning::RaiseFirst,
        Some("ZF428") => Meaning::Unpresented,
        Some("ZF500") if error.message().contains(NO_FLOOR) => Meaning::NotMigrated,
        Some("ZF500") => Meaning::Corrupt,
        _ => match TABLES.iter().find_map(|table| table(error)) {
            // The message names it in any language.
            Some(Meaning::NotMigrated) if !error.message().contains("fencing_") => Meaning::Other,
            found => found.unwrap_or(Meaning::Other),
        },
    })
}

/// Returns whether the statement met another transaction, and may succeed when that is run again.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    matches!(meaning(error), Some(Meaning::Conflict | Meaning::RaiseFirst))
}

/// Returns the text of the driver's error, and what to do where the driver does not say that.
pub fn explain(error: &sqlx::Error) -> String {
    let said = match error {
        sqlx::Error::Database(said) => said,
        sqlx::Error::Tls(why) if why.to_string().contains("without TLS") => {
            return format!("{error}: switch on the feature `tls` of the crate `fencing`");
        }
        error => return error.to_string(),
    };
    // The driver adds a line of the server's own source.
    let text = match said.to_string().starts_with(said.message()) {
        true => format!("error returned from database: {}", said.message()),
        false => error.to_string(),
    };
    let todo = match said.message() {
        message if message.contains("LOCK TABLES") => ": run UNLOCK TABLES first",
        message if message.contains("unsafe use of json_extract") => {
            "; this version of SQLite rejects the fence's triggers as unsafe under PRAGMA trusted_schema = OFF: \
             set it to ON, or use a newer version"
        }
        message if message.contains("fencing_") && meaning(error) == Some(Meaning::Denied) => {
            "; give this user the rights in docs/reference/sql.md, Rights"
        }
        _ => "",
    };
    text + todo
}
