#!/bin/bash
# A volume of a real Cinder reaches two real hosts by iSCSI with CHAP, from a real tgt. QEMU itself logs in: no host has
# an initiator of its own. A guest writes a word on the volume and migrates live with it; then another guest reads the
# word. The password is in no log and in no definition, and is removed from the host when the volume is detached. A
# wrong password causes a fault that names the reason. With CHRONOVA_SOAK=1 also: a hard reboot, a restart of libvirtd,
# which loses the password, a power failure of the host with an evacuation, and a target that is gone.
set -uo pipefail
. "$(dirname "$0")/../testbed/served.sh"
served_needs tgtd tgtadm
SERVED_BY=TargetDriver
server_up() {
  bash "$TESTBED/tgt.sh" up "$CLOUD/tgt" $MACHINE || return 1
  export SERVED_FOLDER=$CLOUD/tgt/volumes TGT_IPC_SOCKET=$CLOUD/tgt/socket SERVED_ADDRESS
  SERVED_ADDRESS=$(cat "$CLOUD/tgt/portal")
}
server_down() { bash "$TESTBED/tgt.sh" down "$CLOUD/tgt"; }
served_open iscsi is 10.87
target() { bash "$TESTBED/tgt.sh" run "$CLOUD/tgt" tgtadm --lld iscsi "$@"; }
sessions() { target --op show --mode target | grep -c 'Initiator: iqn.2008-11.org.linux-kvm:'; }
has_sessions() { [ "$(sessions)" = "$1" ]; } # number
# Prints how many secrets of the host are like the pattern, or that libvirtd does not answer.
secrets() { local all; if all=$(on "$1" secret-list); then grep -cE -- "$2" <<<"$all"; else echo "no answer"; fi; } # host, pattern
password() { mariadb --no-defaults --socket="$CLOUD/cinder/mariadb.sock" -uroot -N cinder -e "SELECT provider_auth FROM volumes WHERE id = '$VOLUME'" | awk '{print $3}'; }

# ------------------------------------------------------------------------------------------------------- write and move

attach "$ONE" "$FIRST" h1
DEFINED=$(on h1 dumpxml --security-info "$FIRST" | tr -d '\n')
like "QEMU itself connects to the target" "$DEFINED" "<source protocol='iscsi' name='iqn.2010-10.org.openstack:volume-$VOLUME/1'[^>]*> *<host name='$MACHINE' port='${SERVED_ADDRESS##*:}'"
like "QEMU logs in with CHAP and under the host's name" "$DEFINED" "<initiator> *<iqn name='iqn.2008-11.org.linux-kvm:h1'"
within 20 "the target has one session" has_sessions 1
like "the secret is private, and only in libvirtd's memory" "$(on h1 secret-dumpxml "$VOLUME" | head -n 1)" "ephemeral='yes' private='yes'"
PASSWORD=$(password)
same "the password of ${#PASSWORD} characters is in no definition" "$(grep -cF "$PASSWORD" <<<"$DEFINED")" 0
same "the password is in no log" "$(cat "$DATA"/log.db* "$WORK/chronova.log" | grep -acF "$PASSWORD")" 0
expect "the guest writes a word on the volume" write_on h1 "$FIRST" carried
moves_live
within 20 "the target has one session after the migration" has_sessions 1
writes_and_leaves
same "the host does not have the secret any more" "$(secrets h2 "$VOLUME")" 0
within 20 "the target has no session any more" has_sessions 0
other_guest_reads

# ------------------------------------------------------------------------------------------------------ a wrong password

# For a volume of this name, Cinder gives a password that the target does not accept.
spoilt wrong
refused wrong 'log ?in|[Aa]uthoriz|[Aa]uthentic|CHAP'
same "the secret of the failed attachment is gone" "$(secrets h2 "$SPOILT")" 0
discarded wrong

ends_clean() {
  leaves_nothing
  # On each host one secret stays: the mark that names the log that owns the host.
  for host in h1 h2; do same "no secret is left on $host but the mark of its owner" "$(secrets $host '[0-9a-f]{8}-')" 1; done
  verdict
}
long_run || ends_clean

# ------------------------------------------------------------------------------- reboots, and a libvirtd that has forgotten

reboots_hard
expect "libvirtd of h2 is restarted" hosts restart h2
within 60 "h2 is up again" host_stands h2 up
same "the guest still uses the volume" "$(read_on h2 "$FIRST")" moved
expect "the server is rebooted hard after libvirtd has forgotten the password" asked server reboot --hard --wait "$ONE"
ready "$ONE" "the guest is booted after libvirtd has forgotten the password" 3
same "the volume has its word after both" "$(read_on h2 "$FIRST")" moved

# ------------------------------------------------------------------------------------------------------- a power failure

survives_power_failure

# ----------------------------------------------------------------------------------------------- a target that goes away

# The session ends although the volume is attached. The guest's reads and writes fail or wait. Afterwards the guest's
# data are intact.
bash "$TESTBED/tgt.sh" down "$CLOUD/tgt"
sleep 5
bash "$TESTBED/tgt.sh" up "$CLOUD/tgt" $MACHINE
NUMBER=$((16#${VOLUME:0:7} + 1)) ACCOUNT=u${VOLUME:0:8}
target --op new --mode target --tid $NUMBER -T "iqn.2010-10.org.openstack:volume-$VOLUME"
target --op new --mode logicalunit --tid $NUMBER --lun 1 -b "$SERVED_FOLDER/volume-$VOLUME"
target --op new --mode account --user "$ACCOUNT" --password "$(password)"
target --op bind --mode account --tid $NUMBER --user "$ACCOUNT"
target --op bind --mode target --tid $NUMBER -I ALL
within 120 "QEMU has logged in to the target again" eval '[ "$(read_on h1 "$FIRST")" = moved ]'
ends_clean
