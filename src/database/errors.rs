use sqlx::error::DatabaseError;

use super::Meaning;

const TABLES: &[fn(&dyn DatabaseError) -> Option<Meaning>] = &[
    #[cfg(feature = "mysql")]
    super::mysql::meaning,
    #[cfg(feature = "postgres")]
    super::postgres::meaning,
    #[cfg(feature = "sqlite")]
    super::sqlite::meaning,
];

pub fn meaning(error: &dyn DatabaseError) -> Meaning {
    TABLES.iter().find_map(|table| table(error)).unwrap_or(Meaning::Other)
}

/// Returns the text of the driver's error, and what to do where the driver does not say that.
pub fn text(error: &sqlx::Error) -> String {
    let text = error.to_string();
    match error {
        sqlx::Error::Tls(_) if text.contains("without TLS") => {
            format!("{text}: switch on the feature `tls` of the crate `fencing`")
        }
        sqlx::Error::Database(said) if said.message().contains("LOCK TABLES") => {
            format!("{text}: run UNLOCK TABLES first")
        }
        // The driver adds a line of the server's own source.
        sqlx::Error::Database(said) if said.to_string().starts_with(said.message()) => {
            format!("error returned from database: {}", said.message())
        }
        _ => text,
    }
}
