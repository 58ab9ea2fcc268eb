#!/bin/bash
# A real Ceph of one monitor, one manager and one OSD from Debian's packages (`setup_packages cinder` of ops/setup.sh).
#
#   ceph.sh up DIR [ADDRESS]   makes the cluster in DIR, then starts it. A second call starts only what does not run.
#                              ADDRESS is an address of this machine that the hosts reach; 127.0.0.1 by default
#   ceph.sh run DIR CMD...     runs CMD (ceph, rbd, rados...) as the administrator of the cluster
#   ceph.sh down DIR           ends the cluster; DIR stays
#
# DIR has all files of the cluster: the OSD's data in one sparse file, ceph.conf, the keyrings and the logs. Its file
# `monitor` has the address HOST:PORT of the monitor, for libvirt. cephx is on. The pools are images, volumes and vms;
# each keeps one copy of its data. The users are client.glance and client.cinder.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/service.sh"
export CEPH_CONF=$DIR/ceph.conf CEPH_ARGS=

admin() { timeout 60 ceph --connect-timeout 20 "$@" 2>>"$DIR/log/admin.log"; }

configure() { # address
  local v2 v1
  v2=$(free_port) v1=$(free_port)
  echo "$1:$v1" >"$DIR/monitor"
  echo "[v2:$1:$v2,v1:$1:$v1]" >"$DIR/addresses"
  cat >"$DIR/ceph.conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_host = [v2:$1:$v2/0,v1:$1:$v1/0]
public_addr = $1
cluster_addr = $1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = $DIR/\$cluster.\$name.keyring
run_dir = $DIR
admin_socket = $DIR/\$name.asok
log_file = $DIR/log/\$name.log
mon_cluster_log_file = $DIR/log/cluster.log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
[mon]
mon_data = $DIR/mon
mon_data_avail_warn = 2
mon_data_avail_crit = 1
[mgr]
mgr_data = $DIR/mgr
mgr_initial_modules =
[osd]
osd_data = $DIR/osd
osd_objectstore = bluestore
bluestore_block_size = 10737418240
bluestore_block_wal_size = 0
bluestore_block_db_size = 0
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
osd_memory_target = 939524096
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
CONF
}

make_monitor() {
  local first=$DIR/first.keyring
  ceph-authtool --create-keyring "$DIR/ceph.client.admin.keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  ceph-authtool --create-keyring "$first" --gen-key -n mon. --cap mon 'allow *'
  ceph-authtool "$first" --import-keyring "$DIR/ceph.client.admin.keyring"
  monmaptool --create --clobber --addv a "$(cat "$DIR/addresses")" --fsid "$(awk '/^fsid/ {print $3}' "$DIR/ceph.conf")" "$DIR/monmap"
  ceph-mon --mkfs -i a --monmap "$DIR/monmap" --keyring "$first"
}

make_osd() {
  local id secret
  id=$(cat /proc/sys/kernel/random/uuid) secret=$(ceph-authtool --gen-print-key)
  echo "{\"cephx_secret\": \"$secret\"}" | admin osd new "$id" 0 -i -
  ceph-authtool --create-keyring "$DIR/ceph.osd.0.keyring" --name osd.0 --add-key "$secret"
  cp "$DIR/ceph.osd.0.keyring" "$DIR/osd/keyring"
  ceph-osd -i 0 --mkfs --osd-uuid "$id"
}

user() { admin auth get-or-create "$@" -o "$DIR/ceph.$1.keyring"; } # entity, capabilities...

make_pools() {
  local pool
  for pool in images volumes vms; do
    admin osd pool create $pool 4 4
    admin osd pool application enable $pool rbd
    rbd pool init $pool
  done
}

healthy() { admin osd stat -f json | grep -q '"num_up_osds":1' && admin pg stat | grep -q 'active+clean' && ! admin pg stat | grep -qE 'unknown|peering|creating|activating'; }

up() { # address
  mkdir -p -m 0755 "$DIR" "$DIR/log" "$DIR/mon" "$DIR/mgr" "$DIR/osd"
  [ -e "$DIR/ceph.conf" ] || configure "${1:-127.0.0.1}"
  [ -e "$DIR/monitor.made" ] || { make_monitor >"$DIR/log/make.log" 2>&1 || die "the monitor cannot be made: see $DIR/log/make.log"; : >"$DIR/monitor.made"; }
  spawn mon ceph-mon -f -i a
  within 60 admin mon stat || die "the monitor does not answer: see $DIR/log/mon.out"
  if [ ! -e "$DIR/made" ]; then
    user mgr.a mon 'allow profile mgr' osd 'allow *' mds 'allow *'
    make_osd >>"$DIR/log/make.log" 2>&1 || die "the OSD cannot be made: see $DIR/log/make.log"
  fi
  spawn mgr ceph-mgr -f -i a
  spawn osd ceph-osd -f -i 0
  if [ ! -e "$DIR/made" ]; then
    make_pools >>"$DIR/log/make.log" 2>&1 || die "the pools cannot be made: see $DIR/log/make.log"
    user client.glance mon 'profile rbd' osd 'profile rbd pool=images' mgr 'profile rbd pool=images'
    user client.cinder mon 'profile rbd' osd 'profile rbd pool=volumes, profile rbd pool=vms, profile rbd pool=images' \
      mgr 'profile rbd pool=volumes, profile rbd pool=vms'
    : >"$DIR/made"
  fi
  within 90 healthy || die "the cluster does not become healthy: $(admin -s)"
}

case $COMMAND in
  up) up "${3:-}" ;;
  run) shift 2; exec "$@" ;;
  down) stop osd mgr mon ;;
  *) usage ;;
esac
