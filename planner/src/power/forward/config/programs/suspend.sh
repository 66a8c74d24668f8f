#!/bin/sh
# Puts the nodes of a host list to sleep: SuspendProgram of slurm.conf. slurmctld runs it as SlurmUser, with the host list as its only argument.
# Try it by hand first: suspend.sh n1
@common@
all off "${1:-}"
if [ -n "$failed" ] || [ "$unnamed" = 1 ]; then
  # They stay powered, which wastes energy and hurts no job: Slurm takes them for powered down and wakes them as it would the others.
  say "ERROR: still powered:$failed"
  exit 1
fi
