//! The lock on real redis-servers whose counts run out, whose company is hostile, and with
//! callers that give up at any point.

mod ahead;
mod dropped;
mod hostile;

use crate::fleet::*;

const TTL: Duration = Duration::from_secs(2);

fn client(servers: &[RedisServer]) -> RedlockBuilder {
    service(servers).ttl(TTL)
}
