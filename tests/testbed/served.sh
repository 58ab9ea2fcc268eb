# A cloud with two hosts, a real Keystone, and a real Cinder whose volumes are files that a server on this machine gives
# to the hosts; sourced by tests/soak/iscsi.sh and nfs.sh. The script sets SERVED_BY (a class of served_volumes.py) and
# defines `server_up` and `server_down`. `server_up` starts the server, and exports SERVED_FOLDER and SERVED_ADDRESS.
# With SERVED_SECOND, Cinder has a second back end of this name; both back ends keep their files in the same folder.
#
#   served_open NAME ID NET   starts all of it, boots two guests on h1 (ONE) and h2 (TWO), and makes the volume `data`
#   attach SERVER UUID HOST   attaches the volume and waits until the guest sees it as vdb
#   detach SERVER UUID HOST   detaches it
#
# The checks that both scripts have. The first guest has written the word `carried`; after its move the word is `moved`:
#
#   moves_live                the first guest migrates live from h1 to h2 with the volume
#   moves_in_cinder           Cinder moves the volume in use on h1 to its other back end
#   writes_and_leaves         the first guest writes on the volume on h2, and the volume is detached
#   other_guest_reads         the second guest gets the volume and reads the word
#   spoilt NAME               makes another volume, whose id is SPOILT afterwards
#   refused NAME WORDS        the second guest does not get that volume, and the action's reason is like WORDS
#   discarded NAME            that volume is deleted
#   leaves_nothing            the servers and the volume are deleted
#   reboots_hard              the first guest reboots on h2 with the volume
#   survives_power_failure    h2 loses its power, and the first guest is evacuated to h1

. "$(dirname "${BASH_SOURCE[0]}")/fleet.sh"
TESTBED=$HERE
. "$TESTBED/cloud.sh"
# The address of this machine that the hosts of hosts.sh reach.
MACHINE=10.231.0.2

served_needs() { # programs...
  needs_programs cinder keystone-wsgi-public uwsgi_python3 cinder-volume mariadbd
  needs_programs served "$@"
}

house_first() {
  local section
  server_up || { bad "the server of the volumes starts"; exit 1; }
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=glance=image=$URL/image" \
    "service=neutron=network=$URL/network" "service=placement=placement=$URL/placement" member=ann=web=member \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  export SERVED_BY SERVED_SECOND
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
  # The server listens at an address of the hosts' network, so the hosts are stopped last.
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

asked() { os "$@" >"$WORK/did" 2>&1; }
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
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

# ------------------------------------------------------------------------------------- the checks that both scripts have

moves_live() {
  within 60 "the guest counts" ticks_on "$ONE" 2
  expect "a live migration is requested" asked server migrate --live-migration --host h2 "$ONE" --os-compute-api-version 2.79
  within 300 "the server is ACTIVE on h2" is_at "$ONE" h2
  same "the guest runs on one host" "$(runs "$FIRST")" 1
  counts_on "$ONE"
  same "the volume has its word on h2" "$(read_on h2 "$FIRST")" carried
  same "Cinder has one attachment after the migration" "$(attachments)" "$FIRST attached"
}
# Each back end has a type of its name, so the new type makes Cinder move the volume. Cinder keeps the volume's id; the
# file has the id of the temporary volume.
moves_in_cinder() {
  local other=$SERVED_SECOND defined
  case $(get volume data os-vol-host-attr:host) in cinder@$SERVED_SECOND*) other=volumes ;; esac
  expect "a volume type of the other back end is made" asked volume type create --property "volume_backend_name=$other" "$other"
  same "Cinder begins to retype the volume in use" "$(ask "$(token admin admin)" "$CINDER/v3/$ADMIN_PROJECT/volumes/$VOLUME/action" \
    -d "{\"os-retype\": {\"new_type\": \"$other\", \"migration_policy\": \"on-demand\"}}")" 202
  within 240 "Cinder's migration of the volume in use succeeds" eval '[ "$(get volume data migration_status)" = success ]'
  within 60 "Cinder has one volume, in use" eval '[ "$(os volume list -f value -c ID -c Status 2>/dev/null)" = "$VOLUME in-use" ]'
  like "the volume is on the other back end" "$(get volume data os-vol-host-attr:host)" "^cinder@$other"
  same "Cinder has one attachment after its migration" "$(attachments)" "$FIRST attached"
  same "the server has the volume under its id" "$(os server volume list "$ONE" -f value -c 'Volume ID')" "$VOLUME"
  within 60 "the file of the old back end is gone" eval '[ ! -e "$SERVED_FOLDER/volume-$VOLUME" ]'
  MOVED=$(ls "$SERVED_FOLDER")
  defined=$(on h1 dumpxml "$FIRST" | tr -d '\n')
  like "the guest has the new file" "$defined" "name='$SERVED_FOLDER/$MOVED'"
  like "the disk keeps the volume's id as its serial" "$(on h1 dumpxml --inactive "$FIRST" | tr -d '\n')" "name='$SERVED_FOLDER/$MOVED'.*<serial>$VOLUME</serial>"
  same "the guest reads its word after Cinder's migration" "$(read_on h1 "$FIRST")" carried
  expect "the guest writes after Cinder's migration" write_on h1 "$FIRST" afterwards
  same "the new file has the word" "$(dd if="$SERVED_FOLDER/$MOVED" bs=512 skip=200 count=1 2>/dev/null | head -n 1)" afterwards
  expect "the guest writes the first word again" write_on h1 "$FIRST" carried
}
writes_and_leaves() {
  expect "the guest writes on h2" write_on h2 "$FIRST" moved
  detach "$ONE" "$FIRST" h2
  same "Cinder has no attachment any more" "$(attachments)" ""
}
other_guest_reads() {
  attach "$TWO" "$SECOND" h2
  same "the other guest reads the last word" "$(read_on h2 "$SECOND")" moved
  detach "$TWO" "$SECOND" h2
}

spoilt() { # name
  asked volume create --size 1 "$1"
  within 60 "Cinder has made another volume" volume_is "$1" available
  SPOILT=$(get volume "$1" id)
}
is_unattached() { [ -z "$(attachments)" ] && volume_is "$1" available; } # volume
refused() { # name, pattern
  expect "an attachment of the volume $1 is requested" asked server add volume "$TWO" "$1"
  within 90 "the volume is available after the failed attachment" is_unattached "$1"
  like "the server's action gives the reason" "$(failure_of "$TWO")" "$2"
  unlike "the guest has no disk after the failed attachment" "$(on h2 dumpxml "$SECOND" || echo "libvirt says nothing about $SPOILT")" "$SPOILT"
  same "the server is ACTIVE after the failed attachment" "$(status_of "$TWO")" ACTIVE
}
discarded() { # name
  expect "the volume $1 is deleted" asked volume delete "$1"
  within 60 "Cinder does not have the volume $1 any more" no_volume "$1"
}

leaves_nothing() {
  expect "the servers are deleted" asked server delete --wait "$ONE" "$TWO"
  within 60 "the volume is available after the deletion" volume_is data available
  discarded data
  same "no file of a volume is left" "$(ls "$SERVED_FOLDER" 2>&1)" ""
  same "no attachment is left in Cinder" "$(attachments)" ""
}

reboots_hard() {
  attach "$ONE" "$FIRST" h2
  expect "the server is rebooted hard" asked server reboot --hard --wait "$ONE"
  ready "$ONE" "the guest is booted again" 2
  same "the volume has its word after the hard reboot" "$(read_on h2 "$FIRST")" moved
}

survives_power_failure() {
  hosts crash h2 >/dev/null 2>&1
  within 60 "host h2, which lost its power, is shown as down" host_stands h2 down
  expect "an evacuation is requested" asked server evacuate "$ONE" --os-compute-api-version 2.29
  within 180 "the evacuated server is ACTIVE" at_rest "$ONE" ACTIVE
  ready "$ONE" "the evacuated guest is booted"
  same "the volume has its word after the evacuation" "$(read_on h1 "$FIRST")" moved
  same "Cinder has one attachment after the evacuation" "$(attachments)" "$FIRST attached"
  hosts boot h2 >/dev/null 2>&1
  within 90 "host h2 is up again after its power failure" host_stands h2 up
  same "the guest runs on one host after the evacuation" "$(runs "$FIRST")" 1
  within 60 "the second server is at rest after the power failure" second_rests
}
second_rests() { at_rest "$TWO" SHUTOFF || at_rest "$TWO" ACTIVE; }
