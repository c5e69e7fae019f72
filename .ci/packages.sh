# shellcheck shell=bash
# Sourced by ./dev and by the test cluster: says what happens, and installs the
# Debian packages that a command needs.

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# need PACKAGE...: installs those that are missing.
need() {
  command -v dpkg-query >/dev/null ||
    die "this is not Debian; install what matches: $*"
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  say "installing: ${missing[*]}"
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      die "neither root nor sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  # Another installation may be running: wait for its end.
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3
    -o DPkg::Lock::Timeout=300)
  quietly "${as_root[@]}" update
  quietly "${as_root[@]}" install -y --no-install-recommends "${missing[@]}"
}

# quietly COMMAND...: shows the output only if the command fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [[ $status -eq 0 ]] || { cat "$log" >&2; say "failed: $*"; }
  rm -f "$log"
  return $status
}
