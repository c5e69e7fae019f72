# shellcheck shell=bash
# Sourced by ./dev and by the test cluster: says what happens, and installs the
# Debian packages that a command needs.

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# may_install PACKAGE...: asks before packages are installed that start services.
# Where nobody can be asked, BELAY_INSTALL=yes is the answer.
may_install() {
  local package missing=() answer=${BELAY_INSTALL:-}
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 && $answer != yes ]] || return 0
  if [[ -z $answer ]] && { : </dev/tty; } 2>/dev/null; then
    read -rp "Install ${missing[*]}, some of which start services? [y/N] " \
      answer </dev/tty
    [[ ! $answer =~ ^[Yy] ]] || return 0
  fi
  die "not installed: ${missing[*]}; install them, or set BELAY_INSTALL=yes"
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
