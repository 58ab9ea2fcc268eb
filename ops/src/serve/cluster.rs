//! This member among several: its options, the listener for the others, and the way from following to leading.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronova_events::envelope::Position;
use chronova_events::store::EventStore as _;
use chronova_events::store::postgres::{BegunLead, MemberName, PostgresStore};
use chronova_projections::views::Views;
use chronova_web::cluster::ClusterSecret;
use chronova_web::cluster::door::{self, PeerDoorOptions, RunningDoor};
use chronova_web::cluster::peers::{HeadAnswer, PeerClient};
use chronova_web::cluster::seat::{ClusterSeat, FollowerSeat};
use chronova_web::door::StartupGate;
use chronova_web::tls::TlsFiles;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{Config, event_store};

/// How often a member asks for the lease when nobody has it.
const ASKS: Duration = Duration::from_millis(250);
/// How soon it looks again at a leader that does not answer.
const LOOKS: Duration = Duration::from_millis(50);

/// The checked options of `[cluster]`.
pub(super) struct ClusterOptions {
    pub(super) secret: ClusterSecret,
    pub(super) member: MemberName,
    listen: SocketAddr,
    tls: Option<TlsFiles>,
    answers_stale: bool,
}

impl ClusterOptions {
    /// `None`: this member stands by while another one leads.
    pub(super) fn of(config: &Config) -> Result<Option<Self>> {
        let own = &config.cluster;
        let Some(secret) = event_store::secret(config)? else {
            ensure!(own.listen.is_none(), "[cluster] listen needs secret_file");
            return Ok(None);
        };
        ensure!(
            config.chronova.event_store != "sqlite",
            "[cluster] secret_file needs a log in PostgreSQL: set [chronova] event_store"
        );
        let listen = own.listen.clone().context("[cluster] secret_file needs listen")?;
        let mut found =
            listen.to_socket_addrs().with_context(|| format!("[cluster] listen: {listen:?} is not HOST:PORT"))?;
        let socket = found.next().with_context(|| format!("[cluster] listen: {listen:?} has no address"))?;
        let tls = match (&own.certificate, &own.key, &own.ca) {
            (Some(certificate), Some(key), Some(ca)) => {
                Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: Some(ca.clone()) })
            }
            (None, None, None) => None,
            _ => bail!("[cluster] certificate, key and ca go together"),
        };
        if tls.is_none() && !own.insecure && !socket.ip().is_loopback() {
            bail!(
                "[cluster] listen: {socket} can be reached from elsewhere: set certificate, key and ca (or insecure)"
            );
        }
        let address = own.address.clone().unwrap_or(listen);
        ensure!(!socket.ip().is_unspecified() || own.address.is_some(), "[cluster] listen needs address");
        let member = MemberName { name: own.name.clone().unwrap_or_else(|| address.clone()), address };
        Ok(Some(Self { secret, member, listen: socket, tls, answers_stale: own.stale_reads }))
    }
}

/// This member's side of the cluster.
pub(super) struct Membership {
    options: ClusterOptions,
    store: Arc<PostgresStore>,
    peers: Arc<PeerClient>,
    leader: watch::Receiver<Option<String>>,
    promoted: watch::Sender<bool>,
    /// The leader's process does not answer, and has no connection to the database.
    gone: watch::Receiver<bool>,
    /// How long no host may be called, since this member leads.
    hosts_in: watch::Sender<Duration>,
    _tasks: JoinSet<()>,
}

impl Membership {
    /// Starts to listen to the leader.
    pub(super) fn join(options: ClusterOptions, store: Arc<PostgresStore>) -> Result<Self> {
        let tls = options.tls.as_ref().map(TlsFiles::client_config).transpose().context("[cluster]")?;
        let peers = Arc::new(PeerClient::new(&options.secret, tls));
        let ((tell_leader, leader), (tell_gone, gone)) = (watch::channel(None), watch::channel(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(find(Arc::clone(&store), tell_leader));
        tasks.spawn(listen_to(Arc::clone(&peers), leader.clone(), Arc::clone(&store), tell_gone));
        Ok(Self {
            options,
            store,
            peers,
            leader,
            promoted: watch::channel(false).0,
            gone,
            hosts_in: watch::channel(Duration::ZERO).0,
            _tasks: tasks,
        })
    }

    /// The listener for other members.
    pub(super) fn door(&self, gate: &StartupGate, workers: usize) -> Result<RunningDoor> {
        let options = PeerDoorOptions { address: self.options.listen, tls: self.options.tls.clone(), workers };
        door::serve(gate, &options, &self.options.secret).context("[cluster] cannot listen")
    }

    pub(super) fn follows(&self, views: &Arc<Views>) -> ClusterSeat {
        let (peers, leader, promoted) = (Arc::clone(&self.peers), self.leader.clone(), self.promoted.subscribe());
        ClusterSeat::Follows(FollowerSeat::new(peers, leader, Arc::clone(views), self.options.answers_stale, promoted))
    }

    pub(super) fn leads(&self) -> ClusterSeat {
        let store = Arc::clone(&self.store);
        ClusterSeat::Leads(Arc::new(move || store.is_certain()))
    }

    /// How long no host may be called.
    pub(super) fn begun(&self) -> Duration {
        *self.hosts_in.borrow()
    }

    /// Waits until an operator wants another member to lead; says which one.
    pub(super) async fn handed_over(&self) -> String {
        let mut wish = self.store.wish();
        let own = &self.options.member.name;
        let wished = wish.wait_for(|wish| wish.as_ref().is_some_and(|wish| wish != own)).await;
        match wished.map(|wish| wish.clone()) {
            Ok(Some(member)) => member,
            _ => std::future::pending().await,
        }
    }

    /// Requests that wait for a leader go on here.
    pub(super) fn promote(&self) {
        self.promoted.send_replace(true);
    }

    pub(super) fn secret(&self) -> &ClusterSecret {
        &self.options.secret
    }

    /// Waits until this member leads.
    pub(super) async fn lead(&self) -> Result<()> {
        let (mut leader, mut gone) = (self.store.leader(), self.gone.clone());
        loop {
            let free = leader.borrow_and_update().as_ref().is_some_and(|seen| !seen.lease_lasts);
            let is_gone = *gone.borrow_and_update();
            if free || is_gone {
                let begun = self.store.lead(is_gone).await.context("this member has the lease and cannot lead")?;
                if let Some(BegunLead { hosts_in }) = begun {
                    tracing::warn!(member = self.options.member.name, "this member leads now");
                    self.hosts_in.send_replace(hosts_in);
                    return Ok(());
                }
            }
            tokio::select! {
                () = tokio::time::sleep(ASKS) => {}
                Ok(()) = leader.changed() => {}
                Ok(()) = gone.changed() => {}
            }
        }
    }
}

/// Tells where the leader answers.
async fn find(store: Arc<PostgresStore>, tell: watch::Sender<Option<String>>) {
    let mut seen = store.leader();
    loop {
        let address = seen.borrow_and_update().as_ref().and_then(|seen| {
            seen.leader.as_ref().filter(|_| seen.lease_lasts && !seen.disconnected).map(|leader| leader.address.clone())
        });
        tell.send_if_modified(|known| std::mem::replace(known, address.clone()) != address);
        if seen.changed().await.is_err() {
            return;
        }
    }
}

/// Hears from the leader what is acknowledged, and notices when its process is gone.
async fn listen_to(
    peers: Arc<PeerClient>,
    mut leader: watch::Receiver<Option<String>>,
    store: Arc<PostgresStore>,
    tell_gone: watch::Sender<bool>,
) {
    let (seen, mut heard) = (store.leader(), None::<String>);
    loop {
        let known = leader.borrow_and_update().clone();
        // One that has no connection to the database is asked as well: whether it is still there.
        let Some(address) = known.or_else(|| heard.clone()) else {
            if leader.changed().await.is_err() {
                return;
            }
            continue;
        };
        let answer = peers.head(&address, Some(store.head())).await;
        let disconnected = seen.borrow().as_ref().is_some_and(|seen| {
            seen.disconnected && seen.leader.as_ref().is_some_and(|leader| leader.address == address)
        });
        let gone = disconnected && answer == HeadAnswer::Refused;
        tell_gone.send_if_modified(|known| std::mem::replace(known, gone) != gone);
        match answer {
            HeadAnswer::At(Position(position)) => store.told(Position(position)),
            HeadAnswer::NotLeading | HeadAnswer::Refused => tokio::time::sleep(LOOKS).await,
            HeadAnswer::Silent(reason) => {
                tracing::debug!(address, reason, "the leader does not answer");
                tokio::time::sleep(LOOKS).await;
            }
        }
        heard = Some(address);
    }
}
