# A cloud with two hosts, a real Keystone, and a real Cinder whose volumes are files that a server on this machine gives
# to the hosts; sourced by tests/soak/iscsi.sh and nfs.sh. The script sets SERVED_BY (a class of served_volumes.py) and
# defines `server_up`, which starts the server and exports SERVED_FOLDER and SERVED_ADDRESS, and `server_down`.
#
#   served_open NAME ID NET   starts all of it, boots two guests on h1 (ONE) and h2 (TWO), and makes the volume `data`
#   attach SERVER UUID HOST   attaches the volume and waits until the guest sees it as vdb
#   detach SERVER UUID HOST   detaches it
#   put, take                 let a guest write and read a word on the volume

. "$(dirname "${BASH_SOURCE[0]}")/fleet.sh"
TESTBED=$HERE
. "$TESTBED/cloud.sh"
# The address of this machine that the hosts of hosts.sh reach.
MACHINE=10.231.0.2

served_needs() { # programs...
  local program
  for program in keystone-wsgi-public uwsgi_python3 cinder-volume mariadbd; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null \
      || { echo "no $program here: setup_packages cinder of ops/setup.sh installs it"; exit 77; }
  done
  for program in "$@"; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null \
      || { echo "no $program here: setup_packages served of ops/setup.sh installs it"; exit 77; }
  done
}

house_first() {
  local section
  server_up || { bad "the server of the volumes starts"; exit 1; }
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=glance=image=$URL/image" \
    "service=neutron=network=$URL/network" "service=placement=placement=$URL/placement" member=ann=web=member \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  export SERVED_BY
  bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" || { bad "Cinder starts"; exit 1; }
  CINDER=$(cat "$CLOUD/cinder/url")
  { echo clouds:; cloud chronova admin admin; } >"$HOUSE_CLOUDS"
  for section in keystone_authtoken service_user; do echo "[$section]"; account nova; done >>"$CONF"
  printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[keystone_authtoken]' 'http_connect_timeout = 60' \
    '[cinder]' 'os_region_name = RegionOne' 'timeout = 60' '[chronova]' 'image_service = embedded' >>"$CONF"
  ok "Keystone answers at $KEYSTONE, Cinder at $CINDER, volumes at $SERVED_ADDRESS"
}

house_last() {
  bash "$TESTBED/cinder.sh" down "$CLOUD/cinder"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  server_down
  # The hosts' network has the server's address, so it goes last.
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

asked() { os "$@" >"$WORK/did" 2>&1; }
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
no_volume() { ! os volume show "$1" >/dev/null 2>&1; }
attachments() { curl -s -m 30 -H "X-Auth-Token: $(token admin admin)" -H 'OpenStack-API-Version: volume 3.44' "$CINDER/v3/$ADMIN_PROJECT/attachments?all_tenants=1" \
  | python3 -c 'import json, sys; print(*sorted(a["instance"] + " " + a["status"] for a in json.load(sys.stdin)["attachments"]), sep="\n")'; }
put() { at "$1" "$2" "echo $3 | dd of=/dev/vdb bs=512 seek=200 conv=fsync 2>/dev/null"; } # host, uuid, word
take() { at "$1" "$2" "dd if=/dev/vdb bs=512 skip=200 count=1 iflag=direct 2>/dev/null | head -n 1"; } # host, uuid
sees() { [ "$(at "$1" "$2" '[ -e /sys/block/vdb ] && echo yes || echo no' | tail -n 1)" = "$3" ]; } # host, uuid, yes or no
attach() { # server, uuid, host
  expect "the volume is attached to $1" asked server add volume "$1" data
  within 60 "Cinder has the volume in use by $1" volume_is data in-use
  within 30 "the guest $1 sees the disk" sees "$3" "$2" yes
}
detach() { # server, uuid, host
  expect "the volume is detached from $1" asked server remove volume "$1" data
  within 60 "Cinder has the volume available after $1" volume_is data available
  within 30 "the guest $1 does not see the disk any more" sees "$3" "$2" no
}
# The events of the server's newest action.
failure_of() { os server event show "$1" "$(os server event list "$1" -f value -c 'Request ID' | head -n 1)" -f json 2>/dev/null; } # server

served_open() { # name, testbed, first two numbers of its networks
  CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-$1.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
  chmod 755 "$CLOUD"
  FLEET_OPTIONS=--root-link
  fleet_open "$1" "$2" "$3" 2
  within 60 "both hosts are up" host_stands h2 up
  ADMIN_PROJECT=$(get project admin id)
  INSIDE_SECONDS=120
  house_furnish
  ONE=$NAME-one TWO=$NAME-two
  boot "$ONE" --no-wait --user-data "$(counting)" --config-drive True --availability-zone nova:h1; FIRST=$ID
  boot "$TWO" --no-wait --availability-zone nova:h2; SECOND=$ID
  asked volume create --size 1 data
  within 60 "Cinder has made the volume" volume_is data available
  VOLUME=$(get volume data id)
  ready "$ONE"
  ready "$TWO"
}
