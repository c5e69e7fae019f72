# shellcheck shell=bash
# Sourced: the network file system, GlusterFS with hand-written volume files and
# no management daemon. Needs common.sh. In the head only.
#
# The data is on the stores, so that a dead node takes none of it along. Each
# store keeps its half in a file system of its own on a loop device, which can
# fill up, lose its power and be slow without harm to anybody else. The locks of
# a node that has died are freed after twenty-five seconds: its job is started
# again before, as on most clusters.

brick_mount=$local_disk/brick
brick_port=24100

write_volumes() {
  local store
  mkdir -p "$state/volumes"
  for store in "${stores[@]}"; do
    brick_volume "$store" >"$state/volumes/$store.vol"
  done
  client_volume >"$state/volumes/client.vol"
}

brick_volume() {
  cat <<END_OF_VOLUME
volume disk
  type storage/posix
  option directory $brick_mount/data
  option reserve 0
end-volume
volume locks
  type features/locks
  subvolumes disk
end-volume
volume brick
  type performance/io-threads
  option thread-count 4
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address $(address_of "$1")
  option transport.socket.listen-port $brick_port
  option auth.addr.brick.allow *
  option transport.tcp-user-timeout 25
  option transport.socket.keepalive-time 15
  option transport.socket.keepalive-interval 5
  option transport.socket.keepalive-count 2
  subvolumes brick
end-volume
END_OF_VOLUME
}

# Whole files are spread over the stores by their names alone. Where a store
# seems full, GlusterFS would place a new file on the other one and leave a link
# behind, as long as it remembers; a host that asks for the name in this moment
# may wait for ever for an answer.
client_volume() {
  local store
  for store in "${stores[@]}"; do
    cat <<END_OF_VOLUME
volume $store
  type protocol/client
  option transport-type tcp
  option remote-host $(address_of "$store")
  option remote-port $brick_port
  option remote-subvolume brick
  option ping-timeout 5
end-volume
END_OF_VOLUME
  done
  cat <<END_OF_VOLUME
volume all
  type cluster/distribute
  option min-free-disk 0%
  option min-free-inodes 0%
  subvolumes ${stores[*]}
end-volume
END_OF_VOLUME
}

# mount_brick STORE: makes the file system the first time.
mount_brick() {
  local image=$local_disk/brick.img
  on "$1" mountpoint -q "$brick_mount" && return
  if [[ ! -e $disks/$1/brick.img ]]; then
    on "$1" truncate -s "${BELAY_TESTCLUSTER_STORE:-8G}" "$image.new"
    on "$1" mkfs.ext4 -q -F -m 0 -E lazy_itable_init=1,nodiscard "$image.new"
    on "$1" mv "$image.new" "$image"
  fi
  on "$1" mkdir -p "$brick_mount"
  # GlusterFS answers an fsync of a directory without doing it. With dirsync
  # every change of a directory is on disk when it returns.
  on "$1" mount -o loop,dirsync "$image" "$brick_mount"
  on "$1" mkdir -p "$brick_mount/data"
}

# drop_unwritten HOST MOUNT: what no fsync had asked to write is lost, as when
# the power fails: an ext4 shuts down at once, without writing its journal.
drop_unwritten() {
  on "$1" /usr/bin/python3 -c '
import fcntl, os, struct, sys
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
directory = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
' "$2"
}

# knows_bricks HOST: it is connected to every store.
knows_bricks() {
  local store
  for store in "${stores[@]}"; do
    on "$1" grep -q '^connected = 1' \
      "$shared/.meta/graphs/active/$store/private" || return
  done
}

# A client that lost a store tries again every few seconds, and after a silent
# one only when a try has timed out.
wait_for_clients() {
  local host
  for host in head "${nodes[@]}"; do
    if host_is_up "$host" && sees_shared "$host"; then
      wait_for_stores "$host"
    fi
  done
}

wait_for_stores() {
  wait_until 60 knows_bricks "$1" 2>/dev/null ||
    die "$1 does not find the stores; see $state/log/$1-shared.log"
}

# Mounting again brings the journal up to date, and makes the file system
# writable whatever it was before.
mount_brick_again() {
  stop_brick "$1"
  on "$1" umount "$brick_mount"
  start_brick "$1"
}

brick_answers() { on "$1" ss -Hltn "sport = :$brick_port" | grep -q .; }

start_brick() {
  mount_brick "$1"
  brick_answers "$1" && return
  on "$1" glusterfsd -f "$state/volumes/$1.vol" -l "$state/log/$1-brick.log" \
    -p "$local_disk/brick.pid"
  wait_until 20 brick_answers "$1" || die "no brick on $1; see $state/log"
}

stop_brick() {
  on "$1" pkill -KILL -x glusterfsd || true
  wait_until 10 brick_is_gone "$1" || die "the brick on $1 does not die"
}
brick_is_gone() { ! on "$1" pgrep -x glusterfsd >/dev/null; }

# sees_shared HOST: what is mounted there last, if it answers or not.
sees_shared() {
  # shellcheck disable=SC2016  # awk's variables
  [[ $(on "$1" awk -v at="$shared" '$2 == at { type = $3 } END { print type }' \
    /proc/self/mounts) == fuse.glusterfs ]]
}

# mount_shared HOST [yes|no]: without the kernel's cache, so that each host sees
# at once what another wrote. With it, a reader that has a file open gets old
# data for ever, even if it opens the file again.
mount_shared() {
  local direct=enable
  sees_shared "$1" && return
  [[ ${2:-${BELAY_TESTCLUSTER_CACHE:-no}} == yes ]] && direct=disable
  on "$1" glusterfs -f "$state/volumes/client.vol" \
    -l "$state/log/$1-shared.log" --direct-io-mode="$direct" \
    --attribute-timeout=0 --entry-timeout=0 "$shared"
  wait_for_stores "$1"
}
