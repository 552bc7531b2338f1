use sqlx::sqlite::SqliteConnectOptions;

use super::sql::{self, unusable};
use super::{ConnectError, ConnectOptions, Connected};

pub(super) fn open(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let file: SqliteConnectOptions = options.url.parse().map_err(unusable("sqlite"))?;
    let name = file.get_filename().to_string_lossy().into_owned();
    // The driver gives a database in memory a name of its own; without a name it is temporary.
    if name.is_empty() || name.contains("sqlx-in-memory") || options.url.contains("mode=memory") {
        let problem = "a database in memory keeps no other process out; use memory: for leases \
                       within one process";
        return Err(ConnectError::Url { scheme: "sqlite", problem: problem.into() });
    }
    if let Some(folder) = file.get_filename().parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        let problem = format!("there is no folder {}", folder.display());
        return Err(ConnectError::Url { scheme: "sqlite", problem });
    }
    let file = file.create_if_missing(true).busy_timeout(options.connect_limit() / 2);
    sql::open(options, options.pool::<sqlx::Sqlite>().connect_lazy_with(file))
}
