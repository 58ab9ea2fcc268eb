"""A back end of Cinder that keeps no bytes: volumes and snapshots exist in Cinder's database alone. PlainDriver is also
the base of the classes of served_volumes.py.

The conformance suite of Chronova's volume port compares what Cinder says, so it needs no storage.
"""
from cinder import interface
from cinder.volume import driver


class PlainDriver(driver.VolumeDriver):
    """Has no exports, unless a subclass adds them. STATS are the statistics beside vendor and version."""

    VERSION = "1.0"
    STATS = {}

    def _update_volume_stats(self):
        self._stats = {"vendor_name": "none", "driver_version": self.VERSION, "reserved_percentage": 0, **self.STATS}

    def create_export(self, context, volume, connector):
        pass

    def ensure_export(self, context, volume):
        pass

    def remove_export(self, context, volume):
        pass

    def terminate_connection(self, volume, connector, **kwargs):
        pass


@interface.volumedriver
class PaperDriver(PlainDriver):
    STATS = {
        "volume_backend_name": "paper", "storage_protocol": "ceph", "multiattach": True,
        "total_capacity_gb": 1000, "free_capacity_gb": 1000,
    }

    def check_for_setup_error(self):
        pass

    def create_volume(self, volume):
        pass

    def create_volume_from_snapshot(self, volume, snapshot):
        pass

    def create_cloned_volume(self, volume, src_vref):
        pass

    def delete_volume(self, volume):
        pass

    def create_snapshot(self, snapshot):
        pass

    def delete_snapshot(self, snapshot):
        pass

    def extend_volume(self, volume, new_size):
        pass

    def initialize_connection(self, volume, connector):
        return {"driver_volume_type": "rbd", "data": {
            "name": "volumes/volume-%s" % volume.id, "hosts": ["127.0.0.1"], "ports": ["6789"], "auth_enabled": True,
            "auth_username": "cinder", "secret_type": "ceph", "secret_uuid": "457eb676-33da-42ec-9a8c-9293d545c337",
            "volume_id": volume.id, "discard": True}}
