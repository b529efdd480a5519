#!/usr/bin/env bash
# A SLURM cluster of one node, this machine, for tests: munge, slurmctld and slurmd from Debian's packages.
#
#   tools/one_node_slurm.sh start FOLDER     their files lie in FOLDER; needs root
#   tools/one_node_slurm.sh stop FOLDER      stops what was started there, by its process ids
#
# slurm.conf must lie in /etc/slurm, where job steps look for it. One that this script did not write is left alone. The
# node counts one GPU without having one, so that jobs that ask for a GPU are placed, one at a time.
set -euo pipefail
usage="usage: tools/one_node_slurm.sh start|stop FOLDER"
[ $# = 2 ] || { echo "$usage" >&2; exit 2; }
mkdir -p "$2"
folder=$(cd "$2" && pwd)
conf=/etc/slurm/slurm.conf
gres=/etc/slurm/gres.conf
mark="# written by tools/one_node_slurm.sh"

start() {
  for program in munged slurmctld slurmd squeue; do
    command -v $program >/dev/null || { echo "$program is missing; allowed: apt-get install munge slurm-wlm" >&2; exit 3; }
  done
  [ "$(id -u)" = 0 ] || { echo "user = $(id -un); allowed: root, as SLURM's daemons start jobs for users" >&2; exit 3; }
  for file in $conf $gres; do
    if [ -e $file ] && ! grep -q "^$mark" $file; then
      echo "$file = another cluster's; allowed: a machine without one" >&2; exit 3
    fi
  done
  chmod 755 "$folder"
  mkdir -p "$folder/state" "$folder/spool" /etc/slurm
  dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 2>/dev/null
  chmod 400 "$folder/munge.key"
  munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
  local memory
  memory=$(($(awk '/MemTotal/{print $2}' /proc/meminfo) / 1024 * 9 / 10))
  cat > $conf <<CONF
$mark
ClusterName=one
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SchedulerParameters=sched_interval=2,batch_sched_delay=1
KillWait=2
MinJobAge=300
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  printf '%s\nNodeName=%s Name=gpu Count=1 File=/dev/null\n' "$mark" "$(hostname -s)" > $gres
  slurmctld -c
  slurmd -c
  for _ in $(seq 30); do
    if [ "$(sinfo -h -o %t 2>/dev/null | head -1)" = idle ]; then echo "one node is idle; its files: $folder"; return; fi
    sleep 1
  done
  echo "no node after 30 s; see $folder/slurmctld.log and slurmd.log" >&2
  stop
  exit 1
}

stop() {
  for daemon in slurmd slurmctld munged; do
    [ -e "$folder/$daemon.pid" ] || continue
    pid=$(cat "$folder/$daemon.pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
    rm -f "$folder/$daemon.pid"
  done
  for file in $conf $gres; do
    if [ -e $file ] && grep -q "^$mark" $file; then rm -f $file; fi
  done
}

case "$1" in
  start) start ;;
  stop) stop ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
