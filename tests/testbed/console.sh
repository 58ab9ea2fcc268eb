# How to have commands run inside a guest; sourced by house.sh.
#
#   inside UUID COMMAND...    runs it over the guest's serial console: prints what it wrote, has its exit status
#
# The serial console is a root shell without a login. A command is one line of that shell: `inside $ID 'ls /dev/vd*'`.

INSIDE_SECONDS=${INSIDE_SECONDS:-60}
inside() { local guest=$1; shift; python3 "$(dirname "${BASH_SOURCE[0]}")/console.py" "$guest" "$INSIDE_SECONDS" "$*"; }

# The guest sees this disk (vdb), or sees it no more.
sees_disk() { inside "$1" "[ -e /sys/block/$2 ]"; }
sees_no_disk() { inside "$1" "[ ! -e /sys/block/$2 ]"; }
