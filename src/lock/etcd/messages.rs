//! The messages of etcd's API that leases need, by hand: no build of this crate runs a compiler of protocols.

use prost::Message;

/// A request, and where it is sent.
pub(super) trait Request: Message + Default + Clone + 'static {
    type Answer: Answer;
    const PATH: &'static str;
}

/// An answer, which says from which cluster it comes.
pub(super) trait Answer: Message + Default + 'static {
    fn header(&self) -> Header;
}

macro_rules! requests {
    ($($request:ty => $answer:ty, $path:literal;)*) => {$(
        impl Request for $request {
            type Answer = $answer;
            const PATH: &'static str = concat!("/etcdserverpb.", $path);
        }

        impl Answer for $answer {
            fn header(&self) -> Header {
                self.header.clone().unwrap_or_default()
            }
        }
    )*};
}

requests! {
    Txn => TxnAnswer, "KV/Txn";
    Range => RangeAnswer, "KV/Range";
    LeaseGrant => LeaseGranted, "Lease/LeaseGrant";
    LeaseRevoke => LeaseRevoked, "Lease/LeaseRevoke";
    LeaseKeepAlive => LeaseKeptAlive, "Lease/LeaseKeepAlive";
    LeaseTimeToLive => LeaseLeft, "Lease/LeaseTimeToLive";
    Authenticate => Authenticated, "Auth/Authenticate";
    Status => StatusAnswer, "Maintenance/Status";
    Watch => WatchAnswer, "Watch/Watch";
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "1")]
    pub(super) cluster: u64,
    #[prost(uint64, tag = "2")]
    pub(super) member: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) created: i64,
    #[prost(int64, tag = "3")]
    pub(super) modified: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

/// How a condition compares.
#[derive(Clone, Copy)]
pub(super) enum Is {
    Equal = 0,
    Greater = 1,
}

/// A condition of a transaction. About a range of keys it is that of each of them, and none counts as created at 0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    is: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    created_at: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    modified_at: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "7")]
    valued: Option<Vec<u8>>,
    #[prost(bytes = "vec", tag = "64")]
    end: Vec<u8>,
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

    pub(super) fn absent(key: Vec<u8>) -> Compare {
        Compare::created(key, Is::Equal, 0)
    }

    pub(super) fn none_in((key, end): (Vec<u8>, Vec<u8>)) -> Compare {
        Compare::absent(key).up_to(end)
    }

    pub(super) fn up_to(self, end: Vec<u8>) -> Compare {
        Compare { end, ..self }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// 2: the last first.
    #[prost(int32, tag = "5")]
    pub(super) order: i32,
    /// 2: by their creation.
    #[prost(int32, tag = "6")]
    pub(super) by: i32,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
    #[prost(int64, tag = "13")]
    pub(super) max_created: i64,
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
        Range { key, end, limit, order: 2, by: 2, max_created, ..Range::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    end: Vec<u8>,
}

/// One operation of a transaction: one of these.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Op {
    #[prost(message, optional, tag = "1")]
    range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
    #[prost(message, optional, tag = "3")]
    delete: Option<Delete>,
    #[prost(message, optional, tag = "4")]
    txn: Option<Txn>,
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

#[derive(Clone, PartialEq, Message)]
pub(super) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Op>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Op>,
}

impl Txn {
    /// Does this if the condition holds, and else nothing.
    pub(super) fn only_if(compare: Compare, then: Op) -> Txn {
        Txn { compare: vec![compare], success: vec![then], failure: Vec::new() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OpAnswer {
    #[prost(message, optional, tag = "1")]
    range: Option<RangeAnswer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    ops: Vec<OpAnswer>,
}

impl TxnAnswer {
    /// Returns what the operation of this number has read.
    pub(super) fn read(&self, number: usize) -> &[KeyValue] {
        let range = self.ops.get(number).and_then(|op| op.range.as_ref());
        range.map_or(&[], |range| &range.kvs)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrant {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGranted {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRevoke {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRevoked {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseKeepAlive {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseKeptAlive {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "3")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseTimeToLive {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseLeft {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(int64, tag = "3")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Authenticate {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Authenticated {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Watch {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
}

/// Watches for deletions.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start: i64,
    /// 0: no puts.
    #[prost(int32, repeated, tag = "5")]
    pub(super) filters: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(string, tag = "6")]
    pub(super) reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

/// That a key was deleted.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {}
