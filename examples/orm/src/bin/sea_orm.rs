//! A fenced write in a transaction of sea-orm, on PostgreSQL.
//!
//! `cargo run -p orm --bin sea_orm -- postgres://user@host/database`

use anyhow::Context;
use fencing::fence::Stale;
use fencing::sql::{self, statement::postgres};
use fencing::{Resource, Token};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, EntityTrait, Set, Statement, TransactionTrait};

mod file {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "files")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub path: String,
        pub body: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Writes the file if no newer token has been there. Otherwise the error is [`Stale`].
async fn write(db: &DatabaseConnection, resource: &Resource, token: Token, body: &str) -> anyhow::Result<()> {
    let tx = db.begin().await?;
    let values = [resource.as_str().into(), i64::from(token).into()];
    let admit = Statement::from_sql_and_values(tx.get_database_backend(), postgres::ADMIT, values);
    // Dropped, the transaction is rolled back.
    tx.execute_raw(admit).await.map_err(|error| match sql::stale(&error, resource, token) {
        Some(stale) => anyhow::Error::from(stale),
        None => error.into(),
    })?;
    let file = file::ActiveModel { path: Set(resource.as_str().to_owned()), body: Set(body.to_owned()) };
    let replace = OnConflict::column(file::Column::Path).update_column(file::Column::Body).to_owned();
    file::Entity::insert(file).on_conflict(replace).exec_without_returning(&tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).context("usage: sea_orm URL")?;
    let db = Database::connect(url).await?;
    sql::migrate(db.get_postgres_connection_pool()).await?;
    let files = "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, body TEXT NOT NULL)";
    db.execute_unprepared(files).await?;

    let report = Resource::new("files/report")?;
    for (number, body) in [(33, "first"), (34, "second"), (33, "late"), (34, "again")] {
        match write(&db, &report, Token::new(number)?, body).await {
            Ok(()) => println!("{body}: written with token {number}"),
            Err(error) => println!("{body}: refused, {}", error.downcast::<Stale>()?),
        }
    }
    Ok(())
}
