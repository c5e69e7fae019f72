# shellcheck shell=bash
# Sourced by up: what the cluster needs to be allowed to do. Needs common.sh.

refusals=()

# probe WHAT COMMAND...: remembers what is not permitted, and the reason.
probe() {
  local what=$1 reason
  shift
  reason=$("$@" 2>&1 >/dev/null) || refusals+=("$what (${reason##*$'\n'})")
}

# check_refusals: ends with status 77 and every reason if there was any.
check_refusals() {
  [[ ${#refusals[@]} -eq 0 ]] && return
  local refusal
  for refusal in "${refusals[@]}"; do say "not permitted here: $refusal"; done
  exit "$skip_status"
}

is_root() {
  [[ $(id -u) -eq 0 ]] || { echo "user $(id -un)" >&2; return 1; }
}

open_device() { : <>"$1"; }

# With what every Debian has, before anything is installed.
probe_namespaces() {
  local kind
  probe "being root" is_root
  check_refusals
  for kind in net uts ipc pid mount; do
    probe "a new $kind namespace" unshare "--$kind" --fork true
  done
  check_refusals
  probe "mounting in a mount namespace" \
    unshare --mount mount -t tmpfs tmpfs /mnt
  probe "setting a host name" unshare --uts hostname probe
  probe "opening the FUSE device" open_device /dev/fuse
  check_refusals
}

probe_devices() {
  probe "a bridge" unshare --net ip link add br0 type bridge
  probe "a pair of network devices" unshare --net ip link add type veth
  probe "a loop device" losetup --find
  check_refusals
}
