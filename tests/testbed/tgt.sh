#!/bin/bash
# A real iSCSI target of Debian's package `tgt` (`setup_packages served` of ops/setup.sh). It needs no kernel module.
#
#   tgt.sh up DIR ADDRESS      starts tgtd, which listens at ADDRESS; a second call starts it only if it does not run
#   tgt.sh run DIR COMMAND...  runs a command (tgtadm...) with tgtd's socket
#   tgt.sh down DIR            ends tgtd; DIR stays
#
# DIR/portal has the address HOST:PORT, and DIR/socket.0 is the socket for tgtadm (TGT_IPC_SOCKET=DIR/socket).
set -euo pipefail
. "$(dirname "$(realpath "$0")")/service.sh"
export TGT_IPC_SOCKET=$DIR/socket

up() { # address
  mkdir -p "$DIR" "$DIR/log" "$DIR/volumes"
  [ -e "$DIR/portal" ] || echo "$1:$(free_port)" >"$DIR/portal"
  spawn tgtd tgtd -f --iscsi "portal=$(cat "$DIR/portal")"
  within 20 tgtadm --op show --mode sys || die "tgtd does not answer: $(tail -n 5 "$DIR/log/tgtd.out")"
}

case $COMMAND in
  up) up "$3" ;;
  run) shift 2; exec "$@" ;;
  down) stop tgtd ;;
  *) usage ;;
esac
