#!/bin/bash
# A real Barbican from Debian's packages (`setup_packages openstack` of ops/setup.sh), beside keystone.sh's Keystone.
#
#   barbican.sh up DIR KEYSTONE-DIR [PORT]   makes the entries in Keystone, and starts the server. A second call starts
#                                            only the server
#   barbican.sh down DIR                     ends the server; DIR stays
#
# DIR has an SQLite database with the secrets, and the log. `url` has the address, and `pid` the id of uWSGI's process,
# which leads a session of its own. A user with the role `creator` stores secrets.
set -euo pipefail
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }
HERE=$(cd "$(dirname "$0")" && pwd)

. "$HERE/uwsgi.sh"

answers() { curl -sS -m 5 -o /dev/null "$1/" 2>/dev/null; }

# Barbican finds its configuration in HOME.
configure() { # port, address of Keystone
  mkdir -p -m 0700 "$DIR/.barbican"
  cat >"$DIR/.barbican/barbican.conf" <<CONF
[DEFAULT]
log_file = $DIR/barbican.log
host_href = http://127.0.0.1:$1
sql_connection = sqlite:///$DIR/barbican.db
db_auto_create = true
[keystone_authtoken]
auth_url = $2/v3
www_authenticate_uri = $2/v3
auth_type = password
username = barbican
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
service_token_roles = service
service_token_roles_required = true
CONF
  sed '/^\[filter:authtoken\]/a oslo_config_project = barbican' /usr/share/barbican-common/barbican-api-paste.ini >"$DIR/paste.ini"
  printf '%s\n' 'from paste import deploy' "application = deploy.loadapp('config:$DIR/paste.ini')" >"$DIR/barbican.wsgi"
  cat >"$DIR/uwsgi.ini" <<CONF
[uwsgi]
http-socket = 127.0.0.1:$1
wsgi-file = $DIR/barbican.wsgi
plugins = python3
master = true
processes = 1
threads = 1
enable-threads = true
lazy-apps = true
die-on-term = true
no-orphans = true
buffer-size = 65535
rem-header = Content-Length
add-header = Connection: close
disable-logging = true
CONF
  echo "http://127.0.0.1:$1" >"$DIR/url"
}

up() { # Keystone's folder, port
  local keystone
  mkdir -p -m 0700 "$DIR"
  keystone=$(cat "$1/url")
  if [ ! -e "$DIR/made" ]; then
    configure "${2:-$(free_port)}" "$keystone"
    python3 "$HERE/enlist.py" "$keystone" service=barbican=key-manager="$(cat "$DIR/url")"
    : >"$DIR/made"
  fi
  uwsgi_up "HOME=$DIR"
}

case $COMMAND in
  up) up "$3" "${4:-}" ;;
  down) uwsgi_down ;;
  *) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
esac
