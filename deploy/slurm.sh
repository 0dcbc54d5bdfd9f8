#!/bin/bash
# Training on Slurm, in one job: workers on all tasks, the submitter in this script; requeued until it has ended well.
# Not run on a real Slurm yet: tests/deploy runs it with a stand-in for srun and scontrol.
#
#   worker.py --new-key --key-file ~/cluster.key
#   sbatch deploy/slurm.sh -m dnn.model --dataset digits --epochs 20
#
#SBATCH --job-name=psgd
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the time is up Slurm sends USR1 to the tasks of srun (not to this script): the workers save their state
# and leave, the submitter ends with code 1, and the job goes back into the queue. Started anew, it goes on where it was.
set -u

key=${PSGD_KEY_FILE:-$HOME/cluster.key}
shared=${PSGD_RENDEZVOUS:-$HOME/.local/state/psgd/rendezvous/slurm-$SLURM_JOB_ID}
export PSGD_RENDEZVOUS=$shared
mkdir -p -m 700 "$shared"

srun psgd-worker --from=slurm --listen=0.0.0.0 --key-file="$key" --grace=100 &
workers=$!

# the id of the job of the last try, which its workers have kept the checkpoints of
if [ -s "$shared/job" ]; then set -- --resume "$(cat "$shared/job")" "$@"; fi

psgd-submit --launch=slurm --key-file="$key" --checkpoint-every=epoch --json "$@" >"$shared/result.json"
code=$?
cat "$shared/result.json"

kill -USR1 "$workers" 2>/dev/null # srun passes it on; the workers that are still there leave
wait "$workers"

if [ "$code" = 1 ] && grep -q ' left: ' "$shared/result.json"; then # the time was up; what failed otherwise would fail again
    sed -n 's/.*"job": "\([^"]*\)".*/\1/p' "$shared/result.json" >"$shared/job"
    if [ -s "$shared/job" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then exec scontrol requeue "$SLURM_JOB_ID"; fi
fi
exit "$code"
