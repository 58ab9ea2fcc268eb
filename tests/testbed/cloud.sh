# A cloud with a real Keystone, whose address is in KEYSTONE; sourced by the scripts of tests/real after house.sh. The
# password of every account is `secret`, the region RegionOne.
#
#   cloud NAME USER PROJECT   prints a cloud of the client's file
#   account USER              prints the options of an account of the project service
#   token USER PROJECT        prints a token
#   ask TOKEN URL MORE...     prints the status of a request, whose answer is then in $WORK/answer
#   field NAME...             prints fields of the JSON object on standard input; `port.status` is a field in a field, and a
#                             field that is empty or missing is a dash

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
for name in sys.argv[1:]:
    value = functools.reduce(lambda found, key: found[int(key)] if isinstance(found, list) else (found or {}).get(key), name.split("."), whole)
    print("-" if value in (None, "", [], {}) else value, end=" " if name != sys.argv[-1] else "\n")' "$@" 2>/dev/null
}
