#!/usr/bin/env bash
# check.sh PACKAGES: installs the Debian packages of a folder, uses them as their
# users do, and removes them, each group in a root of its own. A root has what
# the packages say that they depend on and no more of what this machine has, so
# that a missing dependency shows; clean_root.py makes it, without downloads.
# Nothing outside the roots changes. Needs root; exits with 77 where namespaces
# are not permitted.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
packages=$(cd "$1" && pwd)

say() { echo "check.sh: $*"; }

if [[ -z ${BELAY_CHECK_INSIDE:-} ]]; then
  if ! unshare --mount --propagation private true 2>/dev/null; then
    say "skipped: namespaces are not permitted here"
    exit 77
  fi
  exec env BELAY_CHECK_INSIDE=1 unshare --mount --propagation private \
    bash "${BASH_SOURCE[0]}" "$@"
fi

# On the file system of /usr, for hard links.
work=$(mktemp -d /var/tmp/belay-check.XXXXXX)
trap leave EXIT

leave() {
  umount --recursive --lazy "$work/root" 2>/dev/null || true
  umount --lazy "$work/memory" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}

in_root() {
  chroot "$work/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# quietly COMMAND...: shows the output only if the command fails.
quietly() {
  "$@" >"$work/log" 2>&1 </dev/null || { cat "$work/log"; return 1; }
}

# make_root PACKAGE...: a root at $work/root that has these packages of Debian,
# and whose writes stay in memory.
make_root() {
  local name
  mkdir "$work"/{clean,memory,root}
  mount -t tmpfs -o mode=755 tmpfs "$work/memory"
  mkdir "$work"/memory/{upper,overlay}
  python3 -B "$here/clean_root.py" "$work/clean" "$@" >/dev/null
  mount -t overlay overlay "$work/root" -o "lowerdir=$work/clean" \
    -o "upperdir=$work/memory/upper,workdir=$work/memory/overlay"
  for name in proc sys dev; do mount --rbind "/$name" "$work/root/$name"; done
  mount -t tmpfs -o mode=1777 tmpfs "$work/root/tmp"
  # Nothing waits for the disk, and no manuals are left out.
  mkdir -p "$work/root/etc/dpkg/dpkg.cfg.d"
  echo force-unsafe-io >"$work/root/etc/dpkg/dpkg.cfg.d/belay-check"
  in_root ldconfig
}

# depends FILE...: what the packages depend on, but for each other.
depends() {
  local file
  for file in "$@"; do dpkg-deb --field "$file" Depends; done |
    tr ',' '\n' | sed 's/^ *//; s/[ |(].*//; /belay/d; /^$/d' | sort -u
}

# Nothing is left of the packages, nor of what their use has made beside them.
remove_packages() {
  local left
  quietly in_root dpkg --purge "$@"
  left=$(in_root find / -xdev -name '*belay*' -not -path '/tmp/*' \
    -not -path '*/belay-check')
  [[ -z $left ]] || { say "left after removal: $left"; return 1; }
}

# check_group NAME PACKAGE... -- OTHERS...: the packages in a root that has what
# they depend on, and others of Debian; NAME is what use.sh does.
check_group() {
  local group=$1 names=() files=() needed begin=$SECONDS name
  shift
  for name in "$@"; do
    [[ $name != -- ]] || break
    names+=("$name")
    files+=("$packages/$name"_*.deb)
  done
  shift $((${#names[@]} + 1))
  mapfile -t needed < <(depends "${files[@]}")
  make_root "${needed[@]}" "$@"
  mkdir "$work/root/tmp/check"
  cp "$here/use.sh" "$work/root/tmp/check"
  cp -r "$source_dir"/{tests/consumer,tests/golden/format_1_0,examples} \
    "$work/root/tmp/check"
  cp "${files[@]}" "$work/root/tmp"
  quietly in_root dpkg --install "${files[@]/#$packages//tmp}"
  in_root bash /tmp/check/use.sh "$group"
  remove_packages "${names[@]}"
  leave
  mkdir "$work"
  say "$group: ${names[*]} installed, used, removed in $((SECONDS - begin)) s"
}

check_group tools libbelay0 belay-tools -- man-db
check_group python libbelay0 python3-belay --
check_group development libbelay0 libbelay-dev libbelay-fortran0 \
  libbelay-fortran-dev -- g++ gfortran cmake make pkg-config openmpi-bin
