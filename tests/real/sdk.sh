#!/bin/bash
# Calls every public method of the SDK's compute proxy at least once, on a simulated fleet. See tests/testbed/sdk.py.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
command -v openstack >/dev/null || cannot "no openstack client on the PATH"
sim_open sdk '[DEFAULT]' 'reclaim_instance_interval = 3600' '[volume]' 'shared = true' '[chronova]' 'hypervisors = sim://3'
"$(dirname "$(readlink -f "$(command -v openstack)")")/python3" "$HERE/sdk.py" || FAILED=1
verdict
