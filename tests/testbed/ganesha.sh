#!/bin/bash
# A real NFS server in user space, of Debian's packages nfs-ganesha and nfs-ganesha-vfs (`setup_packages served` of
# ops/setup.sh). It needs no kernel module. QEMU's NFS client speaks NFSv3, so the port mapper of the machine must run;
# `up` starts one if none answers.
#
#   ganesha.sh up DIR ADDRESS   exports DIR/volumes at ADDRESS; a second call starts only what does not run
#   ganesha.sh down DIR         ends what `up` started; DIR stays
set -euo pipefail
. "$(dirname "$(realpath "$0")")/service.sh"

configure() { # address
  cat >"$DIR/ganesha.conf" <<CONF
NFS_CORE_PARAM {
  Protocols = 3;
  Bind_addr = $1;
  NFS_Port = $(free_port);
  MNT_Port = $(free_port);
  Enable_NLM = false;
  Enable_RQUOTA = false;
  mount_path_pseudo = false;
}
NFSv4 {
  Graceless = true;
  RecoveryRoot = $DIR/recovery;
}
EXPORT {
  Export_Id = 1;
  Path = $DIR/volumes;
  Pseudo = /volumes;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  Protocols = 3;
  Transports = TCP;
  PrivilegedPort = false;
  FSAL { Name = VFS; }
}
CONF
}

exported() { rpcinfo -T tcp "$1" mountd 3 && rpcinfo -T tcp "$1" nfs 3; }

up() { # address
  mkdir -p "$DIR" "$DIR/log" "$DIR/volumes" "$DIR/recovery" /run/ganesha /var/lib/nfs/ganesha
  [ -e "$DIR/ganesha.conf" ] || configure "$1"
  rpcinfo -p 127.0.0.1 >/dev/null 2>&1 || { mkdir -p /run/rpcbind; spawn rpcbind rpcbind -f -i; }
  within 20 rpcinfo -p 127.0.0.1 || die "the port mapper does not answer: $(tail -n 5 "$DIR/log/rpcbind.out")"
  spawn ganesha ganesha.nfsd -F -f "$DIR/ganesha.conf" -L "$DIR/log/ganesha.log" -p "$DIR/ganesha.daemon" -N NIV_EVENT
  within 40 exported "$1" || die "NFS-Ganesha does not answer: $(tail -n 10 "$DIR/log/ganesha.log" "$DIR/log/ganesha.out" 2>/dev/null)"
}

case $COMMAND in
  up) up "$3" ;;
  down) stop ganesha rpcbind ;;
  *) usage ;;
esac
