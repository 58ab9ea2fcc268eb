# Runs tempest; sourced by tests/real/tempest.sh and tests/soak/tempest_services.sh.
#
#   tempest_install                      installs tempest into the Python environment TEMPEST_VENV (default: .venv-tempest
#                                        in the repository), unless it is there
#   tempest_furnish FOLDER CLOUDS NAME=VALUE...   makes a workspace in FOLDER, and creates what tempest expects in the
#                                        first cloud of the clouds.yaml CLOUDS; see tests/tempest/furnish.py
#   tempest_set FOLDER KEY=VALUE...      gives settings in tempest.conf other values
#   tempest_run FOLDER OPTION...         runs the tests that these options of `tempest run` select, for at most
#                                        TEMPEST_SECONDS (default: 1100), TEMPEST_WORKERS at a time (default: 1)
#   tempest_verdict FOLDER PASSES [part] compares the results with lists (tests/tempest/verdict.py). FOLDER/result.txt gets
#                                        one line for each test

TEMPEST=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tempest" && pwd)
TEMPEST_ENVIRONMENT=${TEMPEST_VENV:-$(cd "$TEMPEST/../.." && pwd)/.venv-tempest}
# The versions are from the same date, because newer ones do not work with this tempest.
TEMPEST_PACKAGES=("setuptools<70" tempest==33.0.0 oslo.utils==6.3.0 oslo.log==5.4.0 oslo.concurrency==5.3.0 oslo.config==9.3.0
  oslo.serialization==5.3.0 stestr==4.0.1 testtools==2.6.0 fixtures==4.1.0 cliff==4.5.0 extras)

tempest_install() {
  [ -x "$TEMPEST_ENVIRONMENT/bin/tempest" ] \
    || { python3 -m venv "$TEMPEST_ENVIRONMENT" && "$TEMPEST_ENVIRONMENT/bin/pip" install --quiet --disable-pip-version-check "${TEMPEST_PACKAGES[@]}"; }
}

tempest_furnish() { # folder, clouds.yaml, values...
  mkdir "$1/locks"
  (cd "$1" && "$TEMPEST_ENVIRONMENT/bin/tempest" init ws --workspace-path "$1/workspaces.yaml" >"$1/init.log" 2>&1) \
    || { cat "$1/init.log"; return 1; }
  python3 "$TEMPEST/furnish.py" "$2" "$TEMPEST/tempest.conf.in" "$1/ws/etc/tempest.conf" WORK="$1" "${@:3}"
}

tempest_set() { # folder, settings...
  local setting
  for setting in "${@:2}"; do
    sed -i "s|^${setting%%=*} = .*|${setting%%=*} = ${setting#*=}|" "$1/ws/etc/tempest.conf"
  done
}

tempest_run() { # folder, options...
  (
    cd "$1/ws" || exit 1
    timeout -k 30 -s INT "${TEMPEST_SECONDS:-1100}" "$TEMPEST_ENVIRONMENT/bin/tempest" run --config-file "$1/ws/etc/tempest.conf" --workspace ws \
      --workspace-path "$1/workspaces.yaml" "${@:2}" --concurrency "${TEMPEST_WORKERS:-1}" --subunit >"$1/run.subunit" 2>"$1/run.err"
  )
  # The exit status says whether any test failed, but the caller compares the results with its lists.
  [ -s "$1/run.subunit" ] || { tail -n 20 "$1/run.err"; return 1; }
}

tempest_verdict() { # folder, list, part
  "$TEMPEST_ENVIRONMENT/bin/python" "$TEMPEST/verdict.py" "$1/run.subunit" "$1/result.txt" "$2" "$TEMPEST/exceptions.txt" "${@:3}"
}
