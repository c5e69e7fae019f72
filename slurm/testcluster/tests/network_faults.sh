#!/usr/bin/env bash
# The faults of cables that other tests rely on are what they claim to be, and
# can be mended.
source "$(dirname "$0")/../lib.sh"

cd /  # not on the network, or to enter a host would wait for it
controller=/dev/tcp/$(address_of head)/6817
reaches() { on "$1" timeout "$2" bash -c "<$controller" 2>/dev/null; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

echo "-- cut"
reaches n1 5 || fail "n1 does not reach the controller"
"$here/link" n1 down
if reaches n1 2; then fail "the cable is not cut"; fi
"$here/link" n1 up
wait_until 10 reaches n1 1 || fail "the cable is not mended"

echo "-- later: a connection needs a frame each way"
"$here/delay" n1 100000
wait_until 10 reaches n1 3 || fail "n1 is not connected"
start=$(now_ms)
reaches n1 10 || fail "the connection was lost"
[[ $(now_ms) -ge $((start + 200)) ]] || fail "no frame came later"
"$here/delay" n1 off
wait_until 10 reaches n1 1 || fail "the cable is not as before"

echo "-- narrow: 4 MiB at 16 Mbit/s take two seconds"
"$here/rate" n2 16mbit
start=$(now_ms)
on n2 dd if=/dev/zero of="$work/narrow" bs=1M count=4 conv=fsync status=none
[[ $(now_ms) -ge $((start + 1500)) ]] || fail "the rate was not limited"
"$here/rate" n2 off

echo "-- a node without power, and back, also with a slow cable"
"$here/delay" n3 1000
"$here/poweroff" n3
if host_is_up n3; then fail "n3 has power"; fi
"$here/poweron" n3
[[ $(srun -w n3 hostname) == n3 ]] || fail "n3 does not run jobs again"
