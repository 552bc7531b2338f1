use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencing::lock::redlock::{Node, RedisNode, Session};
use fencing::{Resource, Token};
use fencing_protocol::{Fleet, Mode, Owner, Reply, Request};
use futures_util::future::join_all;
use support::requests::ask_alone;

use crate::contestant::TTL;
use crate::fleet::majority;

/// The least that a client of this crate's scripts can do: the same requests to the same nodes, sent as the bare
/// quorum sends its own. What `fencing` takes beyond that is the client, and what this takes beyond `bare` is
/// the scripts. It needs nodes that somebody else has admitted.
#[derive(Clone)]
pub struct Scripts {
    sessions: Arc<Vec<Box<dyn Session>>>,
    owners: Arc<AtomicU64>,
}

impl Scripts {
    pub async fn connect(urls: &[String]) -> Scripts {
        let nodes = urls.iter().map(|url| RedisNode::new(url, "fencing").unwrap());
        let nodes: Vec<RedisNode> = nodes.collect();
        let fleet = Fleet::new(nodes.iter().map(Node::member)).unwrap();
        let mut sessions = Vec::new();
        for node in nodes {
            sessions.push(node.open(&fleet, "me").await.unwrap());
        }
        Scripts { sessions: Arc::new(sessions), owners: Arc::default() }
    }

    pub async fn acquire(&self, name: &str) -> Option<(Resource, Owner)> {
        let number = self.owners.fetch_add(1, Ordering::Relaxed);
        let owner = Owner((u128::from(std::process::id()) << 64) | u128::from(number));
        let resource = Resource::new(format!("scripts/{name}")).unwrap();
        let request = Request::Acquire { mode: Mode::Exclusive, resource: resource.clone(), owner, ttl: TTL };
        let granted = self.majority(&request, |reply| matches!(reply, Reply::Granted { .. })).await;
        granted.then_some((resource, owner))
    }

    pub async fn release(&self, (resource, owner): (Resource, Owner)) {
        let request = Request::Release { resource, owner };
        self.majority(&request, |reply| *reply == Reply::Released).await;
    }

    /// Renews locks that [`acquire`](Scripts::acquire) has got, each once, all at one time. Says how many were renewed.
    pub async fn renew(&self, held: &[(Resource, Owner)]) -> usize {
        let renewals = held.iter().map(|(resource, owner)| {
            let (resource, owner) = (resource.clone(), *owner);
            // The lock is still held: nobody looks at the token.
            let request = Request::Renew { mode: Mode::Exclusive, resource, owner, token: Token::MIN, ttl: TTL };
            async move { self.all(&request, |reply| *reply == Reply::Renewed).await }
        });
        let renewed: Vec<bool> = join_all(renewals).await;
        renewed.into_iter().filter(|renewed| *renewed).count()
    }

    /// Waits for all nodes: a majority that has answered leaves work behind.
    async fn all(&self, request: &Request, good: impl Fn(&Reply) -> bool) -> bool {
        let calls = self.sessions.iter().map(|session| ask_alone(&**session, request.clone()));
        let votes = join_all(calls).await.iter().flatten().filter(|reply| good(reply)).count();
        votes > self.sessions.len() / 2
    }

    async fn majority(&self, request: &Request, good: impl Fn(&Reply) -> bool) -> bool {
        let good = &good;
        let calls = self.sessions.iter().map(|session| {
            let call = ask_alone(&**session, request.clone());
            async move { call.await.is_ok_and(|reply| good(&reply)) }
        });
        majority(calls).await
    }
}
