# A function that scripts source.
#
#   still_runs -p PID           whether the process runs; `-s SESSION`: whether a process of the session runs. A zombie
#                               does not run

# Where nothing waits for orphans, an ended process stays as a zombie, and `kill -0` finds it. The function does not use
# `grep -q`, because that ends at the first match, and then `ps` may fail.
still_runs() { [ -n "$(ps -o stat= "$@" 2>/dev/null | grep -v '^Z')" ]; }
