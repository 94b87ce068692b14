"""A limit on the parameters that networks are built with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from rlzoo.core.errors import UserError

_NO_MEMORY = ("can't allocate memory", "out of memory", "overflowed", "Overflow when unpacking")
"""What PyTorch says where the system refuses memory, and where a size is no machine number."""


class TooManyParameters(UserError):
    """Networks ask for more parameters than they may have."""


@contextmanager
def parameter_budget(max_bytes: int, max_tensors: int | None = None) -> Iterator[None]:
    """Refuse parameters beyond a limit while networks are built in this thread.

    A layer's tensors are counted when it registers them, so before they are initialised: until then the
    system has only promised their memory. Copies (`copy.deepcopy`) and lazy layers, whose sizes are not known
    yet, are not counted.

    :raises TooManyParameters: the parameters made inside the block take more than `max_bytes`, or are more
        than `max_tensors` tensors
    """
    n_bytes = n_tensors = 0
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal n_bytes, n_tensors
        if parameter is None or is_lazy(parameter) or threading.get_ident() != thread:
            return
        n_bytes += parameter.numel() * parameter.element_size()
        n_tensors += 1
        if n_bytes > max_bytes:
            raise TooManyParameters(f"the networks need {n_bytes / 1e6:,.0f} MB or more for their parameters")
        if max_tensors is not None and n_tensors > max_tensors:
            raise TooManyParameters(f"the networks have more than {max_tensors:,} parameter tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if any(sign in str(error) for sign in _NO_MEMORY):
            raise TooManyParameters("the networks need more memory than there is") from error
        raise
    finally:
        handle.remove()
