# A service of OpenStack under uWSGI; sourced by scripts whose folder DIR has `uwsgi.ini` and `url`.
#
#   tables FILE PACKAGE COMMAND...   makes an SQLite database in WAL mode. COMMAND fills FILE with the service's tables,
#                          which takes many seconds. One version of PACKAGE always gives the same tables, so
#                          TESTBED_CACHE keeps a copy
#   uwsgi_up NAME=VALUE    starts uWSGI in a session of its own, with this environment variable, and waits until
#                          the caller's function `answers URL` is true. DIR/pid has the id of uWSGI's process
#   uwsgi_down             ends uWSGI; the folder stays
. "$(dirname "${BASH_SOURCE[0]}")/free_port.sh"
. "$(dirname "${BASH_SOURCE[0]}")/still_runs.sh"

tables() { # file, package, command...
  local file=$1 package=$2 kept; shift 2
  kept=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/$package-$(dpkg-query -W -f '${Version}' "$package" | tr -c '[:alnum:].\n' _).db
  if [ -s "$kept" ]; then
    cp "$kept" "$file"
  else
    "$@"
    mkdir -p "$(dirname "$kept")"
    cp "$file" "$kept.$$" && mv "$kept.$$" "$kept"
  fi
  # Without WAL, a thread that reads blocks the threads that write.
  python3 -c "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA journal_mode = WAL')" "$file"
}

uwsgi_up() {
  local pid url until
  url=$(cat "$DIR/url")
  env "$1" setsid /usr/bin/uwsgi_python3 --ini "$DIR/uwsgi.ini" >>"$DIR/uwsgi.log" 2>&1 </dev/null &
  pid=$!
  echo $pid >"$DIR/pid"
  until=$((SECONDS + 60))
  until answers "$url"; do
    still_runs -p $pid && [ $SECONDS -lt $until ] || { tail -n 20 "$DIR/uwsgi.log" >&2; exit 1; }
    sleep 0.2
  done
}

uwsgi_down() {
  local pid i
  pid=$(cat "$DIR/pid" 2>/dev/null) || return 0
  kill -CONT -- "-$pid" 2>/dev/null || true
  kill -TERM -- "-$pid" 2>/dev/null || true
  for i in $(seq 50); do still_runs -s "$pid" || break; sleep 0.1; done
  kill -KILL -- "-$pid" 2>/dev/null || true
  rm -f "$DIR/pid"
}
