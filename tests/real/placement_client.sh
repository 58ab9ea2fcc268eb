#!/bin/bash
# Runs every subcommand of the client's placement plugin (osc-placement) at least once, on simulated hosts. The script
# checks each output, and reads each change back.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"

[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
command -v openstack >/dev/null || cannot "no openstack client on the PATH"
PYTHON=$(dirname "$(readlink -f "$(command -v openstack)")")/python3
"$PYTHON" -c 'import osc_placement' 2>/dev/null || cannot "the client lacks its placement plugin (osc-placement)"

NAME=placement-client
WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-$NAME.XXXXXX") DATA=$WORK/data CONF=$WORK/chronova.conf
PORT=$(free_port) || cannot "no port is free"
URL=http://127.0.0.1:$PORT
finish() {
  [ -z "${CLIENT:-}" ] || kill "$CLIENT" 2>/dev/null
  house_stop
  [ $FAILED = 0 ] && rm -rf "$WORK" || echo "the files of this run: $WORK"
}
trap finish EXIT
trap 'exit 1' TERM INT
printf '%s\n' '[chronova]' 'hypervisors = sim://2' >"$CONF"
house_start || { bad "the control plane starts" "$(tail -n 30 "$WORK/chronova.log")"; exit 1; }
export OS_CLIENT_CONFIG_FILE=$DATA/clouds.yaml OS_CLOUD=chronova OS_PLACEMENT_API_VERSION=1.39
"$PYTHON" "$HERE/client.py" serve "$WORK/client" >"$WORK/client.log" 2>&1 &
CLIENT=$!
wait_for 60 test -S "$WORK/client" || { bad "the client starts" "$(cat "$WORK/client.log")"; exit 1; }
hosts_are() { [ "$(os resource provider list -f value -c name 2>/dev/null | grep -c '^sim-')" = "$1" ]; }
within 60 "both hosts are resource providers" hosts_are 2

uuid() { "$PYTHON" -c 'import uuid; print(uuid.uuid4())'; }
rp() { os resource provider "$@"; }
value() { "$@" -f value; }

# ------------------------------------------------------------------------------------------ resource classes and traits

same "a resource class is created" "$(os resource class create CUSTOM_PC_CARD; os resource class show CUSTOM_PC_CARD -f value -c name)" CUSTOM_PC_CARD
os resource class set CUSTOM_PC_SLOT
like "resource class set creates a resource class" "$(value os resource class list)" '^CUSTOM_PC_SLOT$'
like "the list of resource classes has the standard classes" "$(value os resource class list)" '^VCPU$'
os resource class delete CUSTOM_PC_SLOT
unlike "a deleted resource class is gone" "$(value os resource class list)" '^CUSTOM_PC_SLOT$'
os trait create CUSTOM_PC_FAST
like "a trait is created" "$(value os trait list)" '^CUSTOM_PC_FAST$'
same "a trait is shown" "$(value os trait show CUSTOM_PC_FAST)" CUSTOM_PC_FAST
os trait create CUSTOM_PC_GONE && os trait delete CUSTOM_PC_GONE
unlike "a deleted trait is gone" "$(value os trait list)" '^CUSTOM_PC_GONE$'

# ------------------------------------------------------------------------------------------------------------ providers

TOP=$(value rp create -c uuid pc-top)
CARD=$(value rp create -c uuid --parent-provider "$TOP" pc-card)
like "a provider has a generation" "$(rp show "$TOP" -f json)" '"generation": 0'
same "a child has its parent and root" "$(value rp show "$CARD" -c parent_provider_uuid -c root_provider_uuid | tr '\n' ' ')" "$TOP $TOP "
like "the list of providers has the child" "$(value rp list -c name)" '^pc-card$'
same "the list of a tree has its two providers only" "$(value rp list --in-tree "$CARD" -c name | sort | tr '\n' ' ')" "pc-card pc-top "
rp set --name pc-sheet "$CARD" >/dev/null
same "a provider is renamed" "$(value rp show "$CARD" -c name)" pc-sheet
OTHER=$(value rp create -c uuid pc-other)
rp delete "$OTHER"
unlike "a deleted provider is gone" "$(value rp list -c name)" '^pc-other$'

# ---------------------------------------------------------------------------------------------------------- inventories

rp inventory set "$TOP" --resource VCPU=8 --resource VCPU:allocation_ratio=2.0 --resource MEMORY_MB=4096 >/dev/null
same "inventories are set" "$(value rp inventory list "$TOP" -c resource_class -c total | sort | tr '\n' ' ')" "MEMORY_MB 4096 VCPU 8 "
rp inventory set "$CARD" --resource CUSTOM_PC_CARD=1 >/dev/null
rp inventory class set "$CARD" CUSTOM_PC_CARD --total 2 --max_unit 1 >/dev/null
like "the inventory of a class is set" "$(rp inventory show "$CARD" CUSTOM_PC_CARD -f json | tr -d '\n')" '"max_unit": 1,.*"total": 2'
rp inventory set "$TOP" --amend --resource DISK_GB=50 >/dev/null
same "an inventory is amended" "$(value rp inventory list "$TOP" -c resource_class | sort | tr '\n' ' ')" "DISK_GB MEMORY_MB VCPU "
rp inventory delete "$TOP" --resource-class DISK_GB
unlike "a deleted inventory is gone" "$(value rp inventory list "$TOP" -c resource_class)" '^DISK_GB$'

# ------------------------------------------------------------------------------------------------ traits and aggregates

rp trait set --trait CUSTOM_PC_FAST --trait HW_CPU_X86_AVX "$TOP" >/dev/null
same "a provider's traits are set" "$(value rp trait list "$TOP" | sort | tr '\n' ' ')" "CUSTOM_PC_FAST HW_CPU_X86_AVX "
AGGREGATE=$(uuid)
GENERATION=$(value rp show "$TOP" -c generation)
rp aggregate set --aggregate "$AGGREGATE" --generation "$GENERATION" "$TOP" >/dev/null
same "a provider's aggregates are set" "$(value rp aggregate list "$TOP")" "$AGGREGATE"
same "providers are found by aggregate and trait" "$(value rp list --member-of "$AGGREGATE" --required CUSTOM_PC_FAST -c name)" pc-top
NODE=$(value rp list -c uuid --name "$(value rp list -c name | grep -m 1 '^sim-')")
os --os-placement-api-version 1.2 resource provider aggregate set --aggregate "$AGGREGATE" "$NODE" >/dev/null
same "at 1.2 a compute node is in an aggregate with another provider" "$(value rp list --member-of "$AGGREGATE" -c uuid | sort)" \
  "$(printf '%s\n' "$TOP" "$NODE" | sort)"
like "a stale generation is refused" "$(rp aggregate set --aggregate "$AGGREGATE" --generation "$GENERATION" "$TOP" 2>&1)" 'generation|conflict|409'

# ------------------------------------------------------------------------------------------- candidates and allocations

like "candidates are found" "$(os allocation candidate list --resource VCPU=2 --resource MEMORY_MB=512 --required CUSTOM_PC_FAST -f json | tr -d '\n')" \
  "\"resource provider\": \"$TOP\""
same "granular groups come from the tree" "$(os allocation candidate list --resource VCPU=2 --required CUSTOM_PC_FAST --group 1 --resource CUSTOM_PC_CARD=1 --group-policy none -f json \
  | "$PYTHON" -c 'import json, sys; print(*sorted({row["resource provider"] for row in json.load(sys.stdin)}))')" "$(printf '%s\n' "$TOP" "$CARD" | sort | tr '\n' ' ' | sed 's/ $//')"
like "nothing is found where nothing fits" "$(os allocation candidate list --resource VCPU=999 -f json | tr -d '\n ')" '^\[\]$'

CONSUMER=$(uuid) PROJECT=$(uuid) USER_ID=$(uuid)
rp allocation set "$CONSUMER" --allocation "rp=$TOP,VCPU=3,MEMORY_MB=256" --allocation "rp=$CARD,CUSTOM_PC_CARD=1" \
  --project-id "$PROJECT" --user-id "$USER_ID" --consumer-type INSTANCE >/dev/null
like "an allocation is shown" "$(rp allocation show "$CONSUMER" -f json | tr -d '\n ')" '"VCPU":3'
like "the usage of a provider counts the allocation" "$(value rp usage show "$TOP")" '^VCPU 3$'
like "the usage of a project counts the allocation" "$(value os resource usage show "$PROJECT")" "'VCPU': 3"
like "a provider shows the consumer of the allocation" "$(rp show --allocations "$TOP" -f json | tr -d '\n')" "$CONSUMER"
like "an allocation of too much is refused" "$(rp allocation set "$(uuid)" --allocation "rp=$TOP,VCPU=99" --project-id "$PROJECT" --user-id "$USER_ID" --consumer-type INSTANCE 2>&1)" \
  'Conflict \(HTTP 409\)'
like "a provider that is in use is not deleted" "$(rp delete "$CARD" 2>&1)" 'allocations|in use|409'
rp allocation unset "$CONSUMER" --provider "$CARD" >/dev/null
unlike "an allocation is unset for one provider" "$(rp allocation show "$CONSUMER" -f json)" "$CARD"
rp allocation set "$CONSUMER" --allocation "rp=$TOP,VCPU=1" --project-id "$PROJECT" --user-id "$USER_ID" --consumer-type INSTANCE >/dev/null
like "another allocation names its project and user" "$(rp allocation show "$CONSUMER" -f json | tr -d '\n ')" "\"project_id\":\"$PROJECT\",\"user_id\":\"$USER_ID\""
same "another allocation replaces the one before" "$(value rp allocation show "$CONSUMER" -c resources)" "{'VCPU': 1}"
# At 1.12 a request names no type of the consumer, and no generation.
old() { os --os-placement-api-version 1.12 resource provider allocation "$@"; }
old set "$CONSUMER" --allocation "rp=$TOP,VCPU=1" --allocation "rp=$CARD,CUSTOM_PC_CARD=1" --project-id "$PROJECT" --user-id "$USER_ID" >/dev/null
same "at 1.12 an allocation has both providers and names its project and user" \
  "$(value old show "$CONSUMER" -c resource_provider -c project_id -c user_id | sort)" "$(printf "%s $PROJECT $USER_ID\n" "$TOP" "$CARD" | sort)"
rp allocation delete "$CONSUMER"
same "a deleted allocation is gone" "$(rp allocation show "$CONSUMER" -f json | tr -d '\n ')" '[]'
like "the provider has no usage any more" "$(value rp usage show "$TOP")" '^VCPU 0$'
same "the other provider has no usage either" "$(value rp usage show "$CARD")" 'CUSTOM_PC_CARD 0'

rp trait delete "$TOP"
same "a provider's traits are deleted" "$(value rp trait list "$TOP")" ''
rp delete "$CARD" && rp delete "$TOP"
unlike "the tree is gone" "$(value rp list -c name)" '^pc-'
verdict
