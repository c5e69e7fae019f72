# shellcheck shell=bash
# Sourced by every script of the test cluster: its names, its places, and how to
# get into one of its hosts.
#
# The cluster is a tree of namespaces. `head` is the outermost host: its first
# process was started by `up`, and all others live in its PID namespace. So its
# scripts see every process of the cluster and none outside, and killing one
# process ends everything. What `up` mounts is mounted in its mount namespace.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../.ci/packages.sh"

# Whatever the name, these directories are those of a test cluster: `down`
# removes them.
cluster=belay-testcluster${BELAY_TESTCLUSTER:+-$BELAY_TESTCLUSTER}
[[ $cluster =~ ^[a-z][a-z0-9-]*$ ]] ||
  die "BELAY_TESTCLUSTER=$BELAY_TESTCLUSTER is no name (need a-z, 0-9 and -)"
state=/run/$cluster      # everything but the disks; in memory on most machines
# One directory per host: its own disk. In a folder where only root makes files:
# whoever could make this one first would choose where root mounts and writes.
disks=/var/lib/$cluster
shared=$state/shared     # the network file system, on head and the nodes
local_disk=$state/local  # on every host its own disk

nodes=(n1 n2 n3 n4)  # where jobs run
stores=(s1 s2)       # where the network file system keeps its data
subnet=10.88.0       # used inside the namespaces only

# The status of a command that cannot run here at all, as in CTest and Automake.
readonly skip_status=77

# logs_in BUILD: those of this cluster; others may be tested at the same time.
logs_in() { echo "$1/cluster-test${BELAY_TESTCLUSTER:+-$BELAY_TESTCLUSTER}"; }

usage_error() { echo "usage: ${0##*/} $*" >&2; exit 2; }

is_node() { [[ " ${nodes[*]} " == *" $1 "* ]]; }
is_store() { [[ " ${stores[*]} " == *" $1 "* ]]; }
need_host() {
  [[ $1 == head ]] || is_node "$1" || is_store "$1" ||
    die "no such host: $1 (there are head ${nodes[*]} ${stores[*]})"
}
# Those that have a cable and a switch of their own.
need_machine() {
  is_node "$1" || is_store "$1" ||
    die "no such machine: $1 (there are ${nodes[*]} ${stores[*]})"
}

address_of() {
  case $1 in
    head) echo "$subnet.1" ;;
    n*) echo "$subnet.$((10 + ${1#n}))" ;;
    s*) echo "$subnet.$((20 + ${1#s}))" ;;
  esac
}

# A host's file holds the number of its first process and its PID namespace;
# both are compared, because numbers are used again.
host_is_up() {
  local pid namespace
  [[ -s $state/pid/$1 ]] || return 1
  read -r pid namespace <"$state/pid/$1"
  [[ $(readlink "/proc/$pid/ns/pid" 2>/dev/null) == "$namespace" ]]
}

first_process_of() {
  local pid
  read -r pid _ <"$state/pid/$1"
  echo "$pid"
}

inside_head() {
  local namespace
  [[ -s $state/pid/head ]] || return 1
  read -r _ namespace <"$state/pid/head"
  [[ $(readlink /proc/self/ns/pid) == "$namespace" ]]
}

# What every process of the cluster has in its environment. Slurm hands it on
# from sbatch and srun to the jobs, mpirun to its ranks.
cluster_environment() {
  local mca=(
    mpi_yield_when_idle=1           # more ranks than cores
    rmaps_base_oversubscribe=1
    btl=self,vader,tcp pml=ob1 osc=^ucx
    "btl_tcp_if_include=$subnet.0/24" "oob_tcp_if_include=$subnet.0/24"
    # A silent peer is noticed in about ten seconds, not in five minutes.
    oob_tcp_keepalive_time=5 oob_tcp_keepalive_intvl=2
    oob_tcp_keepalive_probes=3
    io=romio321
  )
  printf '%s\n' "SLURM_CONF=$state/slurm.conf" "TMPDIR=$local_disk" \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    "${mca[@]/#/OMPI_MCA_}"
}

# enter_head ARGUMENTS OF THE SCRIPT: goes on in the head, where the script is
# started again unless it runs there already.
enter_head() {
  inside_head && return
  [[ $(id -u) -eq 0 ]] || die "needs root"
  host_is_up head || die "the cluster is down; bring it up with $here/up"
  local settings
  mapfile -t settings < <(cluster_environment)
  exec nsenter -t "$(first_process_of head)" -m -u -i -n -p -- \
    env -C "$PWD" "${settings[@]}" "$here/${0##*/}" "$@"
}

# on HOST COMMAND...: runs a command on a host, in the same directory if it
# exists there. In the head only.
on() {
  local host=$1
  shift
  if [[ $host == head ]]; then
    "$@"
    return
  fi
  host_is_up "$host" || die "$host is powered off"
  # shellcheck disable=SC2016  # expanded on the host
  nsenter -t "$(first_process_of "$host")" -m -u -i -n -p -- \
    sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}

# wait_until SECONDS COMMAND...: tries it ten times a second.
wait_until() {
  local tries=$(($1 * 10))
  shift
  while ((tries-- > 0)); do
    "$@" && return
    sleep 0.1
  done
  return 1
}

# hold_lock: nobody else may bring this cluster up or down until the script
# ends. A process that shall live longer must not inherit file 9.
hold_lock() {
  while :; do
    mkdir -p "$state"
    exec 9<"$state"
    flock -w 120 9 ||
      die "another script holds $state; try again, or set BELAY_TESTCLUSTER" \
        "to another name"
    # The holder before may have removed the directory.
    [[ $state -ef /dev/fd/9 ]] && return
  done
}
