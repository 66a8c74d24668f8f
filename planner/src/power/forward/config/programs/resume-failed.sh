#!/bin/sh
# Told of nodes that did not wake within ResumeTimeout: ResumeFailProgram of slurm.conf. Slurm has set them down and put their jobs back in the
# queue. It logs them; power.conf may set POWER_MAIL to an address that is told.
@common@
POWER_MAIL=${POWER_MAIL:-}
if [ -z "${1:-}" ]; then
  say "no nodes named, nothing to do"
  exit 0
fi
say "ERROR: did not wake within ResumeTimeout: $1 (scontrol update NodeName=$1 State=RESUME once they are mended)"
if [ -n "$POWER_MAIL" ]; then
  printf 'These nodes did not wake within ResumeTimeout: %s\n' "$1" | mail -s "Nodes did not wake: $1" "$POWER_MAIL" ||
    say "ERROR: $POWER_MAIL could not be told"
fi
