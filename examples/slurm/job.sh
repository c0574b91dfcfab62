#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One element of a Slurm array: its share of a manifest's tasks.
#
# usage: sbatch --array=0-7 job.sh MANIFEST.jsonl OUT [OPTION of 'remora batch']...
#
# Submit it again, as it is, until 'remora merge OUT' misses nothing: what is done is skipped, and what was interrupted
# goes on. A task that is in work when the time limit comes is saved two minutes before it.
#SBATCH --job-name=remora
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --open-mode=append
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: sbatch --array=0-7 job.sh MANIFEST.jsonl OUT [OPTION]..." >&2
  exit 64
fi
manifest=$1
out=$2
shift 2
# exec, so that Slurm's signals reach remora itself.
exec remora batch "$manifest" --out "$out" --threads "${SLURM_CPUS_PER_TASK:-1}" "$@"
