use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{MethodRouter, get, post};
use fencing::lock::redlock::MemoryNode;
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::actor::{Actor, Order};
use super::board::Board;
use super::nodes;
use crate::app::App;
use crate::error::ApiError;
use crate::locks::Nodes;

/// A page of another site cannot send this header without being allowed to.
const FROM_THE_PAGE: HeaderName = HeaderName::from_static("x-page");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page shows and moves.
pub struct Page {
    board: Arc<Board>,
    actors: [Actor; 2],
    /// Those in this process can be stopped.
    nodes: Vec<MemoryNode>,
    stop: CancellationToken,
}

impl Page {
    /// Starts both clients, where the locks are on nodes.
    pub fn start(app: &App, address: SocketAddr) -> Result<Option<Page>, Box<dyn std::error::Error>> {
        let Some(nodes) = &app.nodes else { return Ok(None) };
        let board = Arc::new(Board::default());
        let actor = |number| Actor::start(number, nodes.clone(), address, Arc::clone(&board));
        let actors = [actor(1)?, actor(2)?];
        let own = match nodes {
            Nodes::Here(nodes) => nodes.clone(),
            Nodes::Redis(_) => Vec::new(),
        };
        let (guarded, stoppable) = (app.store.is_guarded(), !own.is_empty());
        board.put("service", json!({ "guarded": guarded, "stoppable": stoppable }));
        let watched = nodes.lock(|builder| builder)?;
        tokio::spawn(nodes::watch(watched, Arc::clone(&board)));
        Ok(Some(Page { board, actors, nodes: own, stop: app.stop.clone() }))
    }
}

pub fn router(page: Arc<Page>) -> Router {
    let orders = Router::new()
        .route("/page/clients/{client}/{order}", post(order))
        .route("/page/nodes/{node}/{deed}", post(deed))
        .route_layer(from_fn(from_the_page));
    Router::new()
        .route("/", file("text/html", include_str!("../../assets/page.html")))
        .route("/page.css", file("text/css", include_str!("../../assets/page.css")))
        .route("/dom.js", file(SCRIPT, include_str!("../../assets/dom.js")))
        .route("/page.js", file(SCRIPT, include_str!("../../assets/page.js")))
        .route("/world.js", file(SCRIPT, include_str!("../../assets/world.js")))
        .route("/words.js", file(SCRIPT, include_str!("../../assets/words.js")))
        .route("/lanes.js", file(SCRIPT, include_str!("../../assets/lanes.js")))
        .route("/story.js", file(SCRIPT, include_str!("../../assets/story.js")))
        .route("/icon.svg", file("image/svg+xml", include_str!("../../assets/icon.svg")))
        .route("/page/events", get(events))
        .merge(orders)
        .with_state(page)
}

pub const SCRIPT: &str = "text/javascript";

/// Returns a route that gives the browser this file, with what it may load besides.
pub fn file<S>(kind: &'static str, text: &'static str) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let headers = [
        (header::CONTENT_TYPE, format!("{kind}; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.into()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
        (header::CACHE_CONTROL, "no-cache".into()),
    ];
    get(async move || (headers, text))
}

/// `GET /page/events`: all that has happened and happens, until the service stops.
async fn events(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).unwrap_or("");
    let watcher = page.board.watch(page.board.number(last));
    let now = Event::default().event("now").data(page.board.now().to_string());
    let board = Arc::clone(&page.board);
    let events = stream::unfold((watcher, board), |(mut watcher, board)| async {
        let event = watcher.next().await?;
        let sent = Event::default().id(board.name(event.number)).data(event.text);
        Some((Ok(sent), (watcher, board)))
    });
    let stopped = page.stop.clone().cancelled_owned();
    let all = stream::iter([Ok(now)]).chain(events).take_until(stopped);
    Sse::new(all).keep_alive(KeepAlive::default())
}

/// `POST /page/clients/{1|2}/{order}`.
async fn order(
    State(page): State<Arc<Page>>,
    Path((client, order)): Path<(usize, Order)>,
) -> Result<StatusCode, ApiError> {
    let actor = client.checked_sub(1).and_then(|index| page.actors.get(index));
    let actor = actor.ok_or(ApiError::not_found("there are two clients, 1 and 2"))?;
    match actor.order(order) {
        Ok(()) => Ok(StatusCode::ACCEPTED),
        Err(why) => Err(ApiError::bad(format!("client {client}: {why}"))),
    }
}

/// `POST /page/nodes/{1...}/{stop|start|flush}`.
async fn deed(
    State(page): State<Arc<Page>>,
    Path((number, deed)): Path<(usize, String)>,
) -> Result<StatusCode, ApiError> {
    let node = number.checked_sub(1).and_then(|index| page.nodes.get(index));
    let node = node.ok_or(ApiError::not_found("there is no such node in this process"))?;
    match deed.as_str() {
        "stop" => node.stop(),
        "start" => node.start(),
        "flush" => node.flush(),
        _ => return Err(ApiError::bad("a node can stop, start, or flush")),
    }
    page.board.put("node", json!({ "node": number, "deed": deed }));
    Ok(StatusCode::ACCEPTED)
}

/// Refuses what a page of another site sends.
pub async fn from_the_page(request: Request, next: Next) -> Result<Response, ApiError> {
    if request.headers().get(FROM_THE_PAGE) != Some(&HeaderValue::from_static("1")) {
        return Err(ApiError::bad("send the header X-Page: 1"));
    }
    Ok(next.run(request).await)
}
