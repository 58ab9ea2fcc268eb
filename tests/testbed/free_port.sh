# free_port   prints a TCP port that no program uses; sourced by the scripts of tests/real and tests/testbed.
#
# The port is below the range from which the kernel takes the ports of outgoing connections, so no connection gets it
# before the caller listens. That does not hold if the range starts at 12000 or below. A link in $TMPDIR/chronova-ports
# reserves the port until the calling script ends, so two scripts that ask at the same time get different ports.

free_port() {
  local low port holder place=${TMPDIR:-/tmp}/chronova-ports
  read -r low _ </proc/sys/net/ipv4/ip_local_port_range
  [ "$low" -gt 12000 ] || low=60000
  mkdir -p "$place"
  for _ in $(seq 1000); do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % (low - 10000)))
    holder=$(readlink "$place/$port") && ! kill -0 "$holder" 2>/dev/null && rm -f "$place/$port"
    ln -s $$ "$place/$port" 2>/dev/null || continue
    python3 -c 'import socket, sys; socket.socket().bind(("", int(sys.argv[1])))' "$port" 2>/dev/null && { echo "$port"; return; }
    rm -f "$place/$port"
  done
  echo "free_port: every port that was tried is in use" >&2
  return 1
}
