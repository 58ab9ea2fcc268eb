# A service of OpenStack under uWSGI; sourced by keystone.sh and glance.sh, whose DIR has `uwsgi.ini` and `url`.
#
#   write_ahead FILE       turns on write-ahead logging in an SQLite database
#   uwsgi_up NAME=VALUE    starts uWSGI in a session of its own, with this environment variable, and waits until the
#                          caller's function `answers URL` succeeds; writes uWSGI's process id to DIR/pid
#   uwsgi_down             ends uWSGI; DIR stays
. "$(dirname "${BASH_SOURCE[0]}")/free_port.sh"

# Without write-ahead logging, a thread that reads keeps other threads from writing.
write_ahead() { python3 -c "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA journal_mode = WAL')" "$1"; }

uwsgi_up() {
  local pid url until
  url=$(cat "$DIR/url")
  env "$1" setsid /usr/bin/uwsgi_python3 --ini "$DIR/uwsgi.ini" >>"$DIR/uwsgi.log" 2>&1 </dev/null &
  pid=$!
  echo $pid >"$DIR/pid"
  until=$((SECONDS + 60))
  until answers "$url"; do
    kill -0 $pid 2>/dev/null && [ $SECONDS -lt $until ] || { tail -n 20 "$DIR/uwsgi.log" >&2; exit 1; }
    sleep 0.2
  done
}

uwsgi_down() {
  local pid i
  pid=$(cat "$DIR/pid" 2>/dev/null) || return 0
  kill -CONT -- "-$pid" 2>/dev/null || true
  kill -TERM -- "-$pid" 2>/dev/null || true
  for i in $(seq 50); do kill -0 -- "-$pid" 2>/dev/null || break; sleep 0.1; done
  kill -KILL -- "-$pid" 2>/dev/null || true
  rm -f "$DIR/pid"
}
