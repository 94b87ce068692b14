"""`rlzoo export`: an agent as a file that runs without rlzoo."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from rlzoo.algorithms.base import Algorithm
from rlzoo.config import run as names
from rlzoo.config.hyperparams import merge
from rlzoo.config.run import ExportConfig
from rlzoo.core.errors import UserError, unknown
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.experiment.factories import build_evaluation_env, check_env_arguments, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.export.description import Description, describe
from rlzoo.export.export_files import require_onnx, write_onnx, write_torchscript
from rlzoo.export.html_page import write_html
from rlzoo.export.layers import as_text, layers_document
from rlzoo.export.policy_module import PolicyModule
from rlzoo.io.atomic import atomic_write, check_writable
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import with_agent_file


def write_json(module: PolicyModule, description: Description, file: BinaryIO) -> None:
    """Write the layers of a policy; see `layers_document`."""
    file.write(as_text(layers_document(module, description)).encode())


WRITERS: dict[str, Callable[[PolicyModule, Description, BinaryIO], None]] = {
    "onnx": write_onnx,
    "torchscript": write_torchscript,
    "json": write_json,
    "html": write_html,
}


def export_model(model: Algorithm, path: str | os.PathLike[str], to: str = "onnx") -> Path:
    """Write the complete deterministic policy of an agent to a file that runs without rlzoo.

    The file computes `model.predict(obs, deterministic=True)`, VecNormalize and VecTransposeImage included:
    inputs are raw observations of the environment, outputs are actions that it executes. The metadata of the
    file give the names and shapes of the inputs and the order of stacked frames.

    >>> export_model(model, "policy.onnx")  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("policy.onnx")  # doctest: +SKIP
    >>> (actions,) = session.run(None, {"observation": obs})  # obs: [batch, ...]  # doctest: +SKIP

    :param model: an agent; the wrappers of its environment become part of the file
    :param path: the file, written atomically
    :param to: "onnx", "torchscript", "json" (the weights of an MLP) or "html" (a page where the agent plays)
    :return: the file
    :raises UserError: there is no such format, or the policy cannot be written in it
    """
    check_format(to)
    module = PolicyModule(model)
    description = describe(model, module)
    written = io.BytesIO()  # a failed export then leaves no folder behind
    WRITERS[to](module, description, written)
    with atomic_write(path) as file:
        file.write(written.getbuffer())
    return Path(path)


def check_format(to: str) -> None:
    """Check that a format is known and that its packages are installed.

    :raises UserError: there is no such format, or a package is missing
    """
    if to not in WRITERS:
        raise unknown("format", to, WRITERS)
    if to == "onnx":
        require_onnx()


def export(config: ExportConfig) -> Path:
    """Export an agent as `rlzoo export` does, and print the path of the file.

    :raises UserError: there is no such agent, or it cannot be written in this format
    """
    check_format(config.to)
    play, to = with_agent_file(config.play), config.to
    config = replace(config, play=play)
    import_packages(play.gym_packages, play.env_id)
    agent = run_folder.find_agent(play)
    values = merge(agent.hyperparams, {"env_kwargs": play.env_kwargs})
    resolved = resolve_config(play.algo, values, trusted=False)
    ensure_registered(play.env_id)
    check_env_arguments(resolved, play.env_id)
    if to == "html" and (resolved.env_kwargs or resolved.eval_env_kwargs or resolved.env_wrappers):
        raise UserError(f"a page runs the plain {play.env_id}, without env_kwargs and wrappers")
    path = _output(config)
    check_writable(path)
    venv = build_evaluation_env(resolved, play.env_id, 1, play.seed, "dummy")
    try:
        export_model(load_model(resolved, agent.path, venv, "cpu"), path, to)
    finally:
        venv.close()
    print(f"exported {agent.path} to {path} ({path.stat().st_size / 1000:,.0f} kB)")
    return path


def _output(config: ExportConfig) -> Path:
    """Return the path of the file: in the folder, or the file, of `-o`; else in the working directory."""
    output = Path(config.output)
    if config.output.endswith(("/", os.sep)):
        output.mkdir(parents=True, exist_ok=True)
    if config.output and not output.is_dir():
        return output
    name = f"{config.play.algo}-{names.safe_name(config.play.env_id)}"
    return output / (name + names.EXPORT_SUFFIXES[config.to])
