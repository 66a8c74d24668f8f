#!/bin/sh
# Wakes the nodes of a host list: ResumeProgram of slurm.conf. slurmctld runs it as SlurmUser, with the host list as its only argument.
# It need not wait for the nodes: Slurm does, up to ResumeTimeout. It may be run again for a node that is awake already.
# Try it by hand first: resume.sh n1
@common@
all on "${1:-}"
if [ -n "$failed" ] || [ "$unnamed" = 1 ]; then
  say "ERROR: not woken:$failed"
  for node in $failed; do
    # Its jobs go back to the queue at once, and not only after ResumeTimeout.
    scontrol update NodeName="$node" State=DOWN Reason="$name: cannot be switched on" ||
      say "ERROR: $node could not be set down"
  done
  exit 1
fi
