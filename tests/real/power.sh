#!/bin/bash
# A host with two real guests loses its power. With `resume_guests_state_on_host_boot`, the guest that was running
# starts again when the host boots, and the stopped guest does not. The host loses its power once while the control
# plane runs, and once while the control plane is stopped. Without the option, no guest starts again.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
HOUSE_CONF=$'[DEFAULT]\nresume_guests_state_on_host_boot = True'
fleet_open power pw 10.74 1
house_furnish
declare -A ids
for name in ran rests; do boot "power-$name" --no-wait; ids[$name]=$ID; done
for name in ran rests; do ready "power-$name" "the guest of power-$name is booted"; done
expect "the server power-rests is stopped" os server stop power-rests
within 60 "the server power-rests is SHUTOFF" is power-rests SHUTOFF

BOOTS=1
back() { # the occasion, for the texts of the checks
  BOOTS=$((BOOTS + 1))
  within 90 "the server that ran is ACTIVE $1" at_rest power-ran ACTIVE
  ready power-ran "the guest boots from its disk $1" $BOOTS
  same "the guest that ran runs on one host $1" "$(runs "${ids[ran]}")" 1
  same "the stopped server is still stopped $1" "$(status_of power-rests)-$(runs "${ids[rests]}")" SHUTOFF-0
}

hosts crash h1 >/dev/null 2>&1
within 60 "the host without power is down" host_stands h1 down
same "the server keeps its status while the host is down" "$(status_of power-ran)" ACTIVE
expect "the host is switched on" hosts boot h1
back "after its host is back"
like "the event log names the host's boot as the reason" "$("$CHRONOVA_BIN" inspect --data-dir "$DATA" power-ran)" 'host-boot'

house_stop
hosts crash h1 >/dev/null 2>&1
expect "the host that lost its power is switched on without a control plane" hosts boot h1
house_start || bad "the control plane starts" "$(tail -n 20 "$WORK/chronova.log")"
back "after the control plane is back"

with_more() { house_stop; sed -i 's/^resume_guests_state_on_host_boot.*/resume_guests_state_on_host_boot = False/' "$CONF"; house_start; }
expect "the control plane starts without the option" with_more
within 60 "the host is up without the option" host_is up
hosts crash h1 >/dev/null 2>&1
within 60 "the host without power is down again" host_stands h1 down
expect "the host is switched on again" hosts boot h1
within 60 "without the option, the server is SHUTOFF after its host is back" is power-ran SHUTOFF
same "without the option, the guest does not run" "$(runs "${ids[ran]}")" 0
os server delete --wait power-ran power-rests
for name in ran rests; do same "nothing is left of power-$name" "$(rest_of "${ids[$name]}")" ""; done
verdict
