use http::uri::PathAndQuery;
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// A client of etcd with the few messages of leases and of the `Lock` service, and no compiler for protocols.
#[derive(Clone)]
pub struct Etcd {
    channel: Channel,
    /// The lease of this process.
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Unlock {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

impl Etcd {
    pub async fn connect(host: &str) -> Etcd {
        let endpoint = Endpoint::from_shared(format!("http://{host}")).unwrap();
        let channel = endpoint.tcp_nodelay(true).connect().await.unwrap();
        let mut etcd = Etcd { channel, lease: 0 };
        etcd.lease = etcd.call::<_, Granted>("/etcdserverpb.Lease/LeaseGrant", Grant { seconds: 3600 }).await.id;
        etcd
    }

    /// Returns the key of the lock, whose creation is the token.
    pub async fn lock(&self, name: &str) -> Vec<u8> {
        let lock = Lock { name: name.into(), lease: self.lease };
        self.call::<_, Locked>("/v3lockpb.Lock/Lock", lock).await.key
    }

    pub async fn unlock(&self, key: Vec<u8>) {
        self.call::<_, ()>("/v3lockpb.Lock/Unlock", Unlock { key }).await;
    }

    async fn call<Q, R>(&self, path: &'static str, question: Q) -> R
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, R>::default());
        grpc.unary(Request::new(question), path, codec).await.unwrap().into_inner()
    }
}
