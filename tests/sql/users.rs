//! Users with few rights, and what they are refused.

use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Pool};

use super::place::Db;

/// A pool of one connection to the same database, as this user.
pub fn pool(like: &Pool<Db>, user: &str) -> Pool<Db> {
    let options = like.connect_options().as_ref().clone().username(user);
    PoolOptions::<Db>::new().max_connections(1).connect_lazy_with(options)
}

pub async fn run(pool: &Pool<Db>, statements: &str) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(pool).await.map(drop)
}

/// Runs what is refused, and returns the SQLSTATE.
pub async fn refused(pool: &Pool<Db>, statements: &str) -> String {
    let error = run(pool, statements).await.expect_err(statements);
    error.as_database_error().unwrap().code().unwrap().into_owned()
}
