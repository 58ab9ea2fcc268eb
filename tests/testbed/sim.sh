# A separate control plane on a simulated fleet. Scripts in tests/real that need no hypervisor source it.
#
#   sim_open NAME [LINES OF THE CONFIGURATION...]   starts the control plane. Sets WORK (the folder of the run), DATA (the
#                                                   data folder), URL, and HOUSE (the process id)
#   sim_client                                      starts the client that `os` calls
#
# CHRONOVA_BIN is the binary. Exit status of the scripts as in house.sh.

. "$(dirname "${BASH_SOURCE[0]}")/house.sh"

sim_open() {
  NAME=$1; shift
  [ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-$NAME.XXXXXX") DATA=$WORK/data CONF=$WORK/chronova.conf
  PORT=$(free_port) || cannot "no port is free"
  URL=http://127.0.0.1:$PORT
  printf '%s\n' "$@" >"$CONF"
  trap house_close EXIT
  trap 'exit 1' TERM INT
  house_start || { bad "the control plane starts" "$(tail -n 30 "$WORK/chronova.log")"; exit 1; }
  export OS_CLIENT_CONFIG_FILE=$DATA/clouds.yaml OS_CLOUD=chronova
}

sim_client() {
  command -v openstack >/dev/null || cannot "no openstack client on the PATH"
  # All commands share one token, because checking a password takes longer than most commands.
  local password user token
  password=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
  user='"user":{"name":"admin","domain":{"id":"default"},"password":"'$password'"}'
  token=$(curl -sSi -H 'Content-Type: application/json' "$URL/identity/v3/auth/tokens" -d '{"auth":{"identity":{"methods":["password"],
    "password":{'"$user"'}},"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}' | tr -d '\r' | sed -n 's/^x-subject-token: //Ip')
  [ -n "$token" ] || { bad "a token is given"; exit 1; }
  printf '%s\n' 'clouds:' '  chronova:' '    auth_type: v3token' '    auth:' "      auth_url: $URL/identity/v3" "      token: $token" \
    '      project_name: admin' '      project_domain_id: default' '    region_name: RegionOne' >"$WORK/clouds.yaml"
  export OS_CLIENT_CONFIG_FILE=$WORK/clouds.yaml
  PYTHON=$(dirname "$(readlink -f "$(command -v openstack)")")/python3
  "$PYTHON" "$HERE/client.py" serve "$WORK/client" >"$WORK/client.log" 2>&1 &
  CLIENT=$!
  wait_for 60 test -S "$WORK/client" || { bad "the client starts" "$(cat "$WORK/client.log")"; exit 1; }
}
