"""The formats of exported policies, as files."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, BinaryIO

import torch

from rlzoo.core.errors import NotInstalled, install_command
from rlzoo.export.description import as_texts
from rlzoo.export.policy_module import PolicyModule

ONNX_PACKAGES = ("onnx", "onnxscript")
OLDEST_TORCH = "2.11"
"""Its exporter takes inputs of any number: that of 2.9 stumbles over two."""
EXAMPLES = 2  # observations in the batch that a graph is recorded with; a batch of one can become a constant
METADATA_FILE = "metadata.json"
"""The extra file of a TorchScript archive that holds the metadata."""


def require_onnx() -> None:
    """Check that the packages that write ONNX files are there.

    :raises NotInstalled: names those that are not, or a PyTorch that is too old
    """
    if torch.__version__ < OLDEST_TORCH:  # a version, which compares as one
        raise NotInstalled(
            f"ONNX files need PyTorch {OLDEST_TORCH} or newer, and this is {torch.__version__}:"
            f" {install_command('onnx')}"
        )
    if missing := [name for name in ONNX_PACKAGES if find_spec(name) is None]:
        raise NotInstalled(f"ONNX files need {' and '.join(missing)}: {install_command('onnx')}")


def write_onnx(module: PolicyModule, description: dict[str, Any], file: BinaryIO) -> None:
    """Write an ONNX model whose batch axes are dynamic, with the metadata in its `metadata_props`.

    :raises NotInstalled: a package is missing
    """
    require_onnx()
    batch = torch.export.Dim("batch")
    axes = tuple({port.batch_axis: batch} for port in module.inputs)
    with torch.no_grad(), _quiet():
        program: Any = torch.onnx.export(
            module,
            module.examples(EXAMPLES),
            input_names=[port.name for port in module.inputs],
            output_names=[port.name for port in module.outputs],
            dynamic_shapes=(axes,),
            dynamo=True,
            verbose=False,
        )
    program.model.metadata_props.update(as_texts(description))
    program.save(file)


def write_torchscript(module: PolicyModule, description: dict[str, Any], file: BinaryIO) -> None:
    """Write a TorchScript archive, which runs in C++, too, with the metadata in the extra file metadata.json.

    >>> extra = {"metadata.json": ""}
    >>> policy = torch.jit.load("policy.pt", _extra_files=extra)  # doctest: +SKIP
    """
    with torch.no_grad(), _quiet():
        traced: Any = torch.jit.trace(module, module.examples(EXAMPLES))
        torch.jit.save(traced, file, _extra_files={METADATA_FILE: json.dumps(description)})


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what PyTorch's exporters say of themselves rather than of the policy."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns that torchvision is not installed
    try:
        with warnings.catch_warnings():
            for message, category in (
                ("`torch.jit", DeprecationWarning),  # TorchScript was asked for
                (r"`isinstance\(treespec", FutureWarning),  # torch.onnx calling torch
                ("# The axis name: batch will not be used", UserWarning),  # all inputs have one batch axis
                ("While compiling, we found certain side effects", UserWarning),  # distributions hold tensors
                ("torch.as_tensor results are registered", torch.jit.TracerWarning),  # spaces are constant
            ):
                warnings.filterwarnings("ignore", message, category)
            yield
    finally:
        logger.setLevel(level)
