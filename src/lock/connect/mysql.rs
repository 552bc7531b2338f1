use sqlx::mysql::MySqlConnectOptions;

use super::sql::{self, unusable};
use super::{ConnectError, ConnectOptions, Connected};

pub(super) fn open(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let server: MySqlConnectOptions = options.url.parse().map_err(unusable("mysql"))?;
    sql::open(options, options.pool::<sqlx::MySql>().connect_lazy_with(server))
}
