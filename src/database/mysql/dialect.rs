use sqlx::MySql;
use sqlx::mysql::MySqlConnectOptions;

use crate::database::Dialect;
use crate::database::dialect::plain_statements;

impl Dialect for MySql {
    const QUOTE: char = '`';

    const PARAMETER: &'static str = "?";

    const KEEPS_SESSION_STATE: bool = true;

    fn name(options: &MySqlConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
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
