use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use fencing::http::{FenceLayer, path};
use fencing::lock::Lock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::{Args, Place};
use crate::files;
use crate::issued::{self, NewestEra};
use crate::leases::{self, Leases};
use crate::locks::Nodes;
use crate::objects::Objects;
use crate::page::{self, Page};
use crate::simulator;
use crate::store::Store;

/// The largest file, in bytes.
const LARGEST: usize = 1 << 20;

/// What the handlers share.
pub struct App {
    pub lock: Arc<dyn Lock>,
    pub place: Place,
    pub era: NewestEra,
    pub store: Store,
    /// The files, if they are not in the store.
    pub objects: Option<Objects>,
    pub leases: Leases,
    /// The lock nodes, if the locks are on nodes.
    pub nodes: Option<Nodes>,
    /// Cancelled when the service is to stop.
    pub stop: CancellationToken,
}

impl App {
    pub async fn new(args: &Args) -> Result<App, Box<dyn std::error::Error>> {
        let store = Store::open(args.database.as_deref(), !args.unguarded).await?;
        let objects = match &args.files {
            Some(url) => Some(Objects::open(url, !args.unguarded).await?),
            None => None,
        };
        let nodes = Nodes::new(args.redis());
        let lock = match args.lock {
            Place::Database => store.lock()?,
            // Elsewhere nobody asks it.
            Place::Nodes | Place::Elsewhere => nodes.for_leases()?,
        };
        // Nodes that start for the first time are admitted while nobody waits yet.
        lock.health().await;
        let (place, era, leases) = (args.lock, NewestEra::default(), Leases::default());
        let nodes = (place == Place::Nodes).then_some(nodes);
        Ok(App { lock, place, era, store, objects, leases, nodes, stop: CancellationToken::new() })
    }
}

fn router(app: Arc<App>, page: Option<Page>) -> Router {
    let mut files = get(files::get).put(files::put).layer(DefaultBodyLimit::max(LARGEST));
    if app.store.is_guarded() {
        let asked = Arc::clone(&app);
        let fence = app.store.fence().check_sequencer(move |shown| {
            let app = Arc::clone(&asked);
            async move { issued::was_issued(&app, shown).await }
        });
        files = files.route_layer(FenceLayer::new(fence, path));
    }
    let mut router = Router::new()
        .route("/livez", get(async || StatusCode::OK))
        .route("/readyz", get(ready))
        .route("/files/{name}", files);
    if app.place != Place::Elsewhere {
        router = router.route("/leases/{*resource}", post(leases::acquire).delete(leases::release));
    }
    let Some(page) = page else { return router.with_state(app) };
    let pages = page::router(Arc::new(page)).merge(simulator::router());
    router.route("/unfenced/{name}", put(files::put_unfenced)).with_state(app).merge(pages)
}

async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, (StatusCode, String)> {
    let health = app.lock.health().await;
    if !health.has_quorum() {
        let causes: Vec<String> = health.causes.iter().map(ToString::to_string).collect();
        return Err((StatusCode::SERVICE_UNAVAILABLE, format!("no quorum: {}", causes.join("; "))));
    }
    if !app.store.answers().await {
        return Err((StatusCode::SERVICE_UNAVAILABLE, "the database does not answer".into()));
    }
    Ok("ready")
}

/// Serves until it is told to stop, and lets requests in flight finish.
pub async fn serve(listener: TcpListener, app: Arc<App>, page: Option<Page>) -> std::io::Result<()> {
    let stop = app.stop.clone().cancelled_owned();
    axum::serve(listener, router(app, page)).with_graceful_shutdown(stop).await
}
