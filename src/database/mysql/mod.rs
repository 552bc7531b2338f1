//! MySQL and MariaDB.

mod errors;
mod fence;
mod lease;
mod protect;

use sqlx::MySql;
use sqlx::mysql::MySqlConnectOptions;

pub use self::errors::{is_closing, is_conflict, meaning};
pub use self::fence::{HIGHEST, PRESENT, PRESENT_TOKEN};
use super::Database;

impl Database for MySql {
    const LEASES: &'static str = lease::LEASES;
    const END_LEASE: &'static str = lease::END_LEASE;
    const PROBE: &'static str = lease::PROBE;

    fn name(options: &MySqlConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        format!("mysql://{place}/{}", options.get_database().unwrap_or_default())
    }
}
