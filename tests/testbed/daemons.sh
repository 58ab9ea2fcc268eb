# Processes of a folder DIR; sourced by ceph.sh, cinder.sh and neutron.sh. Each leads a session of its own, whose id is in
# DIR/NAME.pid; its output is in DIR/log/NAME.out.
#
#   within SECONDS COMMAND...   waits until the command succeeds
#   alive NAME                  whether the process runs
#   spawn NAME COMMAND...       starts it unless it runs
#   stop NAME...                ends it

within() {
  local until=$((SECONDS + $1)); shift
  while ! "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.2
  done
}

alive() { local pid; pid=$(cat "$DIR/$1.pid" 2>/dev/null) && kill -0 -- "-$pid" 2>/dev/null; }

spawn() {
  local name=$1; shift
  ! alive "$name" || return 0
  setsid "$@" >>"$DIR/log/$name.out" 2>&1 </dev/null &
  echo $! >"$DIR/$name.pid"
}

stop() {
  local name pid i
  for name in "$@"; do
    pid=$(cat "$DIR/$name.pid" 2>/dev/null) || continue
    kill -CONT -- "-$pid" 2>/dev/null || true
    kill -TERM -- "-$pid" 2>/dev/null || true
    for i in $(seq 50); do kill -0 -- "-$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL -- "-$pid" 2>/dev/null || true
    rm -f "$DIR/$name.pid"
  done
}
