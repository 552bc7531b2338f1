/// Writes the methods of [`FenceStatements`](super::FenceStatements) that only pass a statement on. Without a
/// macro each user of a database would have to repeat the bounds of its driver.
macro_rules! plain_statements {
    () => {
        async fn run(
            conn: &mut Self::Connection,
            sql: String,
            values: Self::Arguments,
        ) -> sqlx::Result<u64> {
            let run = sqlx::query_with::<Self, _>(sqlx::AssertSqlSafe(sql), values);
            Ok(run.execute(conn).await?.rows_affected())
        }

        async fn execute(conn: &mut Self::Connection, sql: String) -> sqlx::Result<()> {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(conn).await.map(drop)
        }

        async fn texts(
            conn: &mut Self::Connection,
            sql: String,
        ) -> sqlx::Result<Vec<$crate::database::TextRow>> {
            use sqlx::Row;
            let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(conn).await?;
            let texts = |row: &Self::Row| {
                let texts = (0..row.len()).map(|at| row.try_get_unchecked(at));
                texts.collect::<Result<_, _>>().map($crate::database::TextRow)
            };
            rows.iter().map(texts).collect()
        }
    };
}
pub(super) use plain_statements;

/// Returns the migrations of this folder by version: description and SQL.
macro_rules! migrations {
    ($folder:literal) => {
        migrations!($folder: 1 marks, 2 admit, 3 leases, 4 lower, 5 prune)
    };
    ($folder:literal: $($version:literal $name:ident),*) => {
        &[$((
            $version,
            concat!("fencing ", stringify!($name)),
            include_str!(concat!(
                "../../../migrations/", $folder, "/000", $version, "_fencing_", stringify!($name), ".sql"
            )),
        )),*]
    };
}
pub(super) use migrations;
