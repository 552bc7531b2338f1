use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;

/// Whose turn it is among processes that only send scripts: a hand-over that is never wrong, lost or late. Within a
/// process waiters take it in their order, this many holds each time.
pub struct Turn {
    holds: u32,
    /// How many holds are left of this turn.
    left: Mutex<u32>,
    way: Way,
}

/// How the turn goes from one process to the next.
enum Way {
    /// Within one process it stays.
    Here,
    /// From socket to socket, in a ring. The servers have no part in it.
    Ring { own: UnixDatagram, next: PathBuf },
    /// By a list on the first node: who has waited for it longest gets it.
    List { take: MultiplexedConnection, give: MultiplexedConnection },
}

const LIST: &str = "turn";

impl Turn {
    /// Returns the turn among waiters in one process.
    pub fn here() -> Turn {
        Turn { holds: u32::MAX, left: Mutex::new(u32::MAX), way: Way::Here }
    }

    /// Returns the turn of one of several processes, whose sockets are in the folder.
    pub async fn ring(folder: &Path, process: usize, of: usize, holds: u32) -> Turn {
        let own = UnixDatagram::bind(folder.join(process.to_string())).unwrap();
        let next = folder.join(((process + 1) % of).to_string());
        Turn { holds, left: Mutex::default(), way: Way::Ring { own, next } }
    }

    /// Returns the turn that is an entry of a list on a node.
    pub async fn list(url: &str, holds: u32) -> Turn {
        let client = redis::Client::open(url).unwrap();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let take = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let give = client.get_multiplexed_async_connection().await.unwrap();
        Turn { holds, left: Mutex::default(), way: Way::List { take, give } }
    }

    /// Begins the first turn of a ring, when all processes are there.
    pub async fn begin_ring(folder: &Path, of: usize) {
        while !(0..of).all(|process| folder.join(process.to_string()).exists()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        UnixDatagram::unbound().unwrap().send_to(&[0], folder.join("0")).await.unwrap();
    }

    /// Begins the first turn of a list.
    pub async fn begin_list(connection: &mut MultiplexedConnection) {
        let _: () = redis::cmd("DEL").arg(LIST).query_async(connection).await.unwrap();
        let _: () = redis::cmd("RPUSH").arg(LIST).arg(0).query_async(connection).await.unwrap();
    }

    /// Waits for the turn, runs the work, and passes the turn on.
    pub async fn take<T>(&self, work: impl Future<Output = T>) -> T {
        let mut left = self.left.lock().await;
        if *left == 0 {
            match &self.way {
                Way::Here => {}
                Way::Ring { own, .. } => drop(own.recv(&mut [0]).await),
                Way::List { take, .. } => {
                    let mut take = take.clone();
                    let taken = redis::cmd("BLPOP").arg(LIST).arg(0).query_async(&mut take).await;
                    let _: (String, u32) = taken.unwrap();
                }
            }
            *left = self.holds;
        }
        let done = work.await;
        *left -= 1;
        if *left == 0 {
            match &self.way {
                Way::Here => {}
                // At the end of a run the next one may be gone.
                Way::Ring { own, next } => drop(own.send_to(&[0], next).await),
                Way::List { give, .. } => {
                    let mut give = give.clone();
                    let given = redis::cmd("RPUSH").arg(LIST).arg(0).query_async(&mut give).await;
                    let _: u32 = given.unwrap();
                }
            }
        }
        done
    }
}
