#!/usr/bin/env bash
# The faults of the network file system that other tests rely on are what they
# claim to be, and can be mended.
source "$(dirname "$0")/../lib.sh"

mib=1048576

# expect_error TEXT COMMAND...: it fails, and says why.
expect_error() {
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then fail "no error: $*"; fi
  [[ $said == *"$text"* ]] || fail "$* says: $said (need $text)"
}
write_mib() { dd if=/dev/zero of="$1" bs=$mib count="$2" conv=fsync status=none; }

echo "-- full"
"$here/storage" full 8
expect_error "No space left" write_mib big 64
"$here/storage" mend
rm big
write_mib big 64

echo "-- read-only, for all and for one node"
"$here/storage" readonly
expect_error "Read-only file system" touch new
"$here/storage" mend
touch new
"$here/view" n1 readonly
expect_error "Read-only file system" on n1 touch from_n1
on n2 touch from_n2
"$here/view" n1 all
on n1 touch from_n1

echo "-- not there on one node"
"$here/view" n1 none
expect_error "No such file" on n1 cat new
on n1 touch lost
"$here/view" n1 all
on n1 cat new
expect_error "No such file" cat lost

echo "-- cached on one node: it sees old data, as long as it has the file open"
# sees_after_change HOST: what it reads of a file that another one changed.
sees_after_change() {
  rm -f changed opened
  echo old >file
  # shellcheck disable=SC2016  # expanded on the host
  on "$1" timeout 60 bash -c 'exec 3<file; read -r line <&3; touch opened
    until [[ -e changed ]]; do sleep 0.1; done; cat file' &
  wait_until 20 test -e opened || fail "$1 does not read"
  printf 'new\n' | on n2 dd of=file conv=notrunc,fsync status=none
  touch changed
  wait $!
}
"$here/view" n1 cached
[[ $(sees_after_change n1) == old ]] || fail "n1 has no cache"
"$here/view" n1 all
[[ $(sees_after_change n1) == new ]] || fail "n1 sees old data"

echo "-- slow"
"$here/storage" slow 2
start=$(date +%s%N)
write_mib slow 1
[[ $(date +%s%N) -ge $((start + 2000000000)) ]] || fail "fsync was not delayed"
"$here/storage" mend

echo "-- power loss"
mkdir run
printf 'old\n' >run/kept
sync run/kept
sync -f run
printf 'new\n' >run/lost
mv run/kept run/renamed
"$here/storage" powerloss
[[ $(<run/renamed) == old ]] || fail "an fsync and a rename are gone"
[[ ! -s run/lost ]] || fail "data without an fsync survived"

echo "-- a store without power, and back"
"$here/poweroff" s1
"$here/poweron" s1
[[ $(<run/renamed) == old ]] || fail "the data of a store is gone"
on n3 test -e run/renamed
