use std::time::Duration;

use fencing_protocol::{Resource, Token};

use super::Dialect;

/// `begin` opens the transaction; `admit` admits in it, or is `None` if `begin` already has.
#[derive(Clone, Copy)]
pub struct Opening {
    pub begin: &'static str,
    pub admit: Option<&'static str>,
}

impl Opening {
    pub const fn new(begin: &'static str, admit: &'static str) -> Opening {
        Opening { begin, admit: Some(admit) }
    }
}

pub trait FenceStatements: Dialect {
    /// Opens a transaction that is going to write behind the fence.
    const BEGIN: &'static str;

    /// Compares the token with the mark, and raises it or fails. No newer one is admitted until the transaction ends.
    const ADMIT: &'static str;

    /// Admits after a savepoint, for shadow mode: waits for other transactions as briefly as the database can bound it.
    const ADMIT_IN_SHADOW: &'static str = Self::ADMIT;

    /// Opens a transaction that writes and reads nothing older than its admission. A raise that commits separately
    /// comes first. On failure none is open. Where presented tokens end with it (PostgreSQL), it presents the token.
    const WRITING: Opening = Opening::new(Self::BEGIN, Self::ADMIT);

    /// Opens a transaction that only raises a mark.
    const RAISING: Opening = Opening::new(Self::BEGIN, Self::ADMIT);

    /// Opens one that waits a second at most for each lock, where the database can bound that.
    const BOUNDED: Opening = Opening::new(Self::BEGIN, Self::ADMIT);

    /// Runs right after a transaction begins, for [`CHECK_COMMIT`](Self::CHECK_COMMIT), where that needs it: a failed
    /// statement may end a transaction there, and later ones are stored.
    const MARK_BEGIN: Option<&'static str> = None;

    /// Runs right before a commit, and fails if the transaction has ended: COMMIT may not report that.
    const CHECK_COMMIT: Option<&'static str> = None;

    /// Time for which the handler of a dropped request may continue, so that the driver can finish a statement.
    const GRACE: Duration = Duration::ZERO;

    /// Reads the mark as the connection sees it, without a lock. Its one parameter is the resource.
    const HIGHEST: &'static str;

    /// Reads the mark if it is the newest. `None` if the database can't know that: a proxy may ask a replica that lags.
    const NEWEST: Option<&'static str>;

    /// Reads at most `{limit}` marks of resources after `{after}`. Columns: the name in hexadecimal digits, and the
    /// token, which may be NULL or no token, where the table was altered by hand.
    const LIST: &'static str;

    /// Lowers the mark of `{resource}` to `{to}` if it is `{from}`, and records that in the audit.
    const LOWER: &'static str;

    /// Selects the marks that may be pruned: at most `{highest}`, last raised at least `{seconds}` ago, without a
    /// current lease. Columns: their number, the floor, and the name (in hexadecimal digits) and token of the highest.
    const PRUNABLE: &'static str;

    /// Raises the floor to `{to}`, in a separate transaction. If others block it, it fails as a conflict after a
    /// second; at once unless it `{waits}`, where others wait behind it. Current leases without a mark get one first.
    const RAISE_FLOOR: &'static str;

    /// Whether others wait behind [`RAISE_FLOOR`](Self::RAISE_FLOOR) while it waits. It then has the place `{waits}`.
    const FLOOR_WAIT_BLOCKS_OTHERS: bool = false;

    /// Deletes at most `{limit}` marks that may be pruned and are not above the floor, of resources after the
    /// name `{after}`. Columns: the number of marks, and the last name. Names are in hexadecimal digits.
    const PRUNE: &'static str;

    /// A condition that holds where the mark is the token, and locks it until the transaction ends as
    /// [`admit`](FenceStatements::admit) does. `{resource}` and `{token}` are the numbers of its two parameters.
    /// `None` for a database where the statement around it may read before it has the lock.
    const MARK_CONDITION: Option<&'static str> = None;

    /// Admits by the statement `admit` with its values; fails as it does. Returns the mark if it refuses the token.
    fn admit(
        conn: &mut Self::Connection,
        admit: String,
        resource: &Resource,
        token: Token,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// Presents a sequencer's text or a bare token to triggers of protected tables. `None` where writes carry it.
    fn present(_: &str) -> Option<String> {
        None
    }
}
