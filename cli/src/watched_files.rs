use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::exit::Failure;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The contents of files, parsed again when one of them changes. If they cannot be read, the earlier contents stay. A
/// thread polls the files, so that a file system that hangs delays nothing else.
#[derive(Clone)]
pub(crate) struct WatchedFiles<T>(watch::Receiver<Arc<T>>);

impl<T: Send + Sync + 'static> WatchedFiles<T> {
    /// Reads the files for the first time. What `parse` refuses is reported with their names.
    pub(crate) fn open<E: Display>(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[String]) -> Result<T, E> + Send + 'static,
    ) -> Result<WatchedFiles<T>, Failure> {
        let texts = read(&paths).map_err(Failure::usage)?;
        let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let parse = move |texts: &[String]| parse(texts).map_err(|why| format!("{names}: {why}"));
        let (parsed, contents) = watch::channel(Arc::new(parse(&texts).map_err(Failure::usage)?));
        spawn_blocking(move || {
            let mut seen = Ok(texts);
            while !parsed.is_closed() {
                thread::sleep(POLL_INTERVAL);
                let now = read(&paths);
                if now == seen {
                    continue;
                }
                match now.as_deref().map_err(Clone::clone).and_then(&parse) {
                    Ok(new) => drop(parsed.send(Arc::new(new))),
                    Err(error) => {
                        tracing::error!(%error, "a changed file cannot be used: its earlier contents stay in use")
                    }
                }
                seen = now;
            }
        });
        Ok(WatchedFiles(contents))
    }

    pub(crate) fn now(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow())
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<String>, String> {
    let text = |path: &PathBuf| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    paths.iter().map(text).collect()
}
