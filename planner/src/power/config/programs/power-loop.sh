#!/bin/sh
# Carries out a saved power plan on Slurm: counts the nodes, asks `tracecast decide power` at the end of every slot how many to power in the next, and has Slurm
# wake nodes or put idle ones to sleep. Run it on the controller as a user that may use scontrol, for instance under systemd (Restart=always):
#
#   power-loop.sh PLAN [POOL]     PLAN: what `tracecast plan power --save` wrote; POOL: where the plan has several, which one, a partition
#
# Try it with POWER_DRY_RUN=1 first: it counts, asks and says what it would do. With POWER_ONCE=1 it takes what is so now for the slot that has just ended, and stops.
#
# slurm.conf needs power saving: the programs of `--emit slurm`, and a SuspendTime longer than nodes are ever idle, such as 2592000 (30 days), so that Slurm
# puts no node to sleep by itself. With SuspendTime=-1 or INFINITE power saving is off, and nothing here would have any effect. Slurm wakes nodes for waiting
# jobs in any case, and lets running jobs end. Stop the loop at any time: nodes stay as they are.
set -u -f
here=$(cd "$(dirname "$0")" && pwd) || exit 1

# A file power-loop.conf beside this program may set any of these.
POWER_STATE=/var/lib/tracecast # the slots since the plan was made are kept here: do not delete them, rules look back on them
POWER_LOG=                     # a file for what is done; stderr otherwise
POWER_SAMPLE_S=15              # how often nodes are counted: what is in use between two counts is not seen
POWER_PARTITION=${2:-}         # the partition whose nodes and waiting jobs count; empty: all
POWER_NODES=                   # a host list, where only these nodes count
POWER_MOST=0                   # most nodes put to sleep in a slot; 0: no limit
TRACECAST=tracecast
if [ -r "$here/power-loop.conf" ]; then . "$here/power-loop.conf"; fi
dry=${POWER_DRY_RUN:-0}
once=${POWER_ONCE:-0}
plan=${1:-}
pool=${2:-}

say() {
  line="$(date -u +%Y-%m-%dT%H:%M:%SZ) power-loop${pool:+ $pool}: $*"
  if [ -n "$POWER_LOG" ] && printf '%s\n' "$line" 2>/dev/null >>"$POWER_LOG"; then return; fi
  printf '%s\n' "$line" >&2
}
stop() {
  say "ERROR: $*"
  exit 1
}

case "$plan" in '' | -*) printf 'usage: power-loop.sh PLAN [POOL]\n' >&2 && exit 2 ;; esac
case "$pool" in *[!A-Za-z0-9._-]*) stop "'$pool' is no name of a partition" ;; esac
[ -r "$plan" ] || stop "$plan cannot be read; write it with: tracecast plan power ... --save $plan"
mkdir -p "$POWER_STATE" || stop "$POWER_STATE cannot be made; set POWER_STATE in $here/power-loop.conf"
slots=$POWER_STATE/slots${pool:+-$pool}.jsonl
touch "$slots" || stop "$slots cannot be written"
# A line that was cut off, when this was stopped as it wrote.
sed -i '/^{.*}$/!d' "$slots"

# Every node once, with its state: idle~ sleeps, idle% is on its way to sleep, idle is awake and free.
nodes() {
  sinfo -h -N ${POWER_PARTITION:+-p "$POWER_PARTITION"} ${POWER_NODES:+-n "$POWER_NODES"} -o '%N %T' | sort -u
}

# From the list of nodes: how many are in service, in use, and powered. Nodes that are down or drained do not count, unless jobs run there.
count() {
  awk '{ base = $2; sub(/[^a-z_].*/, "", base); mark = substr($2, length(base) + 1) }
    base !~ /^(idle|alloc|mix|comp|draining|reserved|planned|blocked)/ { next }
    { total++ }
    base ~ /^(alloc|mix|comp|draining)/ { used++ }
    mark ~ /[~%!]/ { asleep++ }
    END { print total + 0, used + 0, total - asleep }'
}

# Nodes that jobs wait for.
waiting() {
  squeue -h -r -t PD ${POWER_PARTITION:+-p "$POWER_PARTITION"} -o '%D %r' | awk '$2 ~ /^(Resources|Priority|Nodes)/ { nodes += $1 } END { print nodes + 0 }'
}

# The answer of tracecast to slots on stdin, a line each.
ask() {
  { printf '{%s"slots": [' "${pool:+"\"pool\": \"$pool\", "}" && paste -sd, - && printf ']}'; } | "$TRACECAST" decide power --plan "$plan" -
}
# field NAME, of an answer on stdin
field() {
  sed -n 's/^  "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' | head -n 1
}
time_of() {
  date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ
}

# Keeps a slot: when it began, the most and the last nodes in use, nodes waited for, in service, and powered.
keep() {
  last=$(tail -n 1 "$slots" | sed -n 's/.*"at": "\([^"]*\)".*/\1/p')
  if [ -n "$last" ] && [ "$(date -u -d "$last" +%s)" -ge "$1" ]; then
    say "the slot of $(time_of "$1") is kept already, or one after it"
    return
  fi
  printf '{"at": "%s", "peak": %s, "last": %s, "pending": %s, "total": %s, "powered": %s}\n' "$(time_of "$1")" "$2" "$3" "$4" "$5" "$6" >>"$slots"
}

# Up to so many nodes of a state, as a host list.
some() {
  nodes | awk -v state="$2" '$2 == state { print $1 }' | head -n "$1" | paste -sd, -
}

# update STATE NODES
update() {
  if [ -z "$2" ]; then return; fi
  if [ "$dry" = 1 ]; then
    say "would run: scontrol update NodeName=$2 State=$1 Reason=power-loop"
  else
    scontrol update NodeName="$2" State="$1" Reason=power-loop || say "ERROR: scontrol could not set $2 to $1"
  fi
}

# Asks how many nodes to power, and has Slurm do it. What cannot be decided changes nothing.
act() {
  answer=$(ask <"$slots") || {
    say "ERROR: no decision; nodes stay as they are"
    return
  }
  want=$(printf '%s\n' "$answer" | field powered | awk '/^[0-9]+([.][0-9]+)?$/ { whole = int($1); print whole + ($1 > whole) }')
  held=$(printf '%s\n' "$answer" | field held)
  case "$want" in '' | *[!0-9]*) say "ERROR: no count in the answer; nodes stay as they are" && return ;; esac
  set -- $(nodes | count)
  say "$2 of $1 nodes in use, $3 powered; $want to be powered ($held)"
  if [ "$want" -gt "$3" ]; then
    update POWER_UP "$(some $((want - $3)) 'idle~')"
  elif [ "$want" -lt "$3" ]; then
    fewer=$(($3 - want))
    if [ "$POWER_MOST" -gt 0 ] && [ "$fewer" -gt "$POWER_MOST" ]; then fewer=$POWER_MOST; fi
    update POWER_DOWN "$(some "$fewer" idle)"
  fi
}

# When a slot of the plan begins, and how long it is: as the first decision says, which needs no count.
answer=$(ask </dev/null) || stop "tracecast cannot decide by $plan"
from=$(printf '%s\n' "$answer" | field at)
case "$from" in ????-??-??T*Z) ;; *) stop "$plan is of a trace without dates: which slot it is, no clock can tell" ;; esac
from_s=$(date -u -d "$from" +%s) || stop "date does not read $from"
slot_s=$(($(date -u -d "$(printf '%s\n' "$answer" | field until)" +%s) - from_s))
[ "$slot_s" -gt 0 ] || stop "the slots of $plan have no length"

# end BEGIN PEAK TOTAL LAST POWERED: keeps the slot that ends, and acts. A controller that does not answer names no node; such a slot is left out, which `decide power` fills with
# the one before and says so.
end() {
  if [ "$3" -gt 0 ]; then
    keep "$1" "$2" "$4" "$(waiting)" "$3" "$5"
    act
  else
    say "ERROR: sinfo names no nodes in service; nothing is decided"
  fi
}

# The slot that the clock is in.
now_s=$((($(date +%s) - from_s) / slot_s * slot_s + from_s))
if [ "$once" = 1 ]; then
  set -- $(nodes | count)
  end $((now_s - slot_s)) "$2" "$@"
  exit 0
fi
say "slots of $slot_s s; $(wc -l <"$slots") kept in $slots"
begin_s=$((now_s + slot_s))
while :; do
  wait_s=$((begin_s - $(date +%s)))
  if [ "$wait_s" -gt 0 ]; then sleep "$wait_s"; fi
  end_s=$((begin_s + slot_s))
  peak=0
  while :; do
    set -- $(nodes | count)
    if [ "$2" -gt "$peak" ]; then peak=$2; fi
    if [ $(($(date +%s) + POWER_SAMPLE_S)) -ge "$end_s" ]; then break; fi
    sleep "$POWER_SAMPLE_S"
  done
  end "$begin_s" "$peak" "$@"
  begin_s=$end_s
done
