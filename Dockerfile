# rlzoo in a container: CPU by default, CUDA by build argument.
#   scripts/build_docker.sh               scripts/run_docker_cpu.sh rlzoo train --algo ppo --env CartPole-v1
#   USE_CUDA=1 scripts/build_docker.sh    scripts/run_docker_gpu.sh rlzoo train --algo ppo --env CartPole-v1

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# ---- build: packages go into /opt/venv, the only thing that the image takes from here

# hadolint ignore=DL3006 # its tag is in the argument
FROM ${PYTHON_IMAGE} AS build

# Which build of PyTorch: cpu, a CUDA version such as cu128, or empty for the default build, which brings CUDA.
# PyTorch carries its CUDA libraries with it, so the base image is the same for all.
ARG TORCH_BACKEND=cpu
# Extras of rlzoo: compose.yaml needs these two.
ARG EXTRAS=postgresql,dashboard
ARG UV_VERSION=0.13.9

ENV UV_NO_CACHE=1 \
    UV_COMPILE_BYTECODE=1 \
    VIRTUAL_ENV=/opt/venv
WORKDIR /opt/rlzoo
RUN pip install --no-cache-dir "uv==${UV_VERSION}" && uv venv --python python3 /opt/venv

# PyTorch first, in a separate layer: it is most of the image and changes least.
COPY constraints.txt ./
RUN uv pip install ${TORCH_BACKEND:+--torch-backend=$TORCH_BACKEND} --constraints constraints.txt torch

COPY pyproject.toml README.md LICENSE ./
COPY rlzoo rlzoo
COPY hyperparams hyperparams
COPY trained_agents trained_agents
COPY benchmarks benchmarks
RUN uv pip install ${TORCH_BACKEND:+--torch-backend=$TORCH_BACKEND} --constraints constraints.txt ".[${EXTRAS}]"

# ---- the image

# hadolint ignore=DL3006 # its tag is in the argument
FROM ${PYTHON_IMAGE}

# OpenGL without a display, for videos. Debian keeps only the newest version of a package, so a pinned one
# would end the build at the next security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1 libgl1-mesa-dri libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*

COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    MUJOCO_GL=egl \
    PYTHONUNBUFFERED=1

# Runs are written to /runs, which the scripts mount from the folder they are called in.
RUN useradd --create-home --uid 1000 trainer && mkdir /runs && chown trainer /runs
USER 1000
WORKDIR /runs
CMD ["rlzoo", "--help"]
