# shellcheck shell=bash
# Sourced: the network file system, GlusterFS with hand-written volume files and
# no management daemon. Needs common.sh. In the head only.
#
# The data is on the stores, so that a dead node takes none of it along. Each
# store keeps its half in a file system of its own on a loop device, which can
# fill up, lose its power and be slow without harm to anybody else.

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
  subvolumes brick
end-volume
END_OF_VOLUME
}

# Whole files are spread over the stores by their names.
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
  subvolumes ${stores[*]}
end-volume
END_OF_VOLUME
}

# mount_brick STORE: makes the file system the first time.
mount_brick() {
  local image=$local_disk/brick.img
  on "$1" mountpoint -q "$brick_mount" && return
  if [[ ! -e $disks/$1/brick.img ]]; then
    on "$1" truncate -s "${BELAY_TESTCLUSTER_STORE:-8G}" "$image"
    on "$1" mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard "$image"
  fi
  on "$1" mkdir -p "$brick_mount"
  on "$1" mount -o loop "$image" "$brick_mount"
  on "$1" mkdir -p "$brick_mount/data"
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

sees_shared() {
  [[ $(on "$1" stat -f -c %T "$shared" 2>/dev/null) == fuseblk ]]
}

# mount_shared HOST: without the kernel's cache, so that each host sees at once
# what another wrote. BELAY_TESTCLUSTER_CACHE=yes turns the cache on: then a
# reader that had a file open may get old data for ever, as on some real ones.
mount_shared() {
  local direct=enable
  sees_shared "$1" && return
  [[ ${BELAY_TESTCLUSTER_CACHE:-no} == yes ]] && direct=disable
  on "$1" glusterfs -f "$state/volumes/client.vol" \
    -l "$state/log/$1-shared.log" --direct-io-mode="$direct" \
    --attribute-timeout=0 --entry-timeout=0 "$shared"
  wait_until 20 sees_shared "$1" ||
    die "$1 does not see $shared; see $state/log/$1-shared.log"
}
