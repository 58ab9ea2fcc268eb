#!/bin/bash
# A real host loses its power. With `resume_guests_state_on_host_boot`, exactly the guests that ran before start again
# with the host. The host loses its power once while the control plane runs, and once while it is stopped.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
HOUSE_CONF=$'[DEFAULT]\nresume_guests_state_on_host_boot = True'
fleet_open power pw 10.74 1
house_furnish
declare -A ids
for name in ran rests; do boot "power-$name" --no-wait; ids[$name]=$ID; done
for name in ran rests; do ready "power-$name" "the guest is booted"; done
expect "one of them is stopped" os server stop power-rests
within 60 "it is SHUTOFF" is power-rests SHUTOFF

BOOTS=1
back() { # the occasion, for the texts of the checks
  BOOTS=$((BOOTS + 1))
  within 90 "the server that ran is ACTIVE $1" at_rest power-ran ACTIVE
  ready power-ran "its guest boots from its disk" $BOOTS
  same "libvirt runs it" "$(runs "${ids[ran]}")" 1
  same "the server that was stopped still is" "$(status_of power-rests)-$(runs "${ids[rests]}")" SHUTOFF-0
}

hosts crash h1 >/dev/null 2>&1
within 60 "the host without power is seen down" host_stands h1 down
same "the server keeps its status meanwhile" "$(status_of power-ran)" ACTIVE
expect "the host is switched on" hosts boot h1
back "when its host is back"
like "the log tells who wanted that" "$("$CHRONOVA_BIN" inspect --data-dir "$DATA" power-ran)" 'host-boot'

house_stop
hosts crash h1 >/dev/null 2>&1
expect "the host loses its power while no control plane is there, and is switched on" hosts boot h1
house_start || bad "the control plane starts" "$(tail -n 20 "$WORK/chronova.log")"
back "when the control plane is back"

with_more() { house_stop; sed -i 's/^resume_guests_state_on_host_boot.*/resume_guests_state_on_host_boot = False/' "$CONF"; house_start; }
expect "the operator changes his mind" with_more
within 60 "the host is up" host_is up
hosts crash h1 >/dev/null 2>&1
within 60 "the host without power is seen down" host_stands h1 down
expect "the host is switched on" hosts boot h1
within 60 "the server is SHUTOFF when its host is back" is power-ran SHUTOFF
same "libvirt does not run it" "$(runs "${ids[ran]}")" 0
os server delete --wait power-ran power-rests
for name in ran rests; do same "nothing is left of the one that $name" "$(rest_of "${ids[$name]}")" ""; done
verdict
