# Pings between guests on OVN's networks, and from outside; sourced by the scripts of tests/real after fleet.sh.
#
#   reached, silent                    whether the floating address FLOATING answers a ping from outside, or does not
#   ping_from HOST UUID ADDRESS WORD   whether a ping from a guest gives WORD: REACHED or SILENT
#   has_address HOST UUID ADDRESS      whether a booted guest has the address. If not, the guest asks for one
#   pinged SECONDS ADDRESS             in the background, pings from the guest ONE on HOST, five times a second
#   pings_hold HOST                    waits for the end of these pings, and checks them, after a migration to HOST

reached() { hosts ctl busybox ping -c 1 -W 2 "$FLOATING" >/dev/null 2>&1; }
silent() { ! reached; }
ping_from() { at "$1" "$2" "ping -c 1 -W 2 $3 >/dev/null 2>&1 && echo REACHED || echo SILENT" | grep -q "$4"; } # host, uuid, to, word
# A guest asks for an address for three seconds. On a busy machine OVN may need longer.
has_address() { # host, uuid, address
  said "$2" "GUEST-READY hostname=" || return 1
  said "$2" "GUEST-READY hostname=.* ip=$3 " || at "$1" "$2" "udhcpc -i eth0 -n -q -t 5 -T 1 -s /etc/dhcp >/dev/null 2>&1; ip -4 -o addr show dev eth0" | grep -q " $3/"
}

# At the end, $WORK/pinged has the result.
pinged() { # seconds, address
  rm -f "$WORK/pinged"
  (INSIDE_SECONDS=$(($1 + 60)) at "$HOST" "$ONE" "ping -i 0.2 -w $1 $2" >"$WORK/pings" 2>&1; mv "$WORK/pings" "$WORK/pinged") &
}
# `answered` prints the number of answered pings, and `longest_gap` the largest number of unanswered pings in a row.
answered() { grep -c ' seq=' "$WORK/pinged"; }
longest_gap() { sed -n 's/.* seq=\([0-9]*\) .*/\1/p' "$WORK/pinged" | awk 'NR > 1 && $1 - last - 1 > most {most = $1 - last - 1} {last = $1} END {print most + 0}'; }
# A long run allows five lost pings in a row, which is one second. A short run shares the machine with other scripts,
# which delays the last step of QEMU's migration. So a short run allows ten seconds.
MOST_LOST=50
if long_run; then MOST_LOST=5; fi
pings_hold() { # host
  within 90 "the pings during the migration to $1 have ended" test -e "$WORK/pinged"
  expect "at least 150 of 200 pings are answered: $(answered) answers" [ "$(answered)" -ge 150 ]
  expect "at most $MOST_LOST pings in a row are lost: $(longest_gap)" [ "$(longest_gap)" -le "$MOST_LOST" ]
}
