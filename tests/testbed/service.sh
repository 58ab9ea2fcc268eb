# The head of a script that starts and ends the processes of a service; the script sources it right after its line `set`.
#
#   COMMAND, DIR   the script's first two arguments. Without a DIR the script prints its usage and ends
#   HERE           the folder of these scripts
#   usage          prints the comment at the script's head, and ends the script
#   die WORDS      prints the words, and ends the script
#
# This script also sources free_port.sh and daemons.sh, so their functions are available, too.

export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
usage() { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }
die() { echo "$(basename "$0"): $*" >&2; exit 1; }
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || usage
HERE=$(dirname "$(realpath "$0")")
. "$HERE/free_port.sh"
. "$HERE/daemons.sh"
