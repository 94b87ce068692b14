"""Networks of several trainings as batched products; tensors have a first axis, n, over the trainings.

The parameters of a training are one vector [P] (`FlatParameters`). The vectors of n trainings are copied into
a matrix [n, P], of which the weights [n, out, in] and biases [n, out] of the layers are views.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.accel.fast_mlp import BACKWARD, FORWARD, IN_PLACE, has_hooks
from rlzoo.accel.flat_parameters import ParameterGroup

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Leaves = list[Tensor]
"""Parameters of n trainings, [n, *shape] each, in the order of the vector."""


class Layout:
    """Where the parameters of a module are in its vector.

    :param parameters: of one of the trainings
    :param merged: parameters have a first axis, m, over networks; leaves are [n * m, ...], copied
    """

    def __init__(self, parameters: ParameterGroup, merged: bool = False) -> None:
        self.merged = merged
        self.shapes = [parameter.shape for parameter in parameters.parameters]
        self.sizes = [parameter.numel() for parameter in parameters.parameters]
        self._index = {id(parameter): k for k, parameter in enumerate(parameters.parameters)}

    def index(self, parameter: Tensor) -> int:
        """Return the position of a parameter among the leaves."""
        return self._index[id(parameter)]

    def leaves(self, matrix: Tensor) -> Leaves:
        """Return the parameters in the rows of a matrix [n, P], as views."""
        n = len(matrix)
        columns = matrix.split(self.sizes, 1)
        if self.merged:
            return [
                column.reshape(n * shape[0], *shape[1:])
                for column, shape in zip(columns, self.shapes, strict=True)
            ]
        return [column.view(n, *shape) for column, shape in zip(columns, self.shapes, strict=True)]


def stack_vectors(parameters: Iterable[ParameterGroup]) -> Tensor:
    """Return a copy of the parameters of n trainings, [n, P]."""
    return torch.stack([group.vector.detach() for group in parameters])


class StackedParameters:
    """The parameters of n trainings as leaves, which are copied when they have changed.

    :param vectors: of the trainings, [P] each
    :param parameters: the parameters in the vectors; they may be changed one by one
    :param layout: of each vector
    """

    def __init__(self, vectors: Iterable[Tensor], parameters: Iterable[Tensor], layout: Layout) -> None:
        self.vectors, self.layout = [vector.detach() for vector in vectors], layout
        self.is_stale = True
        self._watched = [*self.vectors, *(parameter.detach() for parameter in parameters)]
        self._versions: list[int] = []
        self._leaves: Leaves = []

    def watch(self) -> None:
        """Note whether anything but `StackedOptimizer` and `StackedTargets` has changed the parameters."""
        versions = [tensor._version for tensor in self._watched]
        if versions != self._versions:
            self._versions, self.is_stale = versions, True

    @property
    def leaves(self) -> Leaves:
        """The present parameters, as leaves with gradients."""
        if self.is_stale:
            with torch.inference_mode(False), torch.no_grad():
                self._leaves = self.layout.leaves(torch.stack(self.vectors))
                for leaf in self._leaves:
                    leaf.requires_grad_()
            self.is_stale = False
        return self._leaves


def can_be_stacked(network: nn.Module) -> bool:
    """Return whether `StackedMLP` can compute a network: linear, tanh and ReLU layers without hooks."""
    layers = list(network) if type(network) is nn.Sequential else [network]
    plain = (nn.Linear, *FORWARD)
    return all(type(layer) in plain and not has_hooks(layer) for layer in layers)


class StackedMLP:
    """Linear layers and activations of n trainings, [n, B, in] -> [n, B, out], as one node of the graph.

    :param networks: networks of one training that follow each other
    :param layout: of their parameters
    """

    def __init__(self, networks: Iterable[nn.Module], layout: Layout) -> None:
        self.kinds: list[type[nn.Module]] = []
        self.positions: list[int] = []  # of weights and biases among the leaves; -1: no bias
        for network in networks:
            for layer in network if type(network) is nn.Sequential else (network,):
                self.kinds.append(type(layer))
                if isinstance(layer, nn.Linear):
                    self.positions.append(layout.index(layer.weight))
                    self.positions.append(-1 if layer.bias is None else layout.index(layer.bias))

    def __call__(self, x: Tensor, leaves: Leaves) -> Tensor:
        """Compute the output for inputs [n, B, in]."""
        if not self.kinds:
            return x
        parameters = [None if k < 0 else leaves[k] for k in self.positions]
        if torch.is_grad_enabled():
            made: Tensor = _StackedMLP.apply(self.kinds, x, *parameters)  # type: ignore[no-untyped-call]
            return made
        return _forward(self.kinds, x, parameters)[-1]


def _forward(
    kinds: Sequence[type[nn.Module]], x: Tensor, parameters: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the input, and the output of each layer; an activation overwrites that of the linear layer."""
    values, k = [x], 0
    before: type[nn.Module] | None = None
    for kind in kinds:
        if kind is nn.Linear:
            weight, bias = parameters[k], parameters[k + 1]
            assert weight is not None
            x = linear(x, weight, bias)
            k += 2
        else:
            x = (IN_PLACE if before is nn.Linear else FORWARD)[kind](x)
        values.append(x)
        before = kind
    return values


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a layer [n, out, in] of inputs [n, B, in]."""
    if not has_same_bits(linear_at_once, linear_one_by_one, *x.shape, weight.shape[1]):
        return linear_one_by_one(x, weight, bias)
    return linear_at_once(x, weight, bias)


def linear_at_once(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a layer as one batched product."""
    return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight.mT)


def linear_one_by_one(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute a layer as a single training does."""
    biases = [None] * len(x) if bias is None else bias
    return torch.stack([F.linear(*layer) for layer in zip(x, weight, biases, strict=True)])


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of matrices [n, p, q] and [n, q, r]."""
    if not has_same_bits(
        bmm_at_once, bmm_one_by_one, len(a), a.shape[1], a.shape[2], b.shape[2], a.stride(1) != 1
    ):
        return bmm_one_by_one(a, b)
    return torch.bmm(a, b)


def bmm_at_once(a: Tensor, b: Tensor, _: Tensor | None = None) -> Tensor:
    """Return the products of matrices, in one call."""
    return torch.bmm(a, b)


def bmm_one_by_one(a: Tensor, b: Tensor, _: Tensor | None = None) -> Tensor:
    """Return the products of matrices, as a single training computes them."""
    return torch.stack([x @ y for x, y in zip(a, b, strict=True)])


@functools.cache
def has_same_bits(
    at_once: Product, one_by_one: Product, n: int, p: int, q: int, r: int, is_row_major: bool = True
) -> bool:
    """Return whether a batched product of matrices of a shape rounds as single products do.

    It depends on the shape, the processor and the library: the kernels for tiny matrices and for vectors add
    in another order. Trainings are chaotic: a difference in the last bit becomes one in the first digit.
    """
    with torch.inference_mode(False), torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        if at_once is linear_at_once:  # views of the vectors of parameters
            vectors = torch.randn(n, r * q + r, generator=generator)
            a, b = torch.randn(n, p, q, generator=generator), vectors[:, : r * q].view(n, r, q)
            return torch.equal(at_once(a, b, vectors[:, r * q :]), one_by_one(a, b, vectors[:, r * q :]))
        a, b = torch.randn(n, p, q, generator=generator), torch.randn(n, q * r + 1, generator=generator)
        b = b[:, 1:].view(n, q, r)
        if not is_row_major:
            a = torch.randn(n, q, p, generator=generator).mT
        return torch.equal(at_once(a, b, None), one_by_one(a, b, None))


class _Context:
    """What autograd keeps between the two passes."""

    kinds: Sequence[type[nn.Module]]
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    save_for_backward: Callable[..., None]


class _StackedMLP(torch.autograd.Function):
    """`StackedMLP` with its derivative in closed form: autograd would spend more time between layers."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: _Context, kinds: Sequence[type[nn.Module]], x: Tensor, *parameters: Tensor | None
    ) -> Tensor:
        values = _forward(kinds, x, parameters)
        ctx.kinds = kinds
        ctx.save_for_backward(*values, *parameters)
        return values[-1]

    @staticmethod
    def backward(ctx: _Context, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        kinds, saved = ctx.kinds, ctx.saved_tensors
        first = len(kinds) + 1
        gradients: list[Tensor | None] = [None] * (len(saved) - first)
        k = len(gradients)
        for i in range(len(kinds) - 1, -1, -1):
            if kinds[i] is not nn.Linear:
                gradient = BACKWARD[kinds[i]](gradient, saved[i + 1])
                continue
            k -= 2
            if ctx.needs_input_grad[2 + k]:
                gradients[k] = product(gradient.mT, saved[i])
            if ctx.needs_input_grad[3 + k]:
                gradients[k + 1] = gradient.sum(1)
            if i > 0 or ctx.needs_input_grad[1]:
                gradient = product(gradient, saved[first + k])
        return None, gradient if ctx.needs_input_grad[1] else None, *gradients
