use super::error::ProtectError;
use super::target::Protect;
use super::{mysql, postgres, sqlite};
use crate::database::{Database, Kind};

/// Refuses a table with rows that the triggers would refuse whatever token is presented: nobody could change or
/// delete them.
pub(super) async fn check<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    if protect.shadow || protect.named.columns().is_empty() {
        return Ok(());
    }
    let row = "fenced";
    let (name, bytes, text, mark) = match DB::KIND {
        Kind::MySql => {
            let name = mysql::resource(protect, row);
            (name.clone(), format!("LENGTH({name})"), "CHAR", '`')
        }
        Kind::Postgres => {
            let name = postgres::resource(protect, row);
            (name.clone(), format!("octet_length({name})"), "text", '"')
        }
        Kind::Sqlite => {
            let name = sqlite::resource(protect, row);
            (name.clone(), format!("length(CAST({name} AS BLOB))"), "TEXT", '"')
        }
    };
    let from = format!(
        "FROM {} AS {row} WHERE {name} IS NULL OR {bytes} NOT BETWEEN 1 AND 255",
        protect.path(mark)
    );
    let count = format!("SELECT CAST(count(*) AS {text}), CAST(count({name}) AS {text}) {from}");
    let counts = DB::texts(conn, count, Vec::new()).await?;
    let mut counts =
        counts.into_iter().flatten().map(|count| count.and_then(|count| count.parse().ok()));
    let mut next = || counts.next().flatten().unwrap_or(0_u64);
    let (all, long) = (next(), next());
    if all == 0 {
        return Ok(());
    }
    Err(protect.unguardable(format!(
        "nobody could change {all} of its rows: {} without a name, because a column of it is NULL, and {long} whose \
         name is empty or longer than 255 bytes. Give them names, or delete them: SELECT * {from}",
        all.saturating_sub(long)
    )))
}
