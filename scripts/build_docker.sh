#!/bin/sh
# Build the image rlzoo:cpu, or rlzoo:cuda with USE_CUDA=1 (TORCH_BACKEND=cu128 and the like choose a CUDA version).
set -eu
cd "$(dirname "$0")/.."
if [ "${USE_CUDA:-0}" = 1 ]; then
  tag=rlzoo:cuda backend=${TORCH_BACKEND:-}
else
  tag=rlzoo:cpu backend=cpu
fi
exec docker build --build-arg TORCH_BACKEND="$backend" --tag "$tag" "$@" .
