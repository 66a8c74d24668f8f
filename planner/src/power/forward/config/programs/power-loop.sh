#!/bin/sh
# Carries out a saved power plan on Slurm: counts the nodes, asks `tracecast decide power` at the end of every slot how many to power in the next, and has Slurm
# wake nodes or put idle ones to sleep. Run it on the controller as a user that may use scontrol, for instance by the unit of systemd beside it:
#
#   power-loop.sh PLAN [POOL]     PLAN: what `tracecast plan power --save` wrote; POOL: where the plan has several, which one, a partition
#
# Try it first: with POWER_DRY_RUN=1 it counts, asks and says what it would do, and keeps its slots apart; with POWER_ONCE=1 it takes what is so now for the slot
# that has just ended, and stops (with 1 if anything failed). As any user: POWER_ONCE=1 POWER_DRY_RUN=1 POWER_STATE=/tmp/loop power-loop.sh PLAN
#
# slurm.conf needs power saving: the programs of `--emit slurm`, and a SuspendTime longer than nodes are ever idle, such as 2592000 (30 days), so that Slurm
# puts no node to sleep by itself; `--emit slurm,loop` writes it so. Where SuspendTime is -1 or INFINITE for the cluster and for each partition, power saving is off, and nothing here has any effect.
# Slurm wakes nodes for waiting jobs in any case, and lets running jobs end: a node that gets a job as it is told to sleep does so once that has ended.
# Where Slurm or tracecast does not answer, nothing is changed. Stop the loop at any time: nodes stay as they are.
set -u -f
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd) || exit 1
plan=${1:-}
pool=${2:-}

# What the plan says of its nodes, and slurm.conf of their partitions.
planned=0
@pools@
# The environment may set any of these, and so may power-loop.conf and power-loop-POOL.conf beside this program.
POWER_STATE=${POWER_STATE:-/var/lib/tracecast} # the slots since the plan was made are kept here: do not delete them, rules look back on them
POWER_LOG=${POWER_LOG:-}                       # a file for what is done; stderr otherwise
POWER_SAMPLE_S=${POWER_SAMPLE_S:-15}           # how often nodes are counted: what is in use between two counts is not seen
POWER_PARTITION=${POWER_PARTITION:-$pool}      # partitions whose nodes and waiting jobs count, separated by commas
POWER_NODES=${POWER_NODES:-}                   # a host list, where only these nodes count
POWER_KEEP=${POWER_KEEP:-}                     # a host list of nodes that are never put to sleep
POWER_GPUS=${POWER_GPUS:-0}                    # GPUs of a node, by which waiting jobs are counted in nodes; 0: each takes whole nodes
POWER_MOST=${POWER_MOST:-0}                    # most nodes put to sleep in a slot; 0: no limit
POWER_ANSWER_S=${POWER_ANSWER_S:-60}           # how long Slurm and tracecast may take to answer
TRACECAST=${TRACECAST:-tracecast}
for conf in "$here/power-loop.conf" "$here/power-loop-$pool.conf"; do
  if [ -r "$conf" ]; then . "$conf"; fi
done
dry=${POWER_DRY_RUN:-0}
once=${POWER_ONCE:-0}
failed=0
told_fewer=0

say() {
  line="$(date -u +%Y-%m-%dT%H:%M:%SZ) power-loop${pool:+ $pool}: $*"
  if [ -n "$POWER_LOG" ] && printf '%s\n' "$line" 2>/dev/null >>"$POWER_LOG"; then return; fi
  printf '%s\n' "$line" >&2
}
fail() {
  failed=1
  say "ERROR: $*"
}
stop() {
  say "ERROR: $*"
  exit 1
}

case "$plan" in '' | -*) printf 'usage: power-loop.sh PLAN [POOL]\n' >&2 && exit 2 ;; esac
case "$pool" in *[!A-Za-z0-9._-]*) stop "'$pool' is no name of a partition" ;; esac
[ -r "$plan" ] || stop "$plan cannot be read; write it with: tracecast plan power ... --save $plan"
if [ -z "$POWER_PARTITION$POWER_NODES" ] && [ "${POWER_ALL:-0}" != 1 ]; then
  stop "which nodes the plan is of is not known: set POWER_PARTITION or POWER_NODES in $here/power-loop.conf, or POWER_ALL=1 if it is all that Slurm has"
fi
keep=
if [ -n "$POWER_KEEP" ]; then
  keep=$(timeout "$POWER_ANSWER_S" scontrol show hostnames "$POWER_KEEP") || stop "POWER_KEEP is $POWER_KEEP, which is no host list, or scontrol does not run here"
fi

# Every node once, with its state: idle~ sleeps, idle% is on its way to sleep, idle is awake and free. Of all partitions, hidden ones too, where none is named: sinfo takes either -a or -p.
nodes() {
  if [ -n "$POWER_PARTITION" ]; then of="-p $POWER_PARTITION"; else of=-a; fi
  listed=$(timeout "$POWER_ANSWER_S" sinfo -h -N $of ${POWER_NODES:+-n "$POWER_NODES"} -o '%N %T') || return 1
  printf '%s\n' "$listed" | sort -u
}

# Of a listing on stdin how many nodes are in service, in use, and powered. Nodes that are down, drained or do not answer do not count, unless jobs run there. Fails without any.
count() {
  awk '{ base = $2; sub(/[^a-z_].*/, "", base); mark = substr($2, length(base) + 1) }
    base !~ /^(idle|alloc|mix|comp|draining|reserved|planned|blocked)/ { next }
    mark ~ /[*]/ && base !~ /^(alloc|mix|comp|draining)/ { next }
    { total++ }
    base ~ /^(alloc|mix|comp|draining)/ { used++ }
    mark ~ /[~%!]/ { asleep++ }
    END { print total + 0, used + 0, total - asleep; exit (total == 0) }'
}

# Nodes that jobs wait for, by the GPUs that they ask for on each. Without a partition none: nobody says which of the waiting jobs need these nodes.
waiting() {
  if [ -z "$POWER_PARTITION" ]; then
    echo 0
    return
  fi
  jobs=$(timeout "$POWER_ANSWER_S" squeue -h -a -r -t PD -p "$POWER_PARTITION" -o '%D %b %r') || return 1
  printf '%s\n' "$jobs" | awk -v each="$POWER_GPUS" '$3 ~ /^(Resources|Priority|Nodes)/ {
      share = 1
      if (each > 0 && $2 ~ /gpu.*[0-9]$/) { gpus = $2; sub(/.*[^0-9]/, "", gpus); share = gpus / each }
      nodes += $1 * (share < 1 ? share : 1)
    }
    END { whole = int(nodes); print whole + (nodes > whole) }'
}

# The answer of tracecast to slots on stdin, a line each; what is no whole slot, as a full disk leaves it, is left out.
ask() {
  {
    printf '{%s"slots": [' "${pool:+"\"pool\": \"$pool\", "}"
    grep -x '{"at": "[^"]*", "peak": [0-9]*, "last": [0-9]*, "pending": [0-9]*, "total": [0-9]*, "powered": [0-9]*}' | paste -sd, -
    printf ']}'
  } | timeout "$POWER_ANSWER_S" "$TRACECAST" decide power --plan "$plan" -
}
# field NAME, of an answer on stdin
field() {
  sed -n 's/^  "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' | head -n 1
}
# The notes of an answer on stdin, a line each.
notes() {
  sed -n '/^  "notes": \[/,/^  \]/s/^    "\(.*\)",\{0,1\}$/\1/p'
}
time_of() {
  date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ
}

# Keeps a slot: when it began, the most and the last nodes in use, nodes waited for, in service, and powered as it began.
keep_slot() {
  last=$(tail -n 1 "$slots" | sed -n 's/.*"at": "\([^"]*\)".*/\1/p')
  if [ -n "$last" ] && [ "$(date -u -d "$last" +%s)" -ge "$1" ]; then
    say "the slot of $(time_of "$1") is kept already, or one after it"
    return
  fi
  printf '{"at": "%s", "peak": %s, "last": %s, "pending": %s, "total": %s, "powered": %s}\n' "$(time_of "$1")" "$2" "$3" "$4" "$5" "$6" >>"$slots"
}

# some COUNT STATE: up to so many nodes of a state, of a listing on stdin, as a host list. The first of those that sleep; of idle ones the last, as Slurm gives jobs the first, and none that is kept awake.
some() {
  if [ "$2" = idle ]; then end=tail; else end=head; fi
  awk -v state="$2" -v keep="$(echo $keep)" 'BEGIN { count = split(keep, names, " "); for (at = 1; at <= count; at++) kept[names[at]] }
    $2 == state && !($1 in kept) { print $1 }' | "$end" -n "$1" | paste -sd, -
}

# change TO NODES: sets nodes to a state.
change() {
  if [ -z "$2" ]; then return; fi
  if [ "$dry" = 1 ]; then
    say "would run: scontrol update NodeName=$2 State=$1 Reason=power-loop"
  else
    timeout "$POWER_ANSWER_S" scontrol update NodeName="$2" State="$1" Reason=power-loop || {
      fail "scontrol could not set $2 to $1"
      return 1
    }
  fi
}

# Asks how many nodes to power, and has Slurm do it. What cannot be decided changes nothing.
act() {
  answer=$(ask <"$slots") || {
    fail "no decision; nodes stay as they are"
    return
  }
  want=$(printf '%s\n' "$answer" | field powered | awk '/^[0-9]+([.][0-9]+)?$/ { whole = int($1); print whole + ($1 > whole) }')
  held=$(printf '%s\n' "$answer" | field held)
  # What is counted is what is chosen from.
  listed=$(nodes) || listed=
  now=$(printf '%s\n' "$listed" | count) || now=
  if [ -z "$want" ] || [ -z "$now" ]; then
    fail "no count in the answer, or none of Slurm's; nodes stay as they are"
    return
  fi
  set -- $now
  say "$2 of $1 nodes in use, $3 powered; $want to be powered ($held)"
  if [ $(($1 * 10)) -lt $((planned * 9)) ] && [ "$told_fewer" = 0 ]; then
    told_fewer=1
    say "NOTE: $1 nodes in service where the plan is of $planned: are the others down or drained, or do POWER_PARTITION and POWER_NODES leave them out?"
  fi
  printf '%s\n' "$answer" | notes | while read -r note; do say "NOTE: $note"; done
  fewer=$(($3 - want))
  if [ "$POWER_MOST" -gt 0 ] && [ "$fewer" -gt "$POWER_MOST" ]; then fewer=$POWER_MOST; fi
  promised=$(printf '%s\n' "$answer" | field promised_until)
  case "$promised" in ????-??-??T*Z)
    if [ "$fewer" -gt 0 ] && [ "$(date +%s)" -ge "$(date -u -d "$promised" +%s)" ]; then
      say "the promise held until $promised: no node is put to sleep; make a new plan"
      fewer=0
    fi
    ;;
  esac
  # What was ordered for the next slot; what could not be ordered was not.
  order=$3
  if [ "$want" -gt "$3" ]; then
    if change POWER_UP "$(printf '%s\n' "$listed" | some $((want - $3)) 'idle~')"; then order=$want; fi
  elif [ "$fewer" -gt 0 ]; then
    if change POWER_DOWN "$(printf '%s\n' "$listed" | some "$fewer" idle)"; then order=$(($3 - fewer)); fi
  fi
  if [ "$dry" != 1 ]; then echo "$order" >"$slots.order"; fi
}

# end BEGIN PEAK POWERED TOTAL LAST: keeps the slot that ends, and acts. What was ordered for it counts as powered, as nodes may be on their way: not what Slurm woke in it.
end() {
  order=$(cat "$slots.order" 2>/dev/null) || order=0
  case "$order" in '' | *[!0-9]*) order=0 ;; esac
  if [ "$order" -gt "$4" ]; then order=$4; fi
  powered=$3
  if [ "$order" -gt 0 ] && { [ "$once" = 1 ] || [ "$order" -gt "$powered" ]; }; then powered=$order; fi
  wait_for=$(waiting) || {
    fail "squeue does not answer; the slot of $(time_of "$1") is left out, and nodes stay as they are"
    return
  }
  keep_slot "$1" "$2" "$5" "$wait_for" "$4" "$powered" || {
    fail "$slots cannot be written; nodes stay as they are"
    return
  }
  act
}

# When a slot of the plan begins, and how long it is: as the first decision says, which needs no count.
answer=$(ask </dev/null) || stop "tracecast cannot decide by $plan"
from=$(printf '%s\n' "$answer" | field at)
case "$from" in ????-??-??T*Z) ;; *) stop "$plan is of a trace without dates: which slot it is, no clock can tell" ;; esac
from_s=$(date -u -d "$from" +%s) || stop "date does not read $from"
slot_s=$(($(date -u -d "$(printf '%s\n' "$answer" | field until)" +%s) - from_s))
[ "$slot_s" -gt 0 ] || stop "the slots of $plan have no length"

# Slots of another length or beginning are of another plan.
mkdir -p "$POWER_STATE" || stop "$POWER_STATE cannot be made; set POWER_STATE to a folder of this user"
slots=$POWER_STATE/slots${pool:+-$pool}-$slot_s-$((from_s % slot_s))
if [ "$dry" = 1 ]; then slots=$slots-dry; fi
touch "$slots" || stop "$slots cannot be written"
exec 9>"$slots.lock" || stop "$slots.lock cannot be written"
flock -n 9 || stop "another loop keeps $slots; stop it first"

if [ -z "$POWER_PARTITION" ]; then say "NOTE: waiting jobs are not counted, as no partition is named: set POWER_PARTITION"; fi

# The beginning of the slot that the clock is in.
slot_now() {
  now_s=$(date +%s)
  phase=$(((now_s - from_s) % slot_s))
  if [ "$phase" -lt 0 ]; then phase=$((phase + slot_s)); fi
  echo $((now_s - phase))
}
if [ "$once" = 1 ]; then
  if now=$(nodes | count); then
    set -- $now
    end $(($(slot_now) - slot_s)) "$2" "$3" "$1" "$2"
  else
    fail "sinfo names no nodes in service; nothing is decided"
  fi
  exit "$failed"
fi
say "slots of $slot_s s; $(wc -l <"$slots") kept in $slots"
begin_s=$(($(slot_now) + slot_s))
while :; do
  wait_s=$((begin_s - $(date +%s)))
  if [ "$wait_s" -gt 0 ]; then sleep "$wait_s"; fi
  end_s=$((begin_s + slot_s))
  peak=0
  powered=
  now=
  while :; do
    if now=$(nodes | count); then
      set -- $now
      if [ "$2" -gt "$peak" ]; then peak=$2; fi
      powered=${powered:-$3}
    else
      fail "sinfo names no nodes in service"
    fi
    if [ $(($(date +%s) + POWER_SAMPLE_S)) -ge "$end_s" ]; then break; fi
    sleep "$POWER_SAMPLE_S"
  done
  late_s=$(($(date +%s) - end_s))
  # What was counted last must be of the slot's end: nothing is made up for a slot that was slept through, and `decide power` fills it with the one before and says so.
  if [ -n "$now" ] && [ "$late_s" -le "$POWER_SAMPLE_S" ]; then
    end "$begin_s" "$peak" "$powered" "$1" "$2"
  else
    fail "the slot of $(time_of "$begin_s") is left out, and nodes stay as they are"
  fi
  begin_s=$end_s
  if [ $(($(date +%s) - begin_s)) -gt "$POWER_SAMPLE_S" ]; then
    begin_s=$(($(slot_now) + slot_s))
    say "late; the next slot is that of $(time_of "$begin_s")"
  fi
done
