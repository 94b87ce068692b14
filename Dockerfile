# rlzoo in a container: CPU by default, CUDA by build argument.
#   scripts/build_docker.sh               scripts/run_docker_cpu.sh rlzoo train --algo ppo --env CartPole-v1
#   USE_CUDA=1 scripts/build_docker.sh    scripts/run_docker_gpu.sh rlzoo train --algo ppo --env CartPole-v1

FROM python:3.11-slim-bookworm

# Which build of PyTorch: cpu, a CUDA version such as cu128, or empty for the default build, which brings CUDA.
# PyTorch carries its CUDA libraries with it, so the base image is the same for all.
ARG TORCH_BACKEND=cpu

# OpenGL without a display, for videos.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1 libgl1-mesa-dri libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*
ENV MUJOCO_GL=egl \
    PYTHONUNBUFFERED=1 \
    UV_NO_CACHE=1 \
    UV_SYSTEM_PYTHON=1

WORKDIR /opt/rlzoo
RUN pip install --no-cache-dir uv

# PyTorch first, in a layer of its own: it is most of the image and changes least.
COPY constraints.txt ./
RUN uv pip install ${TORCH_BACKEND:+--torch-backend=$TORCH_BACKEND} --constraints constraints.txt torch

COPY pyproject.toml README.md LICENSE ./
COPY rlzoo rlzoo
COPY hyperparams hyperparams
COPY trained_agents trained_agents
COPY benchmarks benchmarks
RUN uv pip install ${TORCH_BACKEND:+--torch-backend=$TORCH_BACKEND} --constraints constraints.txt .

# Runs are written to /runs, which the scripts mount from the folder they are called in.
RUN useradd --create-home trainer && mkdir /runs && chown trainer /runs
USER trainer
WORKDIR /runs
CMD ["rlzoo", "--help"]
