use sqlx::database::HasStatementCache;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Row, Type,
};

use super::Texts;

/// Reads rows whose columns are all texts or NULL.
pub async fn texts<DB: Database + HasStatementCache>(
    conn: &mut DB::Connection,
    sql: String,
    values: Vec<Option<String>>,
) -> sqlx::Result<Vec<Texts>>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'q> Option<String>: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    for value in values {
        query = query.bind(value);
    }
    let rows = query.fetch_all(conn).await?;
    rows.iter().map(|row| (0..row.len()).map(|column| row.try_get(column)).collect()).collect()
}
