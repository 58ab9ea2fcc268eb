# Functions that start and end the processes of a service in the folder DIR. Each process leads its own session.
# DIR/NAME.pid has the session's id, and DIR/log/NAME.out the output.
#
#   within SECONDS COMMAND...   waits until the command succeeds, or fails after three times SECONDS; a quiet machine needs
#                               SECONDS at most
#   alive NAME                  whether the process NAME itself runs
#   spawn NAME COMMAND...       starts COMMAND as the process NAME, unless NAME runs; first ends what is left of NAME
#   stop NAME...                ends the processes, and those that they started
#
# This script also sources still_runs.sh, so the function `still_runs` is available, too.
. "$(dirname "${BASH_SOURCE[0]}")/still_runs.sh"

within() {
  local until=$((SECONDS + 3 * $1)); shift
  while ! "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.2
  done
}

alive() { local pid; pid=$(cat "$DIR/$1.pid" 2>/dev/null) && still_runs -p "$pid"; }

spawn() {
  local name=$1; shift
  ! alive "$name" || return 0
  stop "$name"
  setsid "$@" >>"$DIR/log/$name.out" 2>&1 </dev/null &
  echo $! >"$DIR/$name.pid"
}

stop() {
  local name pid i
  for name in "$@"; do
    pid=$(cat "$DIR/$name.pid" 2>/dev/null) || continue
    kill -CONT -- "-$pid" 2>/dev/null || true
    kill -TERM -- "-$pid" 2>/dev/null || true
    for i in $(seq 50); do still_runs -s "$pid" || break; sleep 0.1; done
    kill -KILL -- "-$pid" 2>/dev/null || true
    rm -f "$DIR/$name.pid"
  done
}
