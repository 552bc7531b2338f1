use std::sync::Arc;

use fencing::fence::{FenceError, Marks, MemoryMarks};
use fencing::sql::{self, SqlMarks};
use fencing::{Resource, Token};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::args::ProxyArgs;
use crate::exit::Failure;
use crate::place::NAMESPACE;
use crate::pool::{connect, on};
use crate::redis_marks::MarksPlace;

/// Connections of the marks to a database.
const MAX_CONNECTIONS: u32 = 8;
const NOT_OPEN: &str = "the marks in this Redis are not open: the server may have forgotten some; \
                        see `fencing marks open --help`";

/// Marks that raise nothing until then, as requests of an earlier proxy may be at work.
pub(super) struct ClosedMarks {
    pub(super) marks: Arc<dyn Marks>,
    pub(super) until: Instant,
}

impl Marks for ClosedMarks {
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), FenceError>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Box::pin(std::future::ready(Err(FenceError::Quarantine { left })));
        }
        self.marks.raise(resource, token)
    }

    fn highest<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        self.marks.highest(resource)
    }
}

/// Opens the marks at the URL of the arguments, or in this process without one.
pub(super) async fn open(args: &ProxyArgs, probe: &Resource) -> Result<Arc<dyn Marks>, Failure> {
    let Some(url) = &args.marks else { return Ok(Arc::new(MemoryMarks::default())) };
    let url = match MarksPlace::new(url, args.namespace.as_deref().unwrap_or(NAMESPACE))? {
        MarksPlace::Redis(marks) if marks.look().await?.is_open() => return Ok(Arc::new(*marks)),
        MarksPlace::Redis(_) => return Err(Failure::refused(NOT_OPEN)),
        MarksPlace::Database(_) if args.namespace.is_some() => {
            return Err(Failure::usage("--namespace is for --marks in a Redis"));
        }
        MarksPlace::Database(url) => url,
    };
    let pool = connect("--marks", &url, true, MAX_CONNECTIONS).await?;
    if on!(&pool, pool => sql::highest(pool, probe).await).is_err() {
        on!(&pool, pool => sql::migrate(pool).await)?;
    }
    Ok(on!(pool, pool => Arc::new(SqlMarks::new(pool)) as Arc<dyn Marks>))
}
