set -u -f
here=$(cd "$(dirname "$0")" && pwd) || exit 1
name=$(basename "$0")

# A file power.conf beside this program may set any of these.
POWER_LOG=/var/log/slurm/power.log         # every action goes here, and to syslog
POWER_HOOK=$here/site-power                # where it is executable: run as `site-power on|off NODE` instead of ipmitool
POWER_BMC_SUFFIX=-bmc                      # node n1 is switched by the management controller n1-bmc
POWER_BMC_USER=admin
POWER_BMC_PASSWORD_FILE=$here/bmc-password # readable by SlurmUser alone
POWER_OFF=soft                             # how ipmitool switches off: soft asks the system to shut down, off cuts the power
POWER_TRIES=3                              # how often a node is tried
POWER_PARALLEL=16                          # nodes switched at a time
if [ -r "$here/power.conf" ]; then . "$here/power.conf"; fi

say() {
  printf '%s %s[%s]: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$name" "$$" "$*" >>"$POWER_LOG" 2>/dev/null ||
    printf '%s[%s]: %s\n' "$name" "$$" "$*" >&2
  if command -v logger >/dev/null 2>&1; then logger -t "$name" -- "$*" || :; fi
}

# switch on|off NODE, once
switch_once() {
  if [ -x "$POWER_HOOK" ]; then
    "$POWER_HOOK" "$1" "$2"
  else
    verb=on
    if [ "$1" = off ]; then verb=$POWER_OFF; fi
    ipmitool -I lanplus -H "$2$POWER_BMC_SUFFIX" -U "$POWER_BMC_USER" -f "$POWER_BMC_PASSWORD_FILE" chassis power "$verb"
  fi
}

# switch on|off NODE, with tries
switch() {
  try=1
  while :; do
    if answer=$(switch_once "$1" "$2" 2>&1 </dev/null); then
      say "power $1 $2: done${answer:+: $answer}"
      return 0
    fi
    say "power $1 $2: try $try of $POWER_TRIES failed${answer:+: $answer}"
    if [ "$try" -ge "$POWER_TRIES" ]; then return 1; fi
    try=$((try + 1))
    sleep 1
  done
}

# all on|off HOSTLIST: switches every node; the names of those that failed go to $failed
all() {
  if [ -z "${2:-}" ]; then
    say "power $1: no nodes named, nothing to do"
    exit 0
  fi
  nodes=$(scontrol show hostnames "$2") || {
    say "ERROR: power $1 $2: not a host list, or scontrol does not run here"
    exit 1
  }
  state=$(mktemp -d) || {
    say "ERROR: power $1 $2: no temporary folder"
    exit 1
  }
  trap 'rm -rf "$state"' EXIT
  say "power $1 $2"
  running=0
  for node in $nodes; do
    case $node in
    -* | *[!A-Za-z0-9._-]*)
      say "ERROR: power $1: '$node' is no name of a node"
      : >"$state/unnamed"
      continue
      ;;
    esac
    { switch "$1" "$node" || : >"$state/node.$node"; } &
    running=$((running + 1))
    if [ "$running" -ge "$POWER_PARALLEL" ]; then
      wait
      running=0
    fi
  done
  wait
  failed=
  set +f
  for file in "$state"/node.*; do
    if [ -e "$file" ]; then failed="$failed ${file##*/node.}"; fi
  done
  set -f
  if [ -e "$state/unnamed" ]; then unnamed=1; else unnamed=0; fi
}
