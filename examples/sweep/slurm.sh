#!/bin/sh
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --requeue

# One part of a sweep for each task of a Slurm array:
#
#   sbatch slurm.sh workload:mlperf-dlrm-dcnv2 --gpus 4,8,16,32 --set devices_per_host=8 --gpu a100-80,h100-80
#   neuroshard sweep join parts/*.jsonl
#
# A requeued task continues its own file. The array must start at 1, because --part counts
# from 1.
set -eu
mkdir -p parts
exec neuroshard sweep "$@" --set "threads=${SLURM_CPUS_PER_TASK:-0}" --part \
	"$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" -o "parts/$SLURM_ARRAY_TASK_ID.jsonl"
