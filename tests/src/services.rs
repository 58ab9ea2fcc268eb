//! Networks and images for worlds that are about something else. They outlive a crash, as real services do, and count what
//! they hand out, so that a leak is seen.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_actors::ports::{Images, Networks, NicWanted, NicsWanted, PortError, Realisation};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, NetworkId, PortId, ProjectId};
use chronova_events::instance::{FixedIp, ImageSnapshot, NicInfo, RequestedNetworks, RequestedNic};
use chronova_hypervisor::driver::{ByteStream, DriverResult, ImageSource};
use chronova_hypervisor::guest::{ImageRef, NetworkSpec, Nic};
use uuid::Uuid;

/// One network with one port for each server, and more where they are asked for.
#[derive(Debug, Default)]
pub struct OneNetwork {
    ports: Mutex<BTreeMap<InstanceId, NicInfo>>,
    more: Mutex<BTreeMap<PortId, (InstanceId, NicInfo)>>,
}

impl OneNetwork {
    /// The servers that have a port.
    pub fn holders(&self) -> Vec<InstanceId> {
        let (ports, more) = (self.ports.lock().unwrap(), self.more.lock().unwrap());
        ports.keys().copied().chain(more.values().map(|(instance, _)| *instance)).collect()
    }

    /// The ports of a server.
    pub fn ports_of(&self, instance: InstanceId) -> Vec<PortId> {
        let first = self.ports.lock().unwrap().get(&instance).map(|nic| nic.port);
        let more = self.more.lock().unwrap();
        first.into_iter().chain(more.iter().filter(|(_, (of, _))| *of == instance).map(|(port, _)| *port)).collect()
    }
}

fn nic(port: PortId, number: usize, tag: Option<String>) -> NicInfo {
    NicInfo {
        port,
        network: NetworkId(Uuid::nil()),
        network_label: "private".to_owned(),
        mac: format!("fa:16:3e:00:00:{number:02x}"),
        mtu: 1500,
        fixed_ips: vec![FixedIp {
            address: format!("10.0.0.{number}"),
            prefix: 24,
            gateway: Some("10.0.0.1".to_owned()),
            dns: vec![],
            dhcp: true,
        }],
        tag,
        owned: true,
        security_groups: vec!["default".to_owned()],
    }
}

#[async_trait]
impl Networks for OneNetwork {
    async fn check(&self, _: &ProjectId, _: &RequestedNetworks, _: &[String]) -> Result<(), PortError> {
        Ok(())
    }

    async fn allocate(&self, wanted: NicsWanted, _: Arc<Meta>) -> Result<Vec<NicInfo>, PortError> {
        let mut ports = self.ports.lock().unwrap();
        let number = ports.len() + 2;
        let port = PortId::derive(wanted.instance.0, "port-0");
        let nic = ports.entry(wanted.instance).or_insert_with(|| nic(port, number, None));
        Ok(vec![nic.clone()])
    }

    async fn release(&self, instance: InstanceId, _: &ProjectId, _: Arc<Meta>) -> Result<(), PortError> {
        self.ports.lock().unwrap().remove(&instance);
        self.more.lock().unwrap().retain(|_, (of, _)| *of != instance);
        Ok(())
    }

    async fn check_attach(&self, _: &ProjectId, _: &RequestedNic) -> Result<(), PortError> {
        Ok(())
    }

    async fn attach(&self, wanted: NicWanted, _: Arc<Meta>) -> Result<NicInfo, PortError> {
        let port = wanted.nic.port.unwrap_or_else(|| self.attached_port(wanted.process));
        let mut more = self.more.lock().unwrap();
        let number = more.len() + 130;
        let made = || (wanted.instance, nic(port, number, wanted.nic.tag.clone()));
        Ok(more.entry(port).or_insert_with(made).1.clone())
    }

    async fn detach(&self, instance: InstanceId, port: PortId, _: Arc<Meta>) -> Result<(), PortError> {
        self.more.lock().unwrap().remove(&port);
        self.ports.lock().unwrap().retain(|of, nic| (*of, nic.port) != (instance, port));
        Ok(())
    }

    async fn add_address(&self, _: InstanceId, _: NetworkId, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::Conflict("ports have one address here".to_owned()))
    }

    async fn remove_address(&self, _: InstanceId, _: IpAddr, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::Conflict("ports have one address here".to_owned()))
    }

    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        let own = self.ports_of(instance);
        Ok(nics.iter().filter(|nic| own.contains(&nic.port)).cloned().collect())
    }

    async fn rebind(&self, _: InstanceId, _: Option<&str>, _: &str, _: Arc<Meta>) -> Result<(), PortError> {
        Ok(())
    }

    async fn realise(&self, nics: &[NicInfo]) -> Result<Realisation, PortError> {
        let nics = nics.iter().map(|nic| Nic {
            port: nic.port,
            network: nic.network,
            mac: nic.mac.clone(),
            mtu: nic.mtu,
            filter: None,
            tap: format!("tap{}", &nic.port.to_string()[..11]),
        });
        let network = NetworkSpec { network: NetworkId(Uuid::nil()), mtu: 1500, subnets: vec![], reservations: vec![] };
        Ok(Realisation { nics: nics.collect(), networks: vec![network], ..Realisation::default() })
    }
}

const SHA512_OF_TINY: &str = "3f78b24ef73cc8180982787d6db8ade488fa91dbbab294e4fd747a5e0d05c770\
    263589ae093a8c54e71ed13f84f583c37ad9fe232047f20c9e0780fbfcb99056";

/// One image: a few bytes.
#[derive(Debug, Default)]
pub struct OneImage;

impl OneImage {
    pub fn snapshot() -> ImageSnapshot {
        ImageSnapshot {
            id: ImageId(Uuid::nil()),
            name: "tiny".to_owned(),
            checksum: SHA512_OF_TINY.to_owned(),
            format: "raw".to_owned(),
            size: 4,
            virtual_size: 4,
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties: vec![],
        }
    }
}

#[async_trait]
impl ImageSource for OneImage {
    async fn open(&self, _: &ImageRef) -> DriverResult<ByteStream> {
        Ok(Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"tiny"))])))
    }
}

#[async_trait]
impl Images for OneImage {
    async fn find(&self, _: ImageId, _: &ProjectId, _: bool) -> Result<ImageSnapshot, PortError> {
        Ok(Self::snapshot())
    }
}
