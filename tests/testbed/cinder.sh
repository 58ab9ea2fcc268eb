#!/bin/bash
# A real Cinder from Debian's packages (`setup_packages cinder` of ops/setup.sh), beside the Keystone of keystone.sh.
#
#   cinder.sh up DIR KEYSTONE-DIR [CEPH-DIR] [GLANCE-DIR]   makes the database in DIR and the entries in Keystone,
#                                                           and starts the service. A second call starts only what does
#                                                           not run. Volumes are in the Ceph of ceph.sh; without a Ceph
#                                                           they have no data (paper_volumes.py). With SERVED_BY in
#                                                           the environment, they are in a back end of that class of
#                                                           served_volumes.py. SERVED_SECOND is the name of a second
#                                                           back end of that class.
#                                                           KEYS_AT is the address of a Barbican for the keys of
#                                                           encrypted volumes
#   cinder.sh kill DIR                                      kills the service; its database stays up
#   cinder.sh down DIR                                      ends the service and its database; DIR stays
#
# DIR has MariaDB and the logs. Its file `url` has the address of the API, and its file `secret` the UUID of the libvirt
# secret that Cinder names to the hosts. API, scheduler and volume service are one process. Cinder sends its events to
# the Compute endpoint in Keystone's catalogue.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/service.sh"
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}
. "$HERE/mariadb.sh"

backend() { # Ceph's folder
  if [ -n "${SERVED_BY:-}" ]; then
    local name
    for name in volumes ${SERVED_SECOND:-}; do
      printf '%s\n' "[$name]" "volume_driver = served_volumes.$SERVED_BY" "volume_backend_name = $name"
    done
  elif [ -z "$1" ]; then
    printf '%s\n' '[volumes]' 'volume_driver = paper_volumes.PaperDriver' 'volume_backend_name = volumes'
  else
    printf '%s\n' '[volumes]' 'volume_driver = cinder.volume.drivers.rbd.RBDDriver' 'volume_backend_name = volumes' \
      'rbd_pool = volumes' 'rbd_user = cinder' "rbd_ceph_conf = $1/ceph.conf" "rbd_secret_uuid = $(cat "$DIR/secret")" \
      'report_discard_supported = true' 'rados_connect_timeout = 10'
  fi
}

configure() { # Keystone's address, port, Ceph's folder, Glance's address
  mkdir -p "$DIR/state" "$DIR/conversion"
  echo "http://127.0.0.1:$2" >"$DIR/url"
  cat /proc/sys/kernel/random/uuid >"$DIR/secret"
  account() {
    printf '%s\n' "auth_url = $1/v3" 'auth_type = password' "username = $2" 'password = secret' 'user_domain_name = Default' \
      'project_name = service' 'project_domain_name = Default' 'region_name = RegionOne'
  }
  cat >"$DIR/cinder.conf" <<CONF
[DEFAULT]
log_file = $DIR/log/cinder.log
state_path = $DIR/state
my_ip = 127.0.0.1
host = cinder
transport_url = fake://
auth_strategy = keystone
api_paste_config = /etc/cinder/api-paste.ini
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = $2
enabled_backends = volumes${SERVED_SECOND:+,$SERVED_SECOND}
default_volume_type = __DEFAULT__
glance_api_servers = ${4:-http://127.0.0.1:9}
image_conversion_dir = $DIR/conversion
storage_availability_zone = nova
periodic_fuzzy_delay = 0
report_interval = 2
service_down_time = 60
backend_stats_polling_interval = 60
$(backend "$3")
$([ -z "${KEYS_AT:-}" ] || printf '%s\n' '[key_manager]' 'backend = barbican' '[barbican]' "barbican_endpoint = $KEYS_AT" "auth_endpoint = $1/v3")
[database]
connection = mysql+pymysql://root@localhost/cinder?unix_socket=$DIR/mariadb.sock&charset=utf8
[oslo_concurrency]
lock_path = $DIR/state
[coordination]
backend_url = file://$DIR/state
[nova]
$(account "$1" nova)
[service_user]
send_service_user_token = true
$(account "$1" cinder)
[keystone_authtoken]
www_authenticate_uri = $1
service_token_roles = service
service_token_roles_required = true
$(account "$1" cinder)
CONF
}

works() {
  local token services=2
  [ -z "${SERVED_SECOND:-}" ] || services=3
  token=$(curl -sS -m 5 -i -H 'Content-Type: application/json' "$1/v3/auth/tokens" -d '{"auth": {"identity": {"methods": ["password"],
    "password": {"user": {"name": "cinder", "domain": {"id": "default"}, "password": "secret"}}},
    "scope": {"project": {"name": "service", "domain": {"id": "default"}}}}}' | tr -d '\r' | sed -n 's/^X-Subject-Token: //Ip')
  [ "$(curl -sS -m 5 -H "X-Auth-Token: $token" "$(cat "$DIR/url")/v3/os-services" | grep -o '"state": "up"' | wc -l)" -ge $services ]
}

up() { # Keystone's folder, Ceph's folder, Glance's folder
  local keystone glance=''
  mkdir -p -m 0700 "$DIR" "$DIR/log"
  keystone=$(cat "$1/url")
  [ -z "$3" ] || glance=$(cat "$3/url")
  [ -e "$DIR/cinder.conf" ] || configure "$keystone" "$(free_port)" "$2" "$glance"
  database cinder cinder-common cinder-manage --config-file "$DIR/cinder.conf" db sync
  if [ ! -e "$DIR/made" ]; then
    python3 "$HERE/enlist.py" "$keystone" "service=cinder=volumev3=$(cat "$DIR/url")/v3/\$(project_id)s" "service=nova=compute="
    : >"$DIR/made"
  fi
  export CEPH_CONF=${2:+$2/ceph.conf}
  PYTHONPATH=$HERE spawn cinder /usr/bin/python3 "$HERE/cinder_one.py" --config-file "$DIR/cinder.conf"
  within 60 works "$keystone" || die "Cinder does not start: $(tail -n 5 "$DIR/log/cinder.out" "$DIR/log/cinder.log" 2>/dev/null)"
}

case $COMMAND in
  up) up "$3" "${4:-}" "${5:-}" ;;
  kill) kill -KILL -- "-$(cat "$DIR/cinder.pid")"; rm -f "$DIR/cinder.pid" ;;
  down) stop cinder mariadb ;;
  *) usage ;;
esac
