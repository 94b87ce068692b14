"""Writers of ONNX and TorchScript files."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import BinaryIO

import torch

from rlzoo.core.errors import NotInstalled, install_command
from rlzoo.export.description import Description, as_strings
from rlzoo.export.policy_module import PolicyModule

ONNX_PACKAGES = ("onnx", "onnxscript")
OLDEST_TORCH = "2.11"
"""Its exporter accepts several inputs; that of 2.9 fails with two."""
EXAMPLES = 2  # observations in the batch that a graph is recorded with; a batch of one can become a constant
METADATA_FILE = "metadata.json"
"""The extra file of a TorchScript archive that holds the metadata."""


def require_onnx() -> None:
    """Check that the packages that write ONNX files are installed.

    :raises NotInstalled: one is missing, or PyTorch is too old
    """
    if torch.__version__ < OLDEST_TORCH:  # TorchVersion compares as a version
        raise NotInstalled(
            f"ONNX files need PyTorch {OLDEST_TORCH} or newer, and this is {torch.__version__}:"
            f" {install_command('onnx')}"
        )
    if missing := [name for name in ONNX_PACKAGES if find_spec(name) is None]:
        raise NotInstalled(f"ONNX files need {' and '.join(missing)}: {install_command('onnx')}")


def write_onnx(module: PolicyModule, description: Description, file: BinaryIO) -> None:
    """Write an ONNX model whose batch axes are dynamic, with the metadata in its `metadata_props`.

    :raises NotInstalled: a package is missing
    """
    require_onnx()
    batch = torch.export.Dim("batch")
    axes = tuple({port.batch_axis: batch} for port in module.inputs)
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            module,
            module.examples(EXAMPLES),
            input_names=[port.name for port in module.inputs],
            output_names=[port.name for port in module.outputs],
            dynamic_shapes=(axes,),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props.update(as_strings(description))
    program.save(file)  # type: ignore[arg-type]  # takes binary files, too


def write_torchscript(module: PolicyModule, description: Description, file: BinaryIO) -> None:
    """Write a TorchScript archive, for Python and C++, with the metadata in the extra file metadata.json.

    >>> extra = {"metadata.json": ""}
    >>> policy = torch.jit.load("policy.pt", _extra_files=extra)  # doctest: +SKIP
    """
    with torch.no_grad(), _quiet():
        traced = torch.jit.trace(module, module.examples(EXAMPLES))
        torch.jit.save(traced, file, _extra_files={METADATA_FILE: json.dumps(description)})


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of PyTorch's exporters that do not concern the policy."""
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
