//! Delays the work of a new leader on hosts. A new leader may append at once, but calls of the former leader may still
//! reach hosts. Two members must not work on one host, so the new leader waits until the former leader's lease has
//! ended.
//!
//! The host agents, the reconcilers and the steps of processes wait for the gate. Only a host's agent connects the
//! host. So no other code can call the host's driver before the gate opens.

use tokio::sync::watch;

/// Waits until this leader may work on hosts. Clones wait for the same moment.
#[derive(Debug, Clone)]
pub struct HostGate(watch::Receiver<bool>);

impl HostGate {
    /// A gate that is open from the beginning, because no other leader has a lease.
    pub fn open() -> Self {
        Self(watch::channel(true).1)
    }

    /// A gate that opens when `true` is sent.
    pub fn closed() -> (watch::Sender<bool>, Self) {
        let (opener, opens) = watch::channel(false);
        (opener, Self(opens))
    }

    /// Returns when the gate is open. If nobody can open it any more, this never returns.
    pub async fn passed(&self) {
        let mut opens = self.0.clone();
        if opens.wait_for(|open| *open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_gate_opens_once_for_all() {
        assert!(HostGate::open().passed().now_or_never().is_some());
        let (opener, gate) = HostGate::closed();
        let other = gate.clone();
        assert!(gate.passed().now_or_never().is_none());
        opener.send_replace(true);
        drop(opener);
        assert!(gate.passed().now_or_never().is_some() && other.passed().now_or_never().is_some());
        let (opener, gate) = HostGate::closed();
        drop(opener);
        assert!(gate.passed().now_or_never().is_none(), "the gate opened although nobody opened it");
    }
}
