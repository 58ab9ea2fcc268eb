# Runs commands inside a guest; sourced by house.sh.
#
#   inside UUID COMMAND...    runs COMMAND over the guest's serial console, prints its output and returns its exit
#                             status
#
# The serial console is a root shell without a login. A command is one line of that shell: `inside $ID 'ls /dev/vd*'`.

INSIDE_SECONDS=${INSIDE_SECONDS:-60}
inside() { local guest=$1; shift; python3 "$(dirname "${BASH_SOURCE[0]}")/console.py" "$guest" "$INSIDE_SECONDS" "$*"; }

# sees_disk succeeds if the guest has the disk, and sees_no_disk if it does not have the disk. Arguments: UUID, DISK
# (for example `vdb`).
sees_disk() { inside "$1" "[ -e /sys/block/$2 ]"; }
sees_no_disk() { inside "$1" "[ ! -e /sys/block/$2 ]"; }
