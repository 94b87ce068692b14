"""Random numbers of all environments, or of a whole batch, on every rank, of which each uses its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

LIKE = {torch.randn_like: torch.randn, torch.rand_like: torch.rand}
OF_SHAPE = (torch.randn, torch.rand)
RANDINT: tuple[Callable[..., Any], ...] = (torch.randint,)
IN_PLACE = (Tensor.exponential_, Tensor.normal_, Tensor.uniform_, Tensor.bernoulli_)


class GlobalNoise(TorchFunctionMode):
    """Inside, random tensors [n_local, ...] are rows of those that one process would draw, [n_all, ...].

    All ranks start from the same state of the generator, and leave it in the same state.

    :param n_local: environments of this rank, or transitions of a batch that it has
    :param n_all: those of all ranks
    :param rows: positions of this rank's among all of them
    """

    def __init__(self, n_local: int, n_all: int, rows: slice | Tensor) -> None:
        super().__init__()
        self.n_local, self.n_all, self.rows = n_local, n_all, rows

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function in LIKE and self._is_batch(args[0].shape):
            like = args[0]
            options = {"dtype": like.dtype, "device": like.device, **kwargs}
            return self._own(LIKE[function](self._all(like.shape), **options))
        if function in OF_SHAPE and not isinstance(args[0], int) and self._is_batch(args[0]):
            return self._own(function(self._all(args[0]), *args[1:], **kwargs))
        if function in OF_SHAPE and isinstance(args[0], int) and self._is_batch(args):
            return self._own(function(self._all(args), **kwargs))
        if function in RANDINT and self._is_batch(args[-1]):
            return self._own(function(*args[:-1], self._all(args[-1]), **kwargs))
        if function in IN_PLACE and self._is_batch(args[0].shape):
            drawn = args[0].new_empty(self._all(args[0].shape))
            function(drawn, *args[1:], **kwargs)
            return args[0].copy_(self._own(drawn))
        return function(*args, **kwargs)

    def _is_batch(self, shape: object) -> bool:
        return isinstance(shape, tuple) and len(shape) > 0 and shape[0] == self.n_local

    def _all(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (self.n_all, *shape[1:])

    def _own(self, drawn: Tensor) -> Tensor:
        return drawn[self.rows]
