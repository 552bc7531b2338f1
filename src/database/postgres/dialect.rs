use sqlx::Postgres;
use sqlx::postgres::PgConnectOptions;

use crate::database::Dialect;
use crate::database::dialect::plain_statements;

impl Dialect for Postgres {
    const PARAMETER: &'static str = "$1";

    fn name(options: &PgConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex::encode(text))
    }

    plain_statements!();
}
