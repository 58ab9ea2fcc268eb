#!/bin/bash
# A real Keystone from Debian's packages (`setup_packages openstack` of ops/setup.sh), for the scripts in tests/real.
#
#   keystone.sh up DIR [PORT]   makes database, keys and administrator in DIR, if they are missing; starts the server
#   keystone.sh down DIR        ends the server; DIR stays
#   keystone.sh expired DIR TOKEN [SECONDS]   prints a copy of TOKEN that expired an hour ago, or that expires in
#                                             SECONDS
#
# DIR has an SQLite database, Fernet keys and the log. `url` has the address, and `pid` the id of uWSGI's process, which
# leads its own session. The administrator is admin, project admin, password `secret`; the region is RegionOne.
set -euo pipefail
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || { sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2; }

. "$(dirname "${BASH_SOURCE[0]}")/uwsgi.sh"

answers() { curl -fsS -m 2 -o /dev/null "$1/v3" 2>/dev/null; }

configure() { # port
  mkdir -p -m 0700 "$DIR/fernet" "$DIR/credential"
  cat >"$DIR/keystone.conf" <<CONF
[DEFAULT]
log_file = $DIR/keystone.log
public_endpoint = http://127.0.0.1:$1/
[database]
connection = sqlite:///$DIR/keystone.db?timeout=30
# Without its cache, Keystone takes a second of processor time to validate a token. Each process has its own cache, and
# does not see a change by the other process. So only roles and projects are cached, because scripts create these before
# they use them.
[cache]
enabled = true
backend = dogpile.cache.memory
[token]
provider = fernet
caching = false
[revoke]
caching = false
[catalog]
caching = false
[assignment]
caching = false
[fernet_tokens]
key_repository = $DIR/fernet
[fernet_receipts]
key_repository = $DIR/fernet
[credential]
key_repository = $DIR/credential
[identity]
caching = false
password_hash_rounds = 4
CONF
  cat >"$DIR/uwsgi.ini" <<CONF
[uwsgi]
http-socket = 127.0.0.1:$1
wsgi-file = /usr/bin/keystone-wsgi-public
plugins = python3
master = true
processes = 2
threads = 1
lazy-apps = true
thunder-lock = true
die-on-term = true
no-orphans = true
buffer-size = 65535
disable-logging = true
add-header = Connection: close
CONF
  echo "http://127.0.0.1:$1" >"$DIR/url"
}

make() {
  local manage=(keystone-manage --config-file "$DIR/keystone.conf") url
  url=$(cat "$DIR/url")
  tables "$DIR/keystone.db" keystone "${manage[@]}" db_sync
  # Makes the keys as fernet_setup and credential_setup do, because each start of keystone-manage takes seconds.
  local folder key
  for folder in fernet credential; do
    for key in 0 1; do (umask 077; openssl rand -base64 32 | tr '+/' '-_' | tr -d '\n' >"$DIR/$folder/$key"); done
  done
  "${manage[@]}" bootstrap --bootstrap-password secret --bootstrap-region-id RegionOne \
    --bootstrap-admin-url "$url/v3" --bootstrap-internal-url "$url/v3" --bootstrap-public-url "$url/v3"
}

up() {
  mkdir -p -m 0700 "$DIR"
  if [ ! -e "$DIR/made" ]; then
    configure "${1:-$(free_port)}"
    make >"$DIR/make.log" 2>&1 || { tail -n 5 "$DIR/make.log" >&2; exit 1; }
    : >"$DIR/made"
  fi
  uwsgi_up "OS_KEYSTONE_CONFIG_DIR=$DIR"
}

# Makes the token with Keystone's own code and keys, because the test cannot wait until a token expires.
expired() { # token, seconds
  /usr/bin/python3 - "$DIR/keystone.conf" "$1" "${2:--3600}" <<'PYTHON'
import datetime, sys
import keystone.conf
from keystone.common import utils
from keystone.token import token_formatters
file, token, seconds = sys.argv[1:]
keystone.conf.configure()
keystone.conf.CONF(["--config-file", file], project="keystone")
formatter = token_formatters.TokenFormatter()
user, methods, audit_ids, _, _, project = formatter.validate_token(token)[:6]
end = utils.isotime(datetime.datetime.utcnow() + datetime.timedelta(seconds=int(seconds)), subsecond=True)
kind = token_formatters.ProjectScopedPayload
print(formatter.create_token(user, end, audit_ids, kind, methods=methods, project_id=project))
PYTHON
}

case $COMMAND in
  up) up "${3:-}" ;;
  down) uwsgi_down ;;
  expired) expired "$3" "${4:-}" ;;
  *) sed -n '2,/^set /{/^#/p}' "$0" >&2; exit 2 ;;
esac
