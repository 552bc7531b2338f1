//! Writers of the table `files`, each fenced in its way.

use tokio::sync::Notify;

use super::*;

/// How a writer checks its token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    Unfenced,
    Admit,
    /// By the statement for other libraries.
    Statement,
    Begin,
    /// As below a `TransactionLayer`.
    Layer,
    /// Presents a sequencer to a protected table, which alone decides.
    Present,
    /// Presents nothing, and so writes only tables that are not protected.
    Guarded,
    /// Admits in a transaction that commits in two phases.
    Xa,
}

use Way::*;

/// The ways whose transaction stays open until it is committed.
pub const WAYS: [Way; 6] = [Admit, Statement, Begin, Layer, Present, Guarded];

#[derive(Debug, Clone, Copy)]
pub struct Writer {
    pub way: Way,
    /// How its transaction begins, if the way leaves that to it.
    pub level: Option<&'static str>,
    pub protected: bool,
}

pub fn layered(error: FenceError) -> AdmitError {
    match error {
        FenceError::Stale(stale) => stale.into(),
        FenceError::Conflict(_) => AdmitError::Retryable(sqlx::Error::RowNotFound),
        error => panic!("{error:?}"),
    }
}

impl Writer {
    pub fn new(way: Way) -> Writer {
        Writer { way, level: None, protected: way == Present }
    }

    /// Checks. Through a pooler no statement may have a name.
    pub async fn admitted(self, pool: &Pool<Db>, number: u64) -> Result<Transaction<'static, Db>, AdmitError> {
        let own = own(number);
        let mut tx = match (self.way, self.level) {
            (Layer, _) => Transactions::begin(pool, std::slice::from_ref(&own)).await.map_err(layered)?,
            (Begin, _) => begin(pool, number).await?,
            (_, Some(level)) => pool.begin_with(level).await?,
            (_, None) => pool.begin().await?,
        };
        stall().await;
        match self.way {
            Admit => sql::admit(&mut tx, &own.resource, own.token).await?,
            Statement => {
                let admit = sqlx::query(place::ADMIT).bind(place::name(&own.resource));
                admit.bind(i64::from(own.token)).persistent(false).execute(&mut *tx).await?;
            }
            _ => {}
        }
        Ok(tx)
    }

    /// Checks and writes.
    pub async fn open(self, pool: &Pool<Db>, number: u64) -> Result<Transaction<'static, Db>, AdmitError> {
        stall().await;
        if self.way == Guarded {
            let (tx, rows) = guarded_write(number).begin(pool, &resource(), token(number)).await?;
            assert_eq!(rows, 1);
            stall().await;
            return Ok(tx);
        }
        let (own, mut tx) = (own(number), self.admitted(pool, number).await?);
        stall().await;
        let read = "SELECT late FROM files";
        if self.protected {
            sqlx::query(read).persistent(false).fetch_one(&mut *tx).await?;
        } else {
            // Not prepared: there a Galera cluster loses an abort (docs/reference/sql.md).
            raw_sql(read).fetch_one(&mut *tx).await?;
        }
        stall().await;
        let mut presented = String::new();
        if self.protected {
            sql::present(&mut tx, &own).await?;
            presented = place::presents(&own);
            stall().await;
        }
        write(&mut tx, own.token, &presented).await?;
        stall().await;
        Ok(tx)
    }

    pub async fn write(self, pool: &Pool<Db>, number: u64) -> Result<(), AdmitError> {
        if self.way == Xa {
            return in_xa(pool, number).await;
        }
        let tx = self.open(pool, number).await?;
        if self.way != Layer {
            return Ok(tx.commit().await?);
        }
        <Pool<Db> as Transactions>::commit(tx).await.map_err(|error| match error {
            CommitError::Conflict(_) => AdmitError::Retryable(sqlx::Error::RowNotFound),
            error => panic!("{error:?}"),
        })
    }
}

/// The write whose first statement admits.
pub fn guarded_write(number: u64) -> sql::Guarded<Db> {
    let number = number.cast_signed();
    sql::guarded(place::GUARDED, "path = 'files/a'").bind(number).bind(number)
}

/// The parts of a branch of XA on MariaDB, and how it ends if one of them fails.
async fn in_xa(pool: &Pool<Db>, number: u64) -> Result<(), AdmitError> {
    let branch = fastrand::u64(..);
    let mut conn = pool.acquire().await?;
    for part in [
        format!("XA START '{branch}'"),
        format!("CALL fencing_admit('files/a', {number})"),
        format!("SET @fencing_sequencer = '{}'", own(number)),
        format!("UPDATE files SET late = late + (token > {number}), token = {number}"),
        format!("XA END '{branch}'; XA PREPARE '{branch}'"),
        format!("XA COMMIT '{branch}'"),
    ] {
        stall().await;
        if let Err(error) = raw_sql(AssertSqlSafe(part)).execute(&mut *conn).await {
            for end in ["END", "ROLLBACK"] {
                let _ = raw_sql(AssertSqlSafe(format!("XA {end} '{branch}'"))).execute(&mut *conn).await;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

pub async fn ready_for(way: Way) -> Place {
    let place = ready().await;
    if way == Present {
        Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    }
    place
}

/// What an attempt returns in the end that must wait until `release` is over.
pub async fn waits<T>(place: &Place, attempt: impl AsyncFn() -> Result<T, AdmitError>, release: impl Future) -> T {
    let refused = Notify::new();
    let mut newer = std::pin::pin!(async {
        loop {
            match attempt().await {
                Err(AdmitError::Retryable(_)) => refused.notify_one(),
                done => break done.unwrap(),
            }
            pause().await;
        }
    });
    tokio::select! {
        () = place.blocked() => {}
        () = refused.notified() => {}
        _ = &mut newer => panic!("it did not wait"),
    }
    release.await;
    newer.await
}
