//! The machine type of a server's guest, recorded before its first start.

use chronova_events::ids::HostId;
use chronova_events::instance::Alive;
use chronova_hypervisor::options::MachineTypes;

use super::definition::{StepError, StepRun, settled};
use crate::hardware::emulated_architecture;
use crate::instance::{InstanceRecord, InstanceRoot};

/// The property of an image that names the machine type.
pub(super) const PROPERTY: &str = "hw_machine_type";

/// The machine type that a guest gets on this host if none is recorded. The image names it; otherwise the operator's
/// option for the architecture does.
pub(super) fn machine_type(work: &StepRun, host: HostId, server: &Alive) -> String {
    let arch = work.context.views.hosts.read(|hosts| hosts.get(host).map(|host| host.capabilities.cpu_arch.clone()));
    of_new_guest(server, &arch.unwrap_or_default(), &work.context.server_options.machine_types)
}

/// The machine type that a guest gets on a host with processors of `arch`, if none is recorded.
pub(crate) fn of_new_guest(server: &Alive, arch: &str, types: &MachineTypes) -> String {
    let properties = server.hardware_image().into_iter().flat_map(|image| &image.properties);
    let own = properties.filter(|(name, _)| name == PROPERTY).map(|(_, machine)| machine.clone()).next();
    own.unwrap_or_else(|| {
        let arch = server.hardware_image().and_then(emulated_architecture).unwrap_or(arch);
        types.of(arch).to_owned()
    })
}

/// The recorded machine type. A server without a record gets one now.
pub(super) async fn recorded(work: &StepRun, host: HostId, server: &Alive) -> Result<String, StepError> {
    if let Some(machine_type) = &server.machine_type {
        return Ok(machine_type.clone());
    }
    let machine_type = machine_type(work, host, server);
    let record = InstanceRecord::MachineType { machine_type: machine_type.clone() };
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)?;
    Ok(machine_type)
}
