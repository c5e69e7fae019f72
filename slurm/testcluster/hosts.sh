# shellcheck shell=bash
# Sourced: starts hosts and connects them. Needs common.sh.

# write_names: the names and addresses that all hosts know. No name server.
write_names() {
  local host
  {
    echo "127.0.0.1 localhost"
    for host in head "${nodes[@]}" "${stores[@]}"; do
      echo "$(address_of "$host") $host"
    done
  } >"$state/hosts"
  : >"$state/resolv.conf"
}

# start_host HOST: new namespaces with host-init in them. Outside for the head,
# in the head for the others. Does nothing if it is up.
start_host() {
  if ! host_is_up "$1"; then
    rm -f "$state/pid/$1" "$state/pid/$1.ready"
    mkdir -p "$state/pid" "$state/log" "$local_disk" "$shared"
    mkdir -p -m 0700 "$disks"
    mkdir -p "$disks/$1"
    setsid unshare --net --uts --ipc --pid --mount --fork "$here/host-init" \
      "$1" </dev/null >"$state/log/$1.log" 2>&1 9<&- &
  fi
  wait_until 20 test -e "$state/pid/$1.ready" ||
    { cat "$state/log/$1.log" >&2; die "$1 did not start"; }
}

# The switch is a bridge in the head, which has its own address on it. With
# fixed hardware addresses nobody has to ask again after a host came back.
start_switch() {
  ip link set lo up
  ip link show br0 >/dev/null 2>&1 ||
    ip link add br0 address 02:00:00:00:00:01 type bridge stp_state 0 \
      forward_delay 0
  ip address replace "$(address_of head)/24" dev br0
  ip link set br0 up
}

# plug_in HOST: a cable from the host's eth0 to port p-HOST of the switch. The
# address comes last: a host that has it is plugged in.
plug_in() {
  local host=$1 address
  address=$(address_of "$host")
  on "$host" ip -o address show dev eth0 2>/dev/null |
    grep -qF " $address/" && return
  straighten_cable "$host"
  ip link del "p-$host" 2>/dev/null || true # of the host's last life
  ip link add "p-$host" type veth peer name eth0 \
    address "02:00:00:00:00:${address##*.}" netns "$(first_process_of "$host")"
  ip link set "p-$host" master br0 up
  on "$host" ip link set lo up
  on "$host" ip link set eth0 up
  on "$host" ip address add "$address/24" dev eth0
}

# straighten_cable HOST: takes out what `delay` put between host and switch.
straighten_cable() {
  [[ -s $state/pid/$1.wire ]] || return 0
  kill "$(<"$state/pid/$1.wire")" 2>/dev/null || true
  ip link del "b-$1" 2>/dev/null || true
  rm "$state/pid/$1.wire"
}

cut_cable() { ip link set "p-$1" down; }
mend_cable() { ip link set "p-$1" up; }

# boot HOST: also mends its cable if it is up already.
boot() {
  start_host "$1"
  plug_in "$1"
  mend_cable "$1"
}
