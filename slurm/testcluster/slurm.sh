# shellcheck shell=bash
# Sourced: munge and Slurm 22.05. Needs common.sh. In the head only.

munge_socket=$state/munge/socket

# One munged for all hosts, with a key of its own: hosts share this file system,
# and a socket works across the namespaces.
start_munge() {
  local at=$state/munge
  munge -S "$munge_socket" -n >/dev/null 2>&1 && return
  install -d -o munge -g munge -m 755 "$at"
  if [[ ! -s $at/key ]]; then
    rm -f "$at/key.new"
    install -m 400 -o munge -g munge <(head -c 1024 /dev/urandom) "$at/key.new"
    mv "$at/key.new" "$at/key"
  fi
  rm -f "$munge_socket"*
  runuser -u munge -- munged --socket="$munge_socket" --key-file="$at/key" \
    --log-file="$at/log" --pid-file="$at/pid" --seed-file="$at/seed"
}

write_slurm_settings() {
  slurm_settings >"$state/slurm.conf"
  # slurmd looks for cgroups even if nothing uses them, and finds none here.
  echo "CgroupPlugin=cgroup/v1" >"$state/cgroup.conf"
  # The default is /tmp, which all hosts share: their files would collide.
  # Slurm 22.05 has two kinds of fences. Mixed, as by default, one of them lets
  # ranks out of MPI_Init before the last one can receive: that one crashes.
  cat >"$state/mpi.conf" <<END_OF_SETTINGS
PMIxCliTmpDirBase=$local_disk
PMIxCollFence=ring
END_OF_SETTINGS
}

slurm_settings() {
  cat <<END_OF_SETTINGS
ClusterName=$cluster
SlurmctldHost=head($(address_of head))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$munge_socket
CredType=cred/munge
StateSaveLocation=$state/slurmctld
SlurmdSpoolDir=$local_disk/slurmd
SlurmctldPidFile=$state/pid/slurmctld
SlurmdPidFile=$local_disk/slurmd.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/%n-slurmd.log
JobCompType=jobcomp/filetxt
JobCompLoc=$state/log/jobs.txt
AccountingStorageType=accounting_storage/none
MailProg=/bin/true

# Neither systemd nor cgroups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix

# The nodes claim more than the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PropagateResourceLimits=NONE

# A dead node is found in about 15 seconds, and is used again when it is back.
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
KillWait=5
WaitTime=5
# As strict as a site may be: the scripts of the tests ask srun for less.
KillOnBadExit=1
InactiveLimit=0
ReturnToService=2
TreeWidth=64

# Jobs start at once, and again if their node died or a better one came.
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
END_OF_SETTINGS
  local node
  for node in "${nodes[@]}"; do
    echo "NodeName=$node NodeAddr=$(address_of "$node") CPUs=4 RealMemory=2000"
  done
  cat <<END_OF_PARTITIONS
PartitionName=low Nodes=ALL Default=YES State=UP MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=5
PartitionName=high Nodes=ALL State=UP MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
END_OF_PARTITIONS
}

start_slurmctld() {
  scontrol ping >/dev/null 2>&1 && return
  mkdir -p "$state/slurmctld"
  slurmctld -f "$state/slurm.conf"
}

start_slurmd() {
  on "$1" pgrep -x slurmd >/dev/null && return
  on "$1" mkdir -p "$local_disk/slurmd"
  on "$1" slurmd -N "$1" -f "$state/slurm.conf"
}

# Up, and known to be so.
node_serves() {
  [[ $(sinfo -h -p low -n "$1" -o %t 2>/dev/null) =~ ^(idle|mix|alloc|comp)$ ]]
}

wait_for_nodes() {
  local node
  for node in "$@"; do
    wait_until 30 node_serves "$node" ||
      { sinfo -N >&2; die "Slurm does not use $node; see $state/log"; }
  done
}
