use sqlx::MySql;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};

use super::{Kind, Meaning, Named};

impl Named for MySql {
    const KIND: Kind = Kind::MySql;

    fn name(options: &MySqlConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        format!("mysql://{place}/{}", options.get_database().unwrap_or_default())
    }
}

/// Returns what the error means, if it is one of MySQL's or MariaDB's.
pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(match error.number() {
        // Lock wait timeout, deadlock, MariaDB's newer snapshot isolation ("record has
        // changed"), a table altered since the snapshot, NOWAIT, a cluster's conflict.
        1205 | 1213 | 1020 | 1412 | 3572 | 3101 => Meaning::Conflict,
        // No such table, no such procedure.
        1146 | 1305 if error.message().contains("fencing_") => Meaning::NotMigrated,
        // Access denied: to the database, to this user, to a table or column, without a
        // privilege, to a procedure, without a password.
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => Meaning::Denied,
        // Shutdown, session killed (MariaDB, MySQL), idle for too long.
        1053 | 1927 | 3169 | 4031 => Meaning::Closing,
        _ => Meaning::Other,
    })
}
