use std::time::Duration;

use fencing::fence::{FenceError, Marks, MemoryMarks};
use fencing::{Fence, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use support::polled::polled;

/// Marks that take their time, before and after they are raised.
#[derive(Default)]
struct Slow(MemoryMarks);

impl Marks for Slow {
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), FenceError>> {
        async move {
            a_while().await;
            let raised = self.0.raise(resource, token).await;
            a_while().await;
            raised
        }
        .boxed()
    }
}

async fn a_while() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// Nothing stays in flight: the next newer token need not wait for anybody.
#[tokio::test(start_paused = true)]
async fn admit_alone() {
    for drops in [false, true] {
        let fence = Fence::new(Slow::default()).limit(Duration::from_secs(1));
        let fence = if drops { fence.drop_older_after(Duration::ZERO) } else { fence };
        let resource = Resource::new("files/a").unwrap();
        let mut next = 1;
        for polls in 0.. {
            let done = polled(fence.admit(&resource, token(next)), polls).await.is_some();
            drop(fence.admit(&resource, token(next + 1)).await.unwrap());
            next += 2;
            if done {
                assert!(polls > 3, "nothing was ever dropped half way");
                break;
            }
        }
    }
}

/// The newer one gives up behind an older one, which goes on undisturbed.
#[tokio::test(start_paused = true)]
async fn admit_behind_an_older_one() {
    let fence = Fence::new(Slow::default()).limit(Duration::from_secs(1));
    let resource = Resource::new("files/a").unwrap();
    for polls in 0..12 {
        let older = fence.admit(&resource, token(10 * polls + 1)).await.unwrap();
        let newer = fence.admit(&resource, token(10 * polls + 2));
        let newer = polled(newer, polls as usize).await;
        // In paused time its limit comes at once when it only waits.
        assert!(matches!(newer, None | Some(Err(FenceError::Busy { .. }))), "{polls}: {newer:?}");
        let busy = fence.admit(&resource, token(10 * polls + 3)).await;
        assert!(matches!(busy, Err(FenceError::Busy { .. })), "{polls}: {busy:?}");
        drop(older);
        drop(fence.admit(&resource, token(10 * polls + 4)).await.unwrap());
    }
}
