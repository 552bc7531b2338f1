//! What operators do with leases of a database, etcd or ZooKeeper. Redis nodes have [other functions](super::redlock).

use std::fmt;
use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use futures_util::future::BoxFuture;

use crate::holder::Holder;

/// A current lease, for operators. One that several share is listed once for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRecord {
    /// The resource.
    pub resource: Resource,
    /// The token of the lease.
    pub token: Token,
    /// The holder, if its name can be read.
    pub holder: Option<Holder>,
    /// Whether the lease is shared.
    pub shared: bool,
    /// Time until it ends unless renewed. `None` if the server does not say, or a row is held by hand for ever.
    pub remaining: Option<Duration>,
    /// What the server has as its owner.
    pub(crate) owner: String,
}

/// The operator functions of a service that keeps leases: list them, and end one.
///
/// [`ConnectOptions::operator`](super::ConnectOptions::operator) opens it by the URL of the lock service. The pool of
/// a database is one as well: its `acquire_timeout` bounds the wait for a connection, and then that for the answer.
pub trait Operator: fmt::Debug + Send + Sync {
    /// Reads the current leases of up to `limit` resources after `after`, ordered by the bytes of their names. Start
    /// with `None` and continue with the last resource.
    ///
    /// # Errors
    /// [`Fault`]: why the service did not answer.
    fn leases<'a>(&'a self, after: Option<&'a Resource>, limit: u32) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>>;

    /// Reads the leases of one resource: none, one, or those that share it. Errors are those of
    /// [`leases`](Operator::leases), and neither changes anything.
    fn leases_of<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>>;

    /// Ends a lease by force, if it is still the one that was seen. If several share it, it ends all of their leases,
    /// also those that have joined since. A later lease stays. Returns whether it was ended.
    ///
    /// In the same transaction a database adds a line to `fencing_audit`, with the lease's token as both tokens: with
    /// the rights of docs/reference/sql.md only the tables' owner may write there. etcd and ZooKeeper keep no record.
    ///
    /// **Fencing.** It does not stop the holder, which learns of it at its next renewal. Its renewals fail
    /// from now on. Only a storage that compares tokens refuses its writes, once it has seen a newer one.
    ///
    /// # Errors
    /// [`Fault`]. If the connection broke, the lease may have been ended.
    ///
    /// # Cancel safety
    /// Dropped, the lease was ended and recorded, or neither.
    fn force_release<'a>(&'a self, lease: &'a LeaseRecord) -> BoxFuture<'a, Result<bool, Fault>>;

    /// Raises all later tokens above this one, and ends all leases: for etcd or ZooKeeper after a restore from a
    /// backup, which takes their counts back. No lock is granted until the leases of old holders have ended. A token
    /// below those already granted lowers nothing.
    ///
    /// # Errors
    /// [`Fault`]: of the service; a database refuses, because a token there is larger than the mark of its resource.
    /// If the connection broke, the tokens may have been raised: repeat it.
    ///
    /// # Cancel safety
    /// Dropped, some leases may have been ended. Repeat it.
    fn raise(&self, above: Token) -> BoxFuture<'_, Result<(), Fault>> {
        let _ = above;
        let why = "a database gives tokens above its marks: there is nothing to raise";
        Box::pin(std::future::ready(Err(Fault::Refused(why.into()))))
    }
}
