use sqlx::MySql;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};

use crate::database::dialect::{plain_statements, server};
use crate::database::{Dialect, Meaning};

impl Dialect for MySql {
    const QUOTE: char = '`';

    const PARAMETER: &'static str = "?";

    const KEEPS_SESSION_STATE: bool = true;

    fn name(options: &MySqlConnectOptions) -> String {
        let place = server(options.get_socket(), options.get_host(), options.get_port());
        format!("mysql://{place}/{}", options.get_database().unwrap_or_default())
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("x'{}'", hex::encode(text))
    }

    /// It is compared there as a text.
    fn catalogue(name: Option<&str>) -> String {
        name.map_or("NULL".into(), |name| format!("_utf8mb4 {}", MySql::literal(name)))
    }

    plain_statements!();
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    Some(meaning_of(error.try_downcast_ref::<MySqlDatabaseError>()?.number()))
}

/// Returns the meaning of an error by its number.
pub fn meaning_of(number: u16) -> Meaning {
    match number {
        // Lock wait timeout, deadlock, MariaDB's newer snapshot isolation ("record has
        // changed"), a table altered since the snapshot, NOWAIT, a cluster's conflict.
        1205 | 1213 | 1020 | 1412 | 3572 | 3101 => Meaning::Conflict,
        // No such table, no such procedure, a view without its table.
        1146 | 1305 | 1356 => Meaning::NotMigrated,
        // Access denied: to the database, to this user, to a table or column, without a
        // privilege, to a procedure, without a password.
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => Meaning::Denied,
        // Shutdown, session killed (MariaDB, MySQL), idle for too long.
        1053 | 1927 | 3169 | 4031 => Meaning::Closing,
        // Too many connections, and of this user; those that clients give by themselves.
        1040 | 1203 | 2002 | 2003 | 2006 | 2013 => Meaning::Unreached,
        // The disk is full, read-only (three), the statement was killed, or took too long (MySQL, MariaDB), a node of a
        // cluster is not ready, too many connections of this user.
        1021 | 1290 | 1792 | 1836 | 1317 | 3024 | 1969 | 1047 | 1226 => Meaning::NotNow,
        _ => Meaning::Other,
    }
}
