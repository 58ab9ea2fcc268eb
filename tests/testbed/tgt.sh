#!/bin/bash
# A real iSCSI target of Debian's package `tgt` (`setup_packages served` of ops/setup.sh). It needs no kernel module.
#
#   tgt.sh up DIR ADDRESS      starts tgtd, which listens at ADDRESS; a second call starts it only if it does not run
#   tgt.sh run DIR COMMAND...  runs a command (tgtadm...) with tgtd's socket
#   tgt.sh down DIR            ends tgtd; DIR stays
#
# DIR/portal has the address HOST:PORT, and DIR/socket.0 is the socket for tgtadm (TGT_IPC_SOCKET=DIR/socket).
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }
HERE=$(dirname "$(realpath "$0")")
. "$HERE/free_port.sh"
. "$HERE/daemons.sh"
export TGT_IPC_SOCKET=$DIR/socket

up() { # address
  mkdir -p "$DIR" "$DIR/log" "$DIR/volumes"
  [ -e "$DIR/portal" ] || echo "$1:$(free_port)" >"$DIR/portal"
  spawn tgtd tgtd -f --iscsi "portal=$(cat "$DIR/portal")"
  within 20 tgtadm --op show --mode sys || { echo "tgt.sh: tgtd does not answer: $(tail -n 5 "$DIR/log/tgtd.out")" >&2; exit 1; }
}

case $COMMAND in
  up) up "$3" ;;
  run) shift 2; exec "$@" ;;
  down) stop tgtd ;;
  *) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
esac
