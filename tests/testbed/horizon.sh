#!/bin/bash
# A real Horizon from Debian's packages (`setup_packages horizon` of ops/setup.sh), for the scripts in tests/real.
#
#   horizon.sh up DIR KEYSTONE   makes the configuration in DIR, if it is missing; starts the server. KEYSTONE is the
#                                address of the Identity API, with /v3
#   horizon.sh down DIR          ends the server; DIR stays
#
# DIR has the configuration, and the log `uwsgi.log`. `url` has the address, and `pid` the id of uWSGI's process, which
# leads its own session. The server runs as the package's user `horizon`, so that user must be able to enter the folder
# of DIR. The sessions are in the process's memory, so no memcached is needed.
set -euo pipefail
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }

. "$(dirname "${BASH_SOURCE[0]}")/uwsgi.sh"

# The first answer takes many seconds, because Horizon then reads its parts.
answers() { curl -fsS -m 30 -o /dev/null "$1/auth/login/" 2>/dev/null; }

# Horizon imports its settings from the package `local`. The option `pythonpath` puts this folder first.
configure() { # address of the Identity API
  local port
  port=$(free_port)
  mkdir -p "$DIR/local"
  : >"$DIR/local/__init__.py"
  cat >"$DIR/local/local_settings.py" <<CONF
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = "$(openssl rand -hex 32)"
OPENSTACK_KEYSTONE_URL = "$1"
TIME_ZONE = "UTC"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
CONF
  cat >"$DIR/uwsgi.ini" <<CONF
[uwsgi]
http-socket = 127.0.0.1:$port
wsgi-file = /usr/share/openstack-dashboard/wsgi.py
pythonpath = $DIR
static-map = /static=/var/lib/openstack-dashboard/static
plugins = python3
uid = horizon
gid = horizon
master = true
processes = 1
threads = 4
lazy-apps = true
die-on-term = true
no-orphans = true
buffer-size = 65535
disable-logging = true
add-header = Connection: close
CONF
  echo "http://127.0.0.1:$port" >"$DIR/url"
}

case $COMMAND in
  up)
    [ -e "$DIR/url" ] || configure "$3"
    uwsgi_up PYTHONDONTWRITEBYTECODE=1
    ;;
  down) uwsgi_down ;;
  *) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
esac
