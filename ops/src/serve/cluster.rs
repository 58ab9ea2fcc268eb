//! This process as a member of a cluster: its options, its listener for other members, and its way from follower to
//! leader.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronova_events::envelope::Position;
use chronova_events::store::EventStore as _;
use chronova_events::store::postgres::{self, LeaderProcess, MemberName, PostgresStore, SeenLeader};
use chronova_projections::views::Views;
use chronova_web::cluster::door::{self, PeerDoorOptions, RunningDoor};
use chronova_web::cluster::peers::{HeadAnswer, PeerClient};
use chronova_web::cluster::seat::{ClusterSeat, FollowedLog, FollowerSeat};
use chronova_web::startup_gate::StartupGate;
use chronova_web::tls::TlsFiles;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::config::options::cluster::Cluster;

/// The interval at which a member asks for the lease while nobody has it.
const ASKS: Duration = Duration::from_millis(250);
/// The pause before this member repeats its question to a leader that did not answer, or that does not lead any more.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after a leader of an incompatible version.
const MISMATCH: Duration = Duration::from_secs(5);

/// The checked options of `[cluster]`.
pub(super) struct ClusterOptions {
    pub(super) member: MemberName,
    listen: SocketAddr,
    tls: TlsFiles,
    stale_reads: Duration,
}

impl ClusterOptions {
    /// `None` without `[cluster] listen`: such a process does not follow a leader's log. With a log in PostgreSQL, it
    /// stands by while another process leads.
    pub(super) fn of(config: &Config) -> Result<Option<Self>> {
        let Cluster { listen, address, name, certificate, key, ca, stale_reads } = &config.cluster;
        let Some(listen) = listen else { return Ok(None) };
        ensure!(
            config.chronova.event_store != "sqlite",
            "[cluster] listen needs a log in PostgreSQL: set [chronova] event_store"
        );
        let (Some(certificate), Some(key), Some(ca)) = (certificate, key, ca) else {
            bail!("[cluster] listen needs certificate, key and ca: members authenticate each other with certificates");
        };
        let mut found =
            listen.to_socket_addrs().with_context(|| format!("[cluster] listen: {listen:?} is not HOST:PORT"))?;
        let socket = found.next().with_context(|| format!("[cluster] listen: {listen:?} has no address"))?;
        ensure!(
            !socket.ip().is_unspecified() || address.is_some(),
            "[cluster] listen: other members cannot reach {socket}: set address to the HOST:PORT of this member"
        );
        let address = address.as_ref().unwrap_or(listen).clone();
        let member = MemberName { name: name.as_ref().unwrap_or(&address).clone(), address };
        let tls = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: Some(ca.clone()) };
        tls.check_authority().context("[cluster] certificate")?;
        let stale_reads = Duration::from_secs(u64::from(*stale_reads));
        Ok(Some(Self { member, listen: socket, tls, stale_reads }))
    }
}

/// The log of this member, for its role as a follower.
struct MemberLog(Arc<PostgresStore>);

impl FollowedLog for MemberLog {
    fn epoch(&self) -> i64 {
        self.0.leader().borrow().as_ref().map_or(0, |seen| seen.epoch)
    }

    fn told(&self, position: Position) {
        self.0.told(position);
    }

    fn now(&self) -> Duration {
        postgres::elapsed()
    }
}

/// This member's part in the cluster.
pub(super) struct ClusterMembership {
    options: ClusterOptions,
    store: Arc<PostgresStore>,
    peers: Arc<PeerClient>,
    leader: watch::Receiver<Option<String>>,
    promoted: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl ClusterMembership {
    /// Starts to listen to the leader.
    pub(super) fn join(options: ClusterOptions, store: Arc<PostgresStore>) -> Result<Self> {
        let peers = Arc::new(PeerClient::new(options.tls.client_config().context("[cluster]")?));
        let (tell_leader, leader) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(find(Arc::clone(&store), tell_leader));
        tasks.spawn(listen_to(Arc::clone(&peers), leader.clone(), Arc::clone(&store)));
        Ok(Self { options, store, peers, leader, promoted: watch::channel(false).0, _tasks: tasks })
    }

    /// The listener for other members.
    pub(super) fn door(&self, gate: &StartupGate, workers: usize) -> Result<RunningDoor> {
        let options = PeerDoorOptions { address: self.options.listen, tls: self.options.tls.clone(), workers };
        door::serve(gate, &options).with_context(|| format!("[cluster] cannot listen on {}", options.address))
    }

    /// The role of a member that follows.
    pub(super) fn follows(&self, views: &Arc<Views>) -> ClusterSeat {
        let (peers, leader, promoted) = (Arc::clone(&self.peers), self.leader.clone(), self.promoted.subscribe());
        let log = Arc::new(MemberLog(Arc::clone(&self.store)));
        ClusterSeat::Follows(FollowerSeat::new(
            peers,
            leader,
            Arc::clone(views),
            log,
            promoted,
            self.options.stale_reads,
        ))
    }

    /// The role of a member that leads.
    pub(super) fn leads(&self) -> ClusterSeat {
        let store = Arc::clone(&self.store);
        ClusterSeat::Leads(Arc::new(move || store.confirmed_epoch()))
    }

    /// Lets the requests that wait for a leader continue on this member.
    pub(super) fn promote(&self) {
        self.promoted.send_replace(true);
    }

    /// Waits until an operator requests a switchover, and returns the name of the member that shall lead.
    pub(super) async fn handed_over(&self) -> String {
        let (mut requested, own) = (self.store.wish(), &self.options.member.name);
        let other = requested.wait_for(|member| member.as_ref().is_some_and(|member| member != own)).await;
        match other.ok().and_then(|member| member.clone()) {
            Some(member) => member,
            None => std::future::pending().await,
        }
    }

    /// Waits until this member leads. Fails if this version is too old to follow the log any more.
    pub(super) async fn lead(&self) -> Result<()> {
        let (mut leader, outdated) = (self.store.leader(), self.store.outdated());
        loop {
            if let Some(reason) = outdated.borrow().clone() {
                return Err(reason).context("this member has stopped serving");
            }
            let free = leader.borrow_and_update().as_ref().is_some_and(|seen| !leads(seen));
            if free && self.store.lead().await.context("this member has the lease but cannot become the leader")? {
                tracing::warn!(member = self.options.member.name, "this member leads now");
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(ASKS) => {}
                Ok(()) = leader.changed() => {}
            }
        }
    }
}

/// Whether the leader may still lead. If not, this member asks the database for the lead. The database decides.
fn leads(seen: &SeenLeader) -> bool {
    seen.lease_lasts && seen.process != LeaderProcess::Ended
}

/// Reports the leader's address, while its lease lasts, without regard to the leader's lock. A file server may lose the
/// lock although the leader still runs. If the leader's process has ended, its address does no harm.
async fn find(store: Arc<PostgresStore>, tell: watch::Sender<Option<String>>) {
    let mut seen = store.leader();
    loop {
        let address = seen
            .borrow_and_update()
            .as_ref()
            .filter(|seen| seen.lease_lasts)
            .and_then(|seen| seen.leader.as_ref().map(|leader| leader.address.clone()));
        tell.send_if_modified(|known| std::mem::replace(known, address.clone()) != address);
        if seen.changed().await.is_err() {
            return;
        }
    }
}

/// Asks the leader where its log ends, so that this member follows closely even if no client reads.
async fn listen_to(peers: Arc<PeerClient>, mut leader: watch::Receiver<Option<String>>, store: Arc<PostgresStore>) {
    loop {
        let known = leader.borrow_and_update().clone();
        let Some(address) = known.filter(|_| store.confirmed_epoch().is_none()) else {
            if leader.changed().await.is_err() {
                return;
            }
            continue;
        };
        match peers.head(&address, Some(store.head())).await {
            HeadAnswer::At { position, .. } => store.told(position),
            HeadAnswer::NotLeading => tokio::time::sleep(PAUSE).await,
            HeadAnswer::OtherProtocol(reason) => {
                tracing::error!(address, reason, "this member cannot ask the leader: install the leader's version");
                tokio::time::sleep(MISMATCH).await;
            }
            HeadAnswer::Silent(reason) => {
                tracing::debug!(address, reason, "the leader does not answer");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
