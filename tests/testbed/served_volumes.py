"""Back ends of a real Cinder whose volumes are files of this machine: tgt gives them to the hosts by iSCSI with CHAP, or
NFS-Ganesha by NFS. For machines without a device mapper and without the kernel's iSCSI target and NFS.

The environment names the folder of the files (SERVED_FOLDER) and the address that the hosts reach (SERVED_ADDRESS). For
iSCSI it is HOST:PORT, and TGT_IPC_SOCKET names tgtd's socket for tgtadm.
"""
import os
import secrets
import shutil
import subprocess

from cinder import interface

from paper_volumes import PlainDriver

FOLDER = os.environ.get("SERVED_FOLDER", "")
ADDRESS = os.environ.get("SERVED_ADDRESS", "")


class FileDriver(PlainDriver):
    STATS = {
        "multiattach": False, "online_extend_support": False, "total_capacity_gb": 100, "free_capacity_gb": 100,
    }

    def _update_volume_stats(self):
        super()._update_volume_stats()
        self._stats["volume_backend_name"] = self.configuration.safe_get("volume_backend_name")

    def check_for_setup_error(self):
        if not os.path.isdir(FOLDER):
            raise RuntimeError("SERVED_FOLDER names no folder")

    @staticmethod
    def path(thing):
        return os.path.join(FOLDER, thing.name)

    def _make(self, volume, source=None):
        if source:
            shutil.copyfile(source, self.path(volume))
        else:
            with open(self.path(volume), "wb"):
                pass
        os.truncate(self.path(volume), volume.size << 30)
        # The server of the files does not run as Cinder.
        os.chmod(self.path(volume), 0o666)

    def create_volume(self, volume):
        self._make(volume)

    def create_volume_from_snapshot(self, volume, snapshot):
        self._make(volume, self.path(snapshot))

    def create_cloned_volume(self, volume, src_vref):
        self._make(volume, self.path(src_vref))

    def create_snapshot(self, snapshot):
        shutil.copyfile(self.path(snapshot.volume), self.path(snapshot))

    def _remove(self, thing):
        if os.path.exists(self.path(thing)):
            os.unlink(self.path(thing))

    def delete_volume(self, volume):
        self._remove(volume)

    def delete_snapshot(self, snapshot):
        self._remove(snapshot)

    def extend_volume(self, volume, new_size):
        os.truncate(self.path(volume), new_size << 30)


def tgtadm(*arguments, check=True):
    return subprocess.run(("tgtadm", "--lld", "iscsi") + arguments, check=check, text=True, stdout=subprocess.PIPE).stdout


@interface.volumedriver
class TargetDriver(FileDriver):
    STATS = {**FileDriver.STATS, "storage_protocol": "iSCSI"}

    @staticmethod
    def iqn(volume):
        return "iqn.2010-10.org.openstack:%s" % volume.name

    @staticmethod
    def number(volume):
        return str(int(volume.id[:7], 16) + 1)

    def create_export(self, context, volume, connector):
        # A live migration adds an attachment to the first one.
        if volume.provider_auth and self.iqn(volume) in tgtadm("--op", "show", "--mode", "target"):
            return {}
        user, password, number = "u" + volume.id[:8], secrets.token_hex(8), self.number(volume)
        tgtadm("--op", "new", "--mode", "target", "--tid", number, "-T", self.iqn(volume))
        tgtadm("--op", "new", "--mode", "logicalunit", "--tid", number, "--lun", "1", "-b", self.path(volume))
        tgtadm("--op", "new", "--mode", "account", "--user", user, "--password", password)
        tgtadm("--op", "bind", "--mode", "account", "--tid", number, "--user", user)
        tgtadm("--op", "bind", "--mode", "target", "--tid", number, "-I", "ALL")
        return {"provider_location": self.iqn(volume), "provider_auth": "CHAP %s %s" % (user, password)}

    def remove_export(self, context, volume):
        # Cinder also removes exports that it never made.
        tgtadm("--op", "delete", "--force", "--mode", "target", "--tid", self.number(volume), check=False)
        tgtadm("--op", "delete", "--mode", "account", "--user", "u" + volume.id[:8], check=False)

    def terminate_connection(self, volume, connector, **kwargs):
        """Whether another attachment still needs the export."""
        return len(volume.volume_attachment) > 1

    def initialize_connection(self, volume, connector):
        method, user, password = volume.provider_auth.split()
        # A volume of this name shows what a wrong password does.
        if volume.display_name == "wrong":
            password = "another-password"
        return {"driver_volume_type": "iscsi", "data": {
            "target_discovered": False, "target_portal": ADDRESS, "target_iqn": self.iqn(volume), "target_lun": 1,
            "volume_id": volume.id, "auth_method": method, "auth_username": user, "auth_password": password}}


@interface.volumedriver
class ExportDriver(FileDriver):
    STATS = {**FileDriver.STATS, "storage_protocol": "nfs", "online_extend_support": True}

    def initialize_connection(self, volume, connector):
        return {"driver_volume_type": "nfs", "data": {
            "export": "%s:%s" % (ADDRESS, FOLDER), "name": volume.name, "format": "raw", "options": None}}
