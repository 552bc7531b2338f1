use sqlx::postgres::PgConnectOptions;

use super::sql::{self, unusable};
use super::{ConnectError, ConnectOptions, Connected};

pub(super) fn open(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let server: PgConnectOptions = options.url.parse().map_err(unusable("postgres"))?;
    sql::open(options, options.pool::<sqlx::Postgres>().connect_lazy_with(server))
}
