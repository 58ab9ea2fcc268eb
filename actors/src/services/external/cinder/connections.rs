//! How a host reaches a volume, from the `connection_info` of an attachment.
//!
//! QEMU itself connects to the back ends in this table. The host only defines a libvirt secret.
//!
//! | `driver_volume_type` | disk |
//! |---|---|
//! | `rbd` | `<source protocol='rbd'>` with each monitor, and a Ceph user with a libvirt secret |
//! | `iscsi` | `<source protocol='iscsi'>`; CHAP with a libvirt secret |
//! | `nfs` | `<source protocol='nfs'>` |
//!
//! QEMU also decrypts an encrypted volume; see [`encryption`](super::encryption).
//!
//! Other types (`fibre_channel`, `nvmeof`, `local`, ...) need a login, a mount or a device on the host. Chronova
//! refuses them.

use chronova_hypervisor::guest::{DiskPassword, NetworkDisk};
use serde_json::{Map, Value};

use super::RbdAccess;
use super::documents::CinderAttachment;
use crate::ports::{Connection, PortError};

/// The name under which a host logs in to iSCSI targets. Cinder learns it with the connector.
pub fn initiator(host: &str) -> String {
    let plain: String =
        host.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("iqn.2008-11.org.linux-kvm:{plain}")
}

/// How a host reaches a volume.
pub(super) struct FoundConnection {
    /// The part that callers record.
    pub connection: Connection,
    /// The disk for QEMU, without its encryption. It may hold a password.
    pub disk: NetworkDisk,
    pub encrypted: bool,
}

pub(super) fn way(
    attachment: &CinderAttachment,
    shareable: bool,
    host: &str,
    rbd: &RbdAccess,
) -> Result<FoundConnection, PortError> {
    let empty = Map::new();
    let info = ConnectionInfo(attachment.connection_info.as_ref().unwrap_or(&empty));
    let (pool, volume, disk) = match info.text("driver_volume_type").as_deref() {
        Some("rbd") => info.rbd(rbd)?,
        Some("iscsi") => info.iscsi(host)?,
        Some("nfs") => info.nfs()?,
        Some(other) => return Err(unsupported(other)),
        None => return Err(PortError::Conflict(format!("Attachment {} has no connection.", attachment.id))),
    };
    let readonly = info.text("access_mode").or_else(|| attachment.attach_mode.clone()).as_deref() == Some("ro");
    let format = info.text("format").filter(|format| format == "qcow2").unwrap_or_else(|| "raw".to_owned());
    let serial = attachment.volume_id.to_string();
    let connection = Connection { replaced_by: None, pool, volume, format, serial, readonly, shareable };
    Ok(FoundConnection { connection, disk, encrypted: info.flag("encrypted") })
}

fn unsupported(kind: &str) -> PortError {
    PortError::Invalid(format!(
        "The volume's back end connects it by {kind}, which needs a login or a device of the compute host. Chronova \
         connects volumes by rbd, iscsi and nfs: give the volume a type of such a back end."
    ))
}

type FoundWay = (String, String, NetworkDisk);

/// The connection info of an attachment. Its members are at the top level or in `data`.
struct ConnectionInfo<'a>(&'a Map<String, Value>);

impl ConnectionInfo<'_> {
    fn member(&self, key: &str) -> Option<&Value> {
        self.0.get(key).or_else(|| self.0.get("data")?.get(key)).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.member(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn flag(&self, key: &str) -> bool {
        self.member(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned).or_else(|| Some(value.as_u64()?.to_string()));
        self.member(key).and_then(Value::as_array).map(|all| all.iter().filter_map(text).collect()).unwrap_or_default()
    }

    fn required(&self, key: &str) -> Result<String, PortError> {
        self.text(key).ok_or_else(|| PortError::Unavailable(format!("Cinder's connection info has no {key}")))
    }

    fn rbd(&self, own: &RbdAccess) -> Result<FoundWay, PortError> {
        let name = self.required("name")?;
        let (pool, image) = name.split_once('/').unwrap_or(("", &name));
        let (hosts, ports) = (self.texts("hosts"), self.texts("ports"));
        let monitor = |(at, host): (usize, &String)| match ports.get(at) {
            Some(port) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        };
        let user = self.flag("auth_enabled").then(|| self.text("auth_username").or_else(|| own.user.clone())).flatten();
        let disk = NetworkDisk::Rbd {
            name: name.clone(),
            monitors: hosts.iter().enumerate().map(monitor).collect(),
            secret: user.as_ref().and_then(|_| self.text("secret_uuid").or_else(|| own.secret.clone())),
            user,
        };
        Ok((pool.to_owned(), image.to_owned(), disk))
    }

    fn iscsi(&self, host: &str) -> Result<FoundWay, PortError> {
        let (portal, target) = (self.required("target_portal")?, self.required("target_iqn")?);
        let lun = self.member("target_lun").and_then(Value::as_u64).and_then(|lun| u32::try_from(lun).ok());
        let lun = lun.ok_or_else(|| PortError::Unavailable("Cinder's connection info has no target_lun".to_owned()))?;
        let chap = match self.text("auth_username") {
            Some(user) => Some((user, DiskPassword::new(self.required("auth_password")?))),
            None => None,
        };
        let disk = NetworkDisk::Iscsi { portal, target: target.clone(), lun, initiator: initiator(host), chap };
        Ok((target, lun.to_string(), disk))
    }

    fn nfs(&self) -> Result<FoundWay, PortError> {
        let (export, name) = (self.required("export")?, self.required("name")?);
        let (host, folder) = export.rsplit_once(":/").ok_or_else(|| {
            PortError::Unavailable(format!(
                "Cinder's connection info names the export {export}, which is no HOST:/PATH"
            ))
        })?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = format!("/{}/{name}", folder.trim_end_matches('/'));
        Ok((export.clone(), name, NetworkDisk::Nfs { host, path }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn read(info: &Value) -> Result<(Connection, NetworkDisk), PortError> {
        let shown = json!({
            "id": "7a1f6f5c-0000-4000-8000-000000000003", "status": "attaching", "attach_mode": "rw",
            "volume_id": "7a1f6f5c-0000-4000-8000-000000000001", "connection_info": info,
        });
        let own = RbdAccess { user: Some("nova".to_owned()), secret: Some("own".to_owned()) };
        let found = way(&serde_json::from_value(shown).unwrap(), false, "Node_1.example", &own)?;
        Ok((found.connection, found.disk))
    }

    #[test]
    fn a_ceph_image_is_reached_through_every_monitor() {
        let mut info = json!({
            "driver_volume_type": "rbd", "name": "volumes/volume-1", "hosts": ["10.0.0.1", "fd00::3", "[fd00::4]"],
            "ports": ["6789", "6790", 6791], "auth_enabled": true, "auth_username": "cinder", "secret_type": "ceph",
            "secret_uuid": "457eb676-33da-42ec-9a8c-9293d545c337", "cluster_name": "ceph", "access_mode": "rw",
        });
        let (connection, disk) = read(&info).unwrap();
        assert_eq!((connection.pool.as_str(), connection.volume.as_str()), ("volumes", "volume-1"));
        assert_eq!((connection.format.as_str(), connection.readonly), ("raw", false));
        let NetworkDisk::Rbd { monitors, user, secret, .. } = disk else { panic!("{disk:?}") };
        assert_eq!(monitors, ["10.0.0.1:6789", "[fd00::3]:6790", "[fd00::4]:6791"]);
        assert_eq!((user.as_deref(), secret.unwrap().len()), (Some("cinder"), 36));
        (info["auth_username"], info["secret_uuid"], info["access_mode"]) = (Value::Null, Value::Null, json!("ro"));
        let (connection, disk) = read(&info).unwrap();
        let wanted = (Some("nova".to_owned()), Some("own".to_owned()));
        assert!(matches!(disk, NetworkDisk::Rbd { user, secret, .. } if (user.clone(), secret.clone()) == wanted));
        assert!(connection.readonly);
        info["auth_enabled"] = json!(false);
        assert!(matches!(read(&info).unwrap().1, NetworkDisk::Rbd { user: None, secret: None, .. }));
    }

    #[test]
    fn an_iscsi_target_has_its_password_in_the_disk_alone() {
        let info = json!({
            "driver_volume_type": "iscsi", "target_portal": "10.0.0.2:3260", "target_lun": 1, "auth_method": "CHAP",
            "target_iqn": "iqn.2010-10.org.openstack:volume-1", "auth_username": "u", "auth_password": "s3cret",
        });
        let (connection, disk) = read(&info).unwrap();
        assert!(!format!("{connection:?}{disk:?}").contains("s3cret"));
        let NetworkDisk::Iscsi { initiator, chap, .. } = disk else { panic!("{disk:?}") };
        assert_eq!(
            (initiator.as_str(), chap.unwrap().1.expose()),
            ("iqn.2008-11.org.linux-kvm:node-1-example", "s3cret")
        );
    }

    #[test]
    fn a_file_on_nfs_keeps_its_format() {
        let info =
            json!({"driver_volume_type": "nfs", "export": "10.0.0.3:/a/b", "name": "volume-1", "format": "qcow2"});
        let (connection, disk) = read(&info).unwrap();
        assert_eq!(connection.format, "qcow2");
        assert_eq!(disk, NetworkDisk::Nfs { host: "10.0.0.3".to_owned(), path: "/a/b/volume-1".to_owned() });
    }

    #[test]
    fn what_needs_the_host_is_refused_with_what_to_change() {
        let refused = read(&json!({"driver_volume_type": "fibre_channel"}));
        let words = "by rbd, iscsi and nfs";
        assert!(matches!(&refused, Err(PortError::Invalid(told)) if told.contains(words)), "{refused:?}");
        assert!(matches!(read(&json!({})), Err(PortError::Conflict(_))));
        assert!(matches!(read(&json!({"driver_volume_type": "rbd"})), Err(PortError::Unavailable(_))));
    }
}
