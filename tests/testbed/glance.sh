#!/bin/bash
# A real Glance from Debian's packages (`setup_packages openstack` of ops/setup.sh), beside the Keystone of keystone.sh.
#
#   glance.sh up DIR KEYSTONE-DIR [PORT [CEPH-DIR]]   makes the database in DIR and the entries in Keystone, and starts
#                                                     the server. A second call starts only the server
#   glance.sh down DIR                                ends the server; DIR stays
#
# DIR has an SQLite database, the images as files, and the log. With the Ceph of ceph.sh, images are in its pool
# `images`, and Glance shows their places. `url` has the address, and `pid` the id of uWSGI's
# process, which leads a session of its own.
set -euo pipefail
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }
HERE=$(cd "$(dirname "$0")" && pwd)

. "$HERE/uwsgi.sh"

answers() { curl -sS -m 5 -o /dev/null "$1/" 2>/dev/null; }

store() { # Ceph's folder
  if [ -z "$1" ]; then
    printf '%s\n' '[glance_store]' 'default_backend = file' '[file]' "filesystem_store_datadir = $DIR/images"
  else
    printf '%s\n' '[glance_store]' 'default_backend = ceph' '[ceph]' 'rbd_store_pool = images' 'rbd_store_user = glance' \
      "rbd_store_ceph_conf = $1/ceph.conf" 'rbd_store_chunk_size = 8'
  fi
}

configure() { # port, address of Keystone, Ceph's folder
  mkdir -p -m 0700 "$DIR/images" "$DIR/staging" "$DIR/tasks"
  cat >"$DIR/glance-api.conf" <<CONF
[DEFAULT]
log_file = $DIR/glance.log
enabled_backends = $([ -z "$3" ] && echo file:file || echo ceph:rbd)
$([ -z "$3" ] || printf '%s\n' 'show_image_direct_url = true' 'show_multiple_locations = true')
public_endpoint = http://127.0.0.1:$1
[database]
connection = sqlite:///$DIR/glance.db?timeout=30
$(store "$3")
[os_glance_tasks_store]
filesystem_store_datadir = $DIR/tasks
[os_glance_staging_store]
filesystem_store_datadir = $DIR/staging
[paste_deploy]
flavor = keystone
[oslo_concurrency]
lock_path = $DIR
[keystone_authtoken]
auth_url = $2/v3
www_authenticate_uri = $2/v3
auth_type = password
username = glance
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
service_token_roles = service
service_token_roles_required = true
CONF
  cp /etc/glance/glance-api-paste.ini "$DIR/"
  cat >"$DIR/uwsgi.ini" <<CONF
[uwsgi]
http-socket = 127.0.0.1:$1
wsgi-file = /usr/bin/glance-wsgi-api
plugins = python3
master = true
processes = 1
threads = 4
enable-threads = true
lazy-apps = true
thunder-lock = true
die-on-term = true
no-orphans = true
buffer-size = 65535
rem-header = Content-Length
add-header = Connection: close
http-auto-chunked = true
http-chunked-input = true
http-raw-body = true
wsgi-manage-chunked-input = true
disable-logging = true
CONF
  echo "http://127.0.0.1:$1" >"$DIR/url"
}

up() { # Keystone's folder, port, Ceph's folder
  local keystone
  mkdir -p -m 0700 "$DIR"
  keystone=$(cat "$1/url")
  if [ ! -e "$DIR/made" ]; then
    configure "${2:-$(free_port)}" "$keystone" "$3"
    tables "$DIR/glance.db" glance-common glance-manage --config-file "$DIR/glance-api.conf" db_sync >"$DIR/make.log" 2>&1 \
      || { tail -n 5 "$DIR/make.log" >&2; exit 1; }
    python3 "$HERE/enlist.py" "$keystone" service=glance=image="$(cat "$DIR/url")"
    : >"$DIR/made"
  fi
  uwsgi_up "OS_GLANCE_CONFIG_DIR=$DIR"
}

case $COMMAND in
  up) up "$3" "${4:-}" "${5:-}" ;;
  down) uwsgi_down ;;
  *) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
esac
