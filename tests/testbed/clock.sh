# A process whose wall clock can step; sourced.
#
#   clock_build LIBRARY        builds the library; LD_PRELOAD names it, and CLOCK_AHEAD names a file
#   clock_ahead FILE SECONDS   moves CLOCK_REALTIME ahead in the processes with that file

clock_build() { gcc -shared -fPIC -O1 -o "$1" "$(dirname "${BASH_SOURCE[0]}")/clock.c"; }
# Overwrites the file in place, because the processes have mapped it.
clock_ahead() { python3 -c 'import os, struct, sys; os.pwrite(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), struct.pack("l", int(sys.argv[2])), 0)' "$1" "$2"; }
