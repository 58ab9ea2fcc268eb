# Functions for a cloud with a real Keystone; sourced by the scripts of tests/real after house.sh. KEYSTONE is
# Keystone's address. The password of every account is `secret`; the region is RegionOne.
#
#   cloud NAME USER PROJECT   prints the entry NAME of a clouds.yaml
#   account USER              prints the options of a service that authenticates as USER in the project `service`
#   token USER PROJECT        prints a token
#   ask TOKEN URL MORE...     sends a request with these options of curl, prints the status of the answer, and
#                             writes the answer to $WORK/answer
#   field NAME...             prints fields of the JSON object on standard input. `port.status` is the field
#                             `status` in the field `port`. A dash is printed for a field that is empty or missing.
#                             If an element of a list is missing (`ports.0.id`), nothing is printed
#   attachments               prints server and status of each attachment in Cinder, of all projects. If Cinder does not
#                             answer, prints that. CINDER is Cinder's address, and ADMIN_PROJECT the id of the project
#                             `admin`
#   signal NAME FILE          sends this signal to the service whose session's id is in FILE
#   slow FILE PAUSE RUN       from now on stops that service for PAUSE seconds, lets it run for RUN seconds, and so on.
#                             So a fault or a request can happen in the middle of its work
#   fast                      ends what `slow` does

cloud() {
  printf '  %s:\n    region_name: RegionOne\n    identity_api_version: 3\n    auth:\n' "$1"
  printf '      %s\n' "auth_url: $KEYSTONE/v3" "username: $2" "password: secret" "user_domain_name: Default" \
    "project_name: $3" "project_domain_name: Default"
}

account() {
  printf '%s\n' "auth_url = $KEYSTONE" 'auth_type = password' "username = $1" 'password = secret' 'user_domain_name = Default' \
    'project_name = service' 'project_domain_name = Default'
}

token() {
  curl -s -m 60 -D - -o /dev/null -H 'Content-Type: application/json' "$KEYSTONE/v3/auth/tokens" -d "{\"auth\": {
    \"identity\": {\"methods\": [\"password\"], \"password\": {\"user\": {\"name\": \"$1\", \"domain\": {\"id\": \"default\"}, \"password\": \"secret\"}}},
    \"scope\": {\"project\": {\"name\": \"$2\", \"domain\": {\"id\": \"default\"}}}}}" \
    | tr -d '\r' | sed -n 's/^X-Subject-Token: //Ip'
}

ask() {
  local token=$1 url=$2; shift 2
  curl -s -m 60 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $token" -H 'Content-Type: application/json' "$@" "$url"
}

field() {
  python3 -c 'import functools, json, sys
whole = json.load(sys.stdin)
values = []
for name in sys.argv[1:]:
    value = functools.reduce(lambda found, key: found[int(key)] if isinstance(found, list) else (found or {}).get(key), name.split("."), whole)
    values.append("-" if value in (None, "", [], {}) else str(value))
print(*values)' "$@" 2>/dev/null
}

attachments() { curl -s -m 30 -H "X-Auth-Token: $(token admin admin)" -H 'OpenStack-API-Version: volume 3.44' "$CINDER/v3/$ADMIN_PROJECT/attachments?all_tenants=1" \
  | python3 -c 'import json, sys; print(*sorted(a["instance"] + " " + a["status"] for a in json.load(sys.stdin)["attachments"]), sep="\n")' \
  || echo "Cinder does not answer"; }

SLOW='' SLOWED=''
signal() { kill "-$1" -- "-$(cat "$2")"; }
slow() { SLOWED=$1; while signal STOP "$1" && sleep "$2" && signal CONT "$1" && sleep "$3"; do :; done 2>/dev/null & SLOW=$!; }
fast() { [ -z "$SLOW" ] || { kill "$SLOW"; wait "$SLOW"; SLOW=; signal CONT "$SLOWED"; } 2>/dev/null; }
