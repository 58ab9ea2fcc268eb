//! Holds requests while the control plane starts.
//!
//! The listeners are bound before the read models are complete. A replay of a long log, or a rebuild after an upgrade,
//! takes a while. Requests wait meanwhile, and are served as soon as the control plane is ready. A request that has
//! waited for too long is asked to retry. `/healthz` is answered at once, with the progress of the start-up.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use crate::app::App;
use crate::fault::{Fault, RenderContext, render};
use crate::health::HealthReport;
use crate::reply::Reply;
use crate::service::Service;

/// A request that has waited for longer than this is asked to retry.
const PATIENCE: Duration = Duration::from_mins(1);

/// Holds the application once the control plane has started.
#[derive(Clone)]
pub struct StartupGate {
    app: watch::Receiver<Option<Arc<App>>>,
    /// The progress of the start-up.
    progress: HealthReport,
    patience: Duration,
}

impl std::fmt::Debug for StartupGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartupGate").field("open", &self.app.borrow().is_some()).finish_non_exhaustive()
    }
}

/// Opens a gate. A member of a cluster opens the gate again, with another [`App`], when it begins to lead.
#[derive(Debug)]
pub struct StartupGateOpener(watch::Sender<Option<Arc<App>>>);

impl StartupGateOpener {
    pub fn open(&self, app: &Arc<App>) {
        self.0.send_replace(Some(Arc::clone(app)));
    }
}

impl StartupGate {
    /// A gate that is open from the beginning.
    pub fn open(app: Arc<App>) -> Self {
        let (_, opened) = watch::channel(Some(app));
        Self { app: opened, progress: Arc::new(|| json!(null)), patience: PATIENCE }
    }

    /// A closed gate and its opener. Until the gate opens, `/healthz` shows `progress` as `read_models`.
    pub fn closed(progress: HealthReport) -> (StartupGateOpener, Self) {
        let (opener, app) = watch::channel(None);
        (StartupGateOpener(opener), Self { app, progress, patience: PATIENCE })
    }

    /// Sets another limit than the default of one minute.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The control plane, if it has started.
    pub(crate) fn opened(&self) -> Option<Arc<App>> {
        self.app.borrow().clone()
    }

    /// Waits for the control plane. Returns the answer for the client if the control plane does not start in time. A
    /// request for `/healthz` does not wait.
    pub(crate) async fn enter(&self, path: &str) -> Result<Arc<App>, Reply> {
        if let Some(app) = &*self.app.borrow() {
            return Ok(Arc::clone(app));
        }
        if path == "/healthz" {
            return Err(Reply::json(
                503,
                json!({"status": "starting", "checks": {}, "read_models": (self.progress)()}),
            ));
        }
        let mut opened = self.app.clone();
        let waited = tokio::time::timeout(self.patience, opened.wait_for(Option::is_some)).await;
        let app = waited.ok().and_then(Result::ok).and_then(|app| app.clone());
        app.ok_or_else(|| {
            let fault = Fault::unavailable("The control plane is starting; /healthz tells how far it has come.")
                .header("Retry-After", "10");
            let context = RenderContext { service: Service::Compute, accept: "", version: None, request_id: "" };
            render(&fault, &context)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::auth::Authentication;
    use crate::config::WebConfig;
    use crate::metrics::HttpMetrics;
    use crate::policy::{Enforcer, Overrides};
    use crate::reply::ReplyBody;

    fn app() -> Arc<App> {
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        Arc::new(App::new(config, policy, Authentication::NoAuth, metrics))
    }

    #[actix_web::test]
    async fn a_request_before_the_start_is_complete_waits_and_is_served() {
        let (opener, door) = StartupGate::closed(Arc::new(|| json!({"work": ["replay"]})));
        let refused = door.enter("/healthz").await.unwrap_err();
        assert_eq!(refused.status, 503);
        assert!(
            matches!(refused.body, ReplyBody::Json(refused) if refused["read_models"]["work"] == json!(["replay"]))
        );
        let sent_away = door.clone().patient(Duration::ZERO).enter("/compute/v2.1/servers").await.unwrap_err();
        assert_eq!(sent_away.status, 503);
        assert!(sent_away.headers.iter().any(|(name, _)| *name == "Retry-After"));
        let app = app();
        let (entered, ()) = tokio::join!(door.enter("/compute/v2.1/servers"), async {
            tokio::task::yield_now().await;
            opener.open(&app);
        });
        assert!(Arc::ptr_eq(&entered.unwrap(), &app));
        assert!(door.enter("/healthz").await.is_ok());
    }
}
