//! The figures of one session, on a port of its own (`thinc serve --metrics`). Beside the path:
//! from the actor, to http.rs. What the session process counts begins again when it is restarted.
//! Knows the session's name and user.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Row, Snapshot, Source, anonymous_memory, serve};
use crate::connection::{Event, Events};

/// Serves them, without end, or says why not: the session works without.
pub(crate) async fn serve_own(address: SocketAddr, name: String, events: Events) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::warn!("no figures for monitoring on {address}: {error}");
        }
    };
    if let Ok(address) = listener.local_addr() {
        tracing::info!("figures for monitoring: http://{address}/");
    }
    let user = std::env::var("USER").unwrap_or_default();
    serve(listener, Arc::new(Own { user, name, events, started: Instant::now() })).await;
}

struct Own {
    user: String,
    name: String,
    events: Events,
    started: Instant,
}

impl Source for Own {
    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (answer, figures) = oneshot::channel();
        self.events.send(Event::Figures(answer)).await.ok()?;
        let figures = figures.await.ok()?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let guests = figures.viewers.iter().filter(|viewer| viewer.is_guest).count();
        let row = Row {
            user: self.user.clone(),
            name: self.name.clone(),
            age_s: self.started.elapsed().as_secs(),
            screen: Some(figures.screen),
            viewers: figures.viewers.len() - guests,
            guests,
            round_trip_us: figures.viewers.iter().map(|viewer| viewer.round_trip_us).max(),
        };
        Some(Arc::new(Snapshot {
            sessions: 1,
            viewed_sessions: u64::from(!figures.viewers.is_empty()),
            viewers: vec![("any", figures.viewers.len() as u64)],
            counts: figures.counts,
            memory: vec![("session", anonymous_memory(&status).unwrap_or(0))],
            broker: None,
            rows: vec![row],
        }))
    }
}
