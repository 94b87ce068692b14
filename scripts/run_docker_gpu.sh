#!/bin/sh
# Run a command in the CUDA image with every GPU; the current folder is /runs inside, so logs/ stays here.
#   scripts/run_docker_gpu.sh rlzoo train --algo ppo --env CartPole-v1
set -eu
if [ -t 0 ]; then terminal=-it; else terminal=-i; fi
exec docker run --rm "$terminal" --init --ipc=host --gpus all --user "$(id -u):$(id -g)" --env HOME=/tmp \
  --volume "$PWD:/runs" rlzoo:cuda "$@"
