use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::table::Table;
use crate::listen::Full;

/// An answer. One that nobody reads takes its lease back: the client has gone away before it knew of it.
pub(super) struct Told {
    text: Full,
    lease: Option<Unread>,
}

/// A lease whose client has not been told.
pub(super) struct Unread {
    pub(super) table: Arc<Table>,
    pub(super) id: String,
}

impl Drop for Unread {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.table.forget(&self.id);
        }
    }
}

impl Told {
    pub(super) fn new(text: Full) -> Told {
        Told { text, lease: None }
    }

    pub(super) fn of_a_lease(text: Full, lease: Unread) -> Told {
        Told { text, lease: Some(lease) }
    }
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(mut lease) = self.lease.take() {
            lease.id.clear();
        }
        Pin::new(&mut self.text).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.text.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use fencing::Resource;
    use fencing::lock::ConnectOptions;
    use http_body_util::BodyExt;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_lease_of_which_its_client_does_not_hear_is_released() {
        let lock = ConnectOptions::new("memory:").renew(false).connect().await.unwrap();
        let (table, resource) = (Table::new(2), Resource::new("a").unwrap());
        let ttl = Duration::from_secs(10);
        let told = async || {
            let lease = lock.acquire(&resource).await.unwrap();
            let shown = table.keep(lease, ttl, table.place().unwrap()).unwrap();
            let unread = Unread { table: Arc::clone(&table), id: shown.id.clone() };
            (shown.id, Told::of_a_lease(Full::new(Bytes::from("a")), unread))
        };
        let (id, unread) = told().await;
        drop(unread);
        assert!(table.show(&id).await.is_none());
        let (id, read) = told().await;
        assert_eq!(read.collect().await.unwrap().to_bytes(), "a");
        assert!(table.show(&id).await.is_some());
        lock.try_acquire(&resource).await.unwrap_err();
    }
}
