use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

use crate::database::Dialect;
use crate::database::dialect::plain_statements;

impl Dialect for Sqlite {
    const PARAMETER: &'static str = "?1";

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("CAST(x'{}' AS TEXT)", hex::encode(text))
    }

    plain_statements!();
}
