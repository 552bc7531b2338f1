//! The messages of etcd's API that leases need, by hand: no build of this crate runs a compiler of protocols.

use prost::Message;

pub(super) trait EtcdRequest: Message + Default + Clone + 'static {
    type Answer: EtcdAnswer;
    const PATH: &'static str;
}

/// An answer, which says from which cluster it comes.
pub(super) trait EtcdAnswer: Message + Default + 'static {
    fn header(&self) -> Header;
}

macro_rules! requests {
    ($($request:ty => $answer:ty, $path:literal;)*) => {$(
        impl EtcdRequest for $request {
            type Answer = $answer;
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
        }
    )*};
}

macro_rules! answers {
    ($($answer:ty)*) => {$(
        impl EtcdAnswer for $answer {
            fn header(&self) -> Header {
                self.header.clone().unwrap_or_default()
            }
        }
    )*};
}

requests! {
    Txn => TxnAnswer, "KV/Txn";
    Range => RangeAnswer, "KV/Range";
    LeaseGrant => LeaseAnswer, "Lease/LeaseGrant";
    LeaseRevoke => LeaseAnswer, "Lease/LeaseRevoke";
    LeaseKeepAlive => LeaseAnswer, "Lease/LeaseKeepAlive";
    LeaseTimeToLive => LeaseAnswer, "Lease/LeaseTimeToLive";
    Authenticate => Authenticated, "Auth/Authenticate";
    Status => StatusAnswer, "Maintenance/Status";
    Watch => WatchAnswer, "Watch/Watch";
}

answers! { TxnAnswer RangeAnswer LeaseAnswer Authenticated StatusAnswer WatchAnswer }

macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $($(#[$note:meta])* [$($prost:tt)*] $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $name {
            $($(#[$note])* #[prost($($prost)*)] pub(super) $field: $type,)*
        }
    )*};
}

messages! {
    Header { [uint64, tag = "1"] cluster: u64, [uint64, tag = "2"] member: u64, [int64, tag = "3"] revision: i64, }
    KeyValue {
        [bytes = "vec", tag = "1"] key: Vec<u8>,
        [int64, tag = "2"] created: i64,
        [int64, tag = "3"] modified: i64,
        [bytes = "vec", tag = "5"] value: Vec<u8>,
        [int64, tag = "6"] lease: i64,
    }
    /// A condition of a transaction. For a range it must hold for every key; an empty range counts as created at 0.
    Compare {
        [int32, tag = "1"] is: i32,
        [int32, tag = "2"] target: i32,
        [bytes = "vec", tag = "3"] key: Vec<u8>,
        [int64, optional, tag = "5"] created_at: Option<i64>,
        [int64, optional, tag = "6"] modified_at: Option<i64>,
        [bytes = "vec", optional, tag = "7"] valued: Option<Vec<u8>>,
        [int64, optional, tag = "8"] lease: Option<i64>,
        [bytes = "vec", tag = "64"] end: Vec<u8>,
    }
    Range {
        [bytes = "vec", tag = "1"] key: Vec<u8>,
        [bytes = "vec", tag = "2"] end: Vec<u8>,
        [int64, tag = "3"] limit: i64,
        /// 2: the last first.
        [int32, tag = "5"] order: i32,
        /// 2: by their creation.
        [int32, tag = "6"] by: i32,
        [int64, tag = "13"] max_created: i64,
    }
    RangeAnswer {
        [message, optional, tag = "1"] header: Option<Header>,
        [message, repeated, tag = "2"] kvs: Vec<KeyValue>,
    }
    Put {
        [bytes = "vec", tag = "1"] key: Vec<u8>,
        [bytes = "vec", tag = "2"] value: Vec<u8>,
        [int64, tag = "3"] lease: i64,
    }
    Delete { [bytes = "vec", tag = "1"] key: Vec<u8>, [bytes = "vec", tag = "2"] end: Vec<u8>, }
    /// One operation of a transaction: one of these.
    Op {
        [message, optional, tag = "1"] range: Option<Range>,
        [message, optional, tag = "2"] put: Option<Put>,
        [message, optional, tag = "3"] delete: Option<Delete>,
        [message, optional, tag = "4"] txn: Option<Txn>,
    }
    Txn {
        [message, repeated, tag = "1"] compare: Vec<Compare>,
        [message, repeated, tag = "2"] success: Vec<Op>,
        [message, repeated, tag = "3"] failure: Vec<Op>,
    }
    OpAnswer { [message, optional, tag = "1"] range: Option<RangeAnswer>, }
    TxnAnswer {
        [message, optional, tag = "1"] header: Option<Header>,
        [bool, tag = "2"] succeeded: bool,
        [message, repeated, tag = "3"] ops: Vec<OpAnswer>,
    }
    LeaseGrant { [int64, tag = "1"] seconds: i64, [int64, tag = "2"] id: i64, }
    LeaseRevoke { [int64, tag = "1"] id: i64, }
    LeaseKeepAlive { [int64, tag = "1"] id: i64, }
    LeaseTimeToLive { [int64, tag = "1"] id: i64, }
    Authenticate { [string, tag = "1"] name: String, [string, tag = "2"] password: String, }
    Authenticated { [message, optional, tag = "1"] header: Option<Header>, [string, tag = "2"] token: String, }
    Status {}
    StatusAnswer {
        [message, optional, tag = "1"] header: Option<Header>,
        [string, tag = "2"] version: String,
        [uint64, tag = "4"] leader: u64,
        [string, repeated, tag = "8"] errors: Vec<String>,
    }
    Watch { [message, optional, tag = "1"] create: Option<WatchCreate>, }
    /// Watches for deletions.
    WatchCreate {
        [bytes = "vec", tag = "1"] key: Vec<u8>,
        [bytes = "vec", tag = "2"] end: Vec<u8>,
        [int64, tag = "3"] start: i64,
        /// 0: no puts.
        [int32, repeated, tag = "5"] filters: Vec<i32>,
    }
    WatchAnswer {
        [message, optional, tag = "1"] header: Option<Header>,
        [bool, tag = "4"] canceled: bool,
        [string, tag = "6"] reason: String,
        [message, repeated, tag = "11"] events: Vec<Event>,
    }
    /// That a key was deleted.
    Event {}
    /// The answer to every request about an etcd lease.
    LeaseAnswer { [message, optional, tag = "1"] header: Option<Header>, [int64, tag = "3"] seconds: i64, }
}

#[derive(Clone, Copy)]
pub(super) enum Is {
    Equal = 0,
    Greater = 1,
}

impl Compare {
    pub(super) fn created(key: Vec<u8>, is: Is, revision: i64) -> Compare {
        Compare { is: is as i32, target: 1, key, created_at: Some(revision), ..Compare::default() }
    }

    pub(super) fn modified(key: Vec<u8>, revision: i64) -> Compare {
        Compare { target: 2, key, modified_at: Some(revision), ..Compare::default() }
    }

    pub(super) fn value(key: Vec<u8>, is: Is, value: Vec<u8>) -> Compare {
        Compare { is: is as i32, target: 3, key, valued: Some(value), ..Compare::default() }
    }

    pub(super) fn leased(key: Vec<u8>, lease: i64) -> Compare {
        Compare { target: 4, key, lease: Some(lease), ..Compare::default() }
    }

    pub(super) fn absent(key: Vec<u8>) -> Compare {
        Compare::created(key, Is::Equal, 0)
    }

    pub(super) fn none_in((key, end): (Vec<u8>, Vec<u8>)) -> Compare {
        Compare::absent(key).up_to(end)
    }

    pub(super) fn some_in((key, end): (Vec<u8>, Vec<u8>)) -> Compare {
        Compare::created(key, Is::Greater, 0).up_to(end)
    }

    fn up_to(self, end: Vec<u8>) -> Compare {
        Compare { end, ..self }
    }
}

impl Range {
    pub(super) fn one(key: Vec<u8>) -> Range {
        Range { key, ..Range::default() }
    }

    pub(super) fn all((key, end): (Vec<u8>, Vec<u8>)) -> Range {
        Range { key, end, ..Range::default() }
    }

    /// Returns the key that was created last, up to a revision or at all.
    pub(super) fn last((key, end): (Vec<u8>, Vec<u8>), limit: i64, max_created: i64) -> Range {
        Range { key, end, limit, order: 2, by: 2, max_created }
    }
}

impl Op {
    pub(super) fn range(range: Range) -> Op {
        Op { range: Some(range), ..Op::default() }
    }

    pub(super) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Op {
        Op { put: Some(Put { key, value, lease }), ..Op::default() }
    }

    pub(super) fn delete(key: Vec<u8>) -> Op {
        Op::delete_all((key, Vec::new()))
    }

    pub(super) fn delete_all((key, end): (Vec<u8>, Vec<u8>)) -> Op {
        Op { delete: Some(Delete { key, end }), ..Op::default() }
    }

    pub(super) fn txn(txn: Txn) -> Op {
        Op { txn: Some(txn), ..Op::default() }
    }
}

impl Txn {
    pub(super) fn only_if(compare: Compare, then: Op) -> Txn {
        Txn { compare: vec![compare], success: vec![then], failure: Vec::new() }
    }
}

impl TxnAnswer {
    /// Returns what the operation of this number has read.
    pub(super) fn read(&self, number: usize) -> &[KeyValue] {
        let range = self.ops.get(number).and_then(|op| op.range.as_ref());
        range.map_or(&[], |range| &range.kvs)
    }
}
