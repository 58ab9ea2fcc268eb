#!/bin/bash
# lvm.sh __host GROUP SIZE_MIB   gives a host of hosts.sh a volume group (hosts.sh calls it before the host's libvirtd)
# lvm.sh __gone STATE            detaches the loop devices of a testbed's hosts
#
# A replacement for LVM's programs, which is called under their names. Each logical volume is a loop device. libvirt's
# logical pools, QEMU on block devices and everything above are real. The replacement exists because all hosts of a
# testbed share one kernel. So they share one device mapper, which cannot have two volume groups of the same name.
#
# The replacement has only these commands: pvs vgscan vgs vgchange lvs lvcreate lvchange lvremove.
set -u
SELF=$(realpath "${BASH_SOURCE[0]}")
GROUPS_DIR=/var/lib/libvirt/testbed-lvm # under hosts.sh, each host has its own
EXTENT=$((4 << 20))
PROGRAMS='pvs vgscan vgs vgchange lvs lvcreate lvchange lvremove'

size_of() { stat -c %s "$1"; }
used() { local sum=0 file; for file in "$GROUPS_DIR/$1"/*.lv; do [ ! -e "$file" ] || sum=$((sum + $(size_of "$file"))); done; echo $sum; } # group
fail() { echo "  $*" >&2; exit 5; }
loop_of() { losetup -j "$1" -O NAME --noheadings | tr -d ' ' | head -n 1; } # file

case $(basename "$0") in
  pvs) for group in "$GROUPS_DIR"/*/; do [ ! -s "$group/size" ] || echo "  /dev/testbed $(basename "$group")"; done; exit 0 ;;
  vgscan) exit 0 ;;
  vgs)
    group=${!#}
    [ -d "$GROUPS_DIR/$group" ] || fail "Volume group \"$group\" not found"
    size=$(cat "$GROUPS_DIR/$group/size")
    echo "  $size:$((size - $(used "$group")))"
    exit 0 ;;
  vgchange)
    group=${!#}
    [ -d "$GROUPS_DIR/$group" ] || fail "Volume group \"$group\" not found"
    exit 0 ;;
  lvs)
    group=${!#}
    for file in "$GROUPS_DIR/$group"/*.lv; do
      [ -e "$file" ] || continue
      size=$(size_of "$file") name=$(basename "$file" .lv)
      echo "  $name##$(printf %s "$group/$name" | md5sum | cut -c 1-32)#/dev/testbed(0)#linear#1#$size#$EXTENT#$size#-wi-a-----"
    done
    exit 0 ;;
  lvcreate)
    name='' length='' virtual='' group=''
    while [ $# -gt 0 ]; do
      case $1 in
        --name) name=$2; shift ;;
        -L) length=$2; shift ;;
        --virtualsize) virtual=$2; shift ;;
        --type) shift ;;
        -*) ;;
        *) group=$1 ;;
      esac
      shift
    done
    exec 9>"$GROUPS_DIR/$group/lock"; flock 9
    length=${virtual:-$length}; size=$((${length%K} * 1024))
    size=$(((size + EXTENT - 1) / EXTENT * EXTENT))
    file=$GROUPS_DIR/$group/$name.lv
    [ ! -e "$file" ] || fail "Logical Volume \"$name\" already exists in volume group \"$group\""
    [ $(($(used "$group") + size)) -le "$(cat "$GROUPS_DIR/$group/size")" ] \
      || fail "Volume group \"$group\" has insufficient free space (0 extents): $((size / EXTENT)) required."
    truncate -s "$size" "$file" || exit 5
    device=$(losetup -f --show "$file") || { rm -f "$file"; exit 5; }
    ln -sf "$device" "/dev/$group/$name"
    exit 0 ;;
  lvchange) exit 0 ;;
  lvremove)
    path=${!#} name=$(basename "${!#}") group=$(basename "$(dirname "${!#}")")
    file=$GROUPS_DIR/$group/$name.lv
    [ -e "$file" ] || fail "Failed to find logical volume \"$group/$name\""
    device=$(loop_of "$file")
    [ -z "$device" ] || losetup -d "$device" || exit 5
    rm -f "$file" "$path"
    exit 0 ;;
esac

case ${1:-} in
  __host) # group, MiB
    mkdir -p "$GROUPS_DIR/$2" "/dev/$2"
    [ -s "$GROUPS_DIR/$2/size" ] || echo $(($3 << 20)) >"$GROUPS_DIR/$2/size"
    mount -t tmpfs -o mode=755 testbed-lvm "/dev/$2"
    # Attaches the volumes from before a power failure.
    for file in "$GROUPS_DIR/$2"/*.lv; do
      [ -e "$file" ] || continue
      device=$(loop_of "$file")
      ln -sf "${device:-$(losetup -f --show "$file")}" "/dev/$2/$(basename "$file" .lv)"
    done
    programs=$GROUPS_DIR/programs.bin
    mkdir -p "$programs"
    for program in $PROGRAMS; do ln -sf "$SELF" "$programs/$program"; done
    mount -t overlay -o "lowerdir=$programs:/usr/sbin" testbed-lvm /usr/sbin ;;
  __gone)
    for file in "$2"/h[0-9]*/lib/testbed-lvm/*/*.lv; do
      [ ! -e "$file" ] || losetup -j "$file" -O NAME --noheadings | xargs -r -n 1 losetup -d
    done ;;
  *) sed -n '2,10p' "$SELF" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
