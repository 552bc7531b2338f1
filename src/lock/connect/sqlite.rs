use sqlx::sqlite::SqliteConnectOptions;

use super::sql::{open_with, parsed};
use super::{ConnectError, ConnectOptions, Connecting};

pub(super) fn open(options: &ConnectOptions) -> Connecting<'_> {
    Box::pin(async { open_with::<sqlx::Sqlite>(options, file(options)?).await })
}

fn file(options: &ConnectOptions) -> Result<SqliteConnectOptions, ConnectError> {
    let file: SqliteConnectOptions = parsed::<sqlx::Sqlite>(options)?;
    let name = file.get_filename().to_string_lossy().into_owned();
    // The driver gives a database in memory a name of its own; without a name it is temporary.
    if name.is_empty() || name.contains("sqlx-in-memory") || options.url.contains("mode=memory") {
        let problem = "a database in memory keeps no other process out; use memory: for leases within one process";
        return Err(options.unusable(problem));
    }
    if let Some(folder) = file.get_filename().parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        return Err(options.unusable(format!("the folder {} does not exist", folder.display())));
    }
    // A URL with mode=rw wants a file that is there.
    let has_mode = options.url.split_once('?').is_some_and(|(_, query)| query.contains("mode="));
    let file = if has_mode { file } else { file.create_if_missing(true) };
    Ok(file.busy_timeout(options.connect_limit() / 2))
}
