"""The Fisher matrix of a network as Kronecker factors, layer by layer (K-FAC).

Sources: Martens and Grosse 2015 (https://arxiv.org/abs/1503.05671) for linear layers, Grosse and Martens 2016
(https://arxiv.org/abs/1602.01573) for convolutions.

Let a layer compute s = W a, where `a` ends with a one if there is a bias, and let g be the derivative with
respect to s of the log-likelihood of an outcome that was sampled from the network. The layer's block of the
Fisher matrix, E[(a a^T) x (g g^T)] with the Kronecker product x, is taken to be A x G with A = E[a a^T] and
G = E[g g^T]. With eigenvectors and eigenvalues U, d of both, the damped inverse has the closed form

    (A x G + damping)^-1 V = U_G [ (U_G^T V U_A) / (d_G d_A^T + damping) ] U_A^T

for a gradient V shaped as W. A convolution applies the same weights at T places, another layer perhaps in T
calls: A is summed over them, and G averaged.

What has no such factors (recurrent layers, layer normalisation, a free log standard deviation) gets a
diagonal. Derivatives of sampled log-likelihoods have mean zero and are independent from row to row, so the
square of their sum over N rows, divided by N, is an unbiased estimate of it for any parameter. It is noisy
and therefore averaged over time, as everything here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.core.errors import UserError

DIAGONAL = (nn.LayerNorm, nn.RNNBase, nn.RNNCellBase)
"""Layers without Kronecker factors that are known to do well with a diagonal."""

WIDE = 1024
"""Rows of a factor from which on it is decomposed more rarely: the cost grows with their cube."""

MAX_PATCHES = 2**24
"""Numbers that the patches of a convolution may take at a time: 64 MiB."""

Bases: TypeAlias = "dict[str, list[Tensor]]"
"""Per layer: eigenvalues and eigenvectors of A, then of G."""


class KroneckerFactors:
    """Running averages of the factors of every layer, and the gradient preconditioned by their inverse.

    :param network: made of linear and convolutional layers, `diagonal` ones, and direct parameters
    :param async_eigen_decomp: decompose in a separate thread while experience is collected; the result is
        used one decomposition later, whenever it was ready, so that a training can be repeated
    :param diagonal: further layers that get a diagonal
    :raises UserError: a layer of another kind
    """

    def __init__(
        self,
        network: nn.Module,
        async_eigen_decomp: bool = False,
        diagonal: tuple[type[nn.Module], ...] = (),
    ) -> None:
        self.layers: dict[str, nn.Linear | nn.Conv2d] = {}
        self.others: dict[str, nn.Parameter] = {}
        self.averages: dict[str, Tensor] = {}  # "<layer>.A", "<layer>.G", or the name of a parameter
        self.bases: Bases = {}
        self.n_averages = 0
        self._find_layers(network, (*DIAGONAL, *diagonal))
        self._calls: list[tuple[str, Tensor, Tensor]] = []  # layer, input, output
        self._thread = ThreadPoolExecutor(1, "eigendecomposition") if async_eigen_decomp else None
        self._awaited: Future[Bases] | None = None

    def _find_layers(self, network: nn.Module, diagonal: tuple[type[nn.Module], ...]) -> None:
        for name, module in network.named_modules():
            own = {
                f"{name}.{key}".lstrip("."): parameter
                for key, parameter in module.named_parameters(recurse=False)
                if parameter.requires_grad
            }
            if not own:
                continue
            if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and _is_plain(module)):
                self.layers[name] = module
            elif module is network or isinstance(module, diagonal):
                self.others.update(own)
            else:
                raise UserError(
                    f"K-FAC cannot factor the layer {name} ({_describe(module)}); use Linear, Conv2d "
                    "(no groups, zero padding), LSTM or LayerNorm, or an algorithm with another optimiser, "
                    "such as A2C"
                )

    def _hook(self, name: str) -> Any:
        def remember(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if output.requires_grad:
                self._calls.append((name, inputs[0].detach(), output))

        return remember

    # ---------------------------------------------------------------- averages

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remember what goes in and out of layers, for `update`."""
        self._calls.clear()
        hooks = [layer.register_forward_hook(self._hook(name)) for name, layer in self.layers.items()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def update(self, log_likelihood: Tensor, stats_decay: float = 0.99, kfac_update: int = 1) -> None:
        """Update the running averages with a batch, and the eigendecompositions where they are due.

        :param log_likelihood: of outcomes sampled from the network, [N], computed while recording
        :param stats_decay: decay of the averages; the first ones are plain means
        :param kfac_update: updates between two eigendecompositions; wide layers take longer, see `is_due`
        """
        calls, self._calls = self._calls, []
        inner = [output for _, _, output in calls]
        wanted = inner + list(self.others.values())
        gradients = torch.autograd.grad(log_likelihood.sum(), wanted, retain_graph=True, allow_unused=True)
        n_rows = len(log_likelihood)
        by_layer: dict[str, list[tuple[Tensor, Tensor]]] = {}
        found: dict[str, Tensor] = {}
        with torch.no_grad():
            for (name, x, _), gradient in zip(calls, gradients, strict=False):
                if gradient is not None:
                    pair = _factors(self.layers[name], x, gradient, n_rows)
                    by_layer.setdefault(name, []).append(pair)
            for name, pairs in by_layer.items():
                of_inputs, of_outputs = (torch.stack(factors) for factors in zip(*pairs, strict=True))
                found[f"{name}.A"], found[f"{name}.G"] = of_inputs.sum(0), of_outputs.mean(0)
            for (name, _), gradient in zip(self.others.items(), gradients[len(inner) :], strict=True):
                if gradient is not None:
                    found[name] = gradient.square() / n_rows
            self._average(found, stats_decay)
        turn, rest = divmod(self.n_averages - 1, kfac_update)
        if rest == 0:
            self._refresh_bases(turn)

    def _average(self, found: dict[str, Tensor], stats_decay: float) -> None:
        self.n_averages += 1
        keep = min(1 - 1 / self.n_averages, stats_decay)
        for name, value in found.items():
            if name in self.averages:
                self.averages[name].lerp_(value, 1 - keep)
            else:
                self.averages[name] = value.clone()

    # ---------------------------------------------------------------- inverse

    def _refresh_bases(self, turn: int) -> None:
        """Decompose the factors that are due.

        :param turn: number of decompositions so far
        """
        factors = self._due_factors(turn)
        if self._thread is None or not self.bases:
            self.bases = {**self.bases, **_decompose(factors)}
            return
        if self._awaited is not None:
            self.bases = {**self.bases, **self._awaited.result()}
        snapshot = {name: factor.clone() for name, factor in factors.items()}
        self._awaited = self._thread.submit(_decompose, snapshot)

    def _due_factors(self, turn: int) -> dict[str, Tensor]:
        due: dict[str, Tensor] = {}
        for name in self.layers:
            pair = {key: self.averages[key] for key in (f"{name}.A", f"{name}.G") if key in self.averages}
            if pair and is_due(turn, max(map(len, pair.values()))):
                due |= pair
        return due

    @torch.no_grad()
    def precondition(self, damping: float) -> None:
        """Replace the gradient of every parameter by (F + damping)^-1 times it, in place."""
        for name, layer in self.layers.items():
            if name not in self.bases or layer.weight.grad is None:
                continue
            d_a, u_a, d_g, u_g = self.bases[name]
            gradient = _as_matrix(layer)
            rotated = u_g.T @ gradient @ u_a
            natural = u_g @ rotated.div_(torch.outer(d_g, d_a).add_(damping)) @ u_a.T
            n_inputs = natural.shape[1] - (layer.bias is not None)
            layer.weight.grad.copy_(natural[:, :n_inputs].reshape(layer.weight.shape))
            if layer.bias is not None:
                layer.bias.grad.copy_(natural[:, n_inputs])  # type: ignore[union-attr]
        for name, parameter in self.others.items():
            if name in self.averages and parameter.grad is not None:
                parameter.grad.div_(self.averages[name] + damping)

    # ---------------------------------------------------------------- saving

    def state_dict(self) -> dict[str, Any]:
        """Return averages and eigenbases, also those that are still being computed."""
        awaited = {} if self._awaited is None else self._awaited.result()
        return {
            "n_averages": self.n_averages,
            "averages": self.averages,
            "bases": self.bases,
            "awaited": awaited,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore averages and eigenbases.

        :raises ValueError: factors of another network
        """
        shapes = self._shapes()
        for name, value in state["averages"].items():
            if value.shape != shapes[name]:
                raise ValueError(f"the factor {name} is {tuple(value.shape)}, not {tuple(shapes[name])}")
        device = next(iter(self._parameters())).device
        self.n_averages = int(state["n_averages"])
        self.averages = {name: value.to(device) for name, value in state["averages"].items()}
        self.bases = self._fitting(state["bases"], device)
        self._awaited = None
        if state["awaited"]:
            self._awaited = Future()
            self._awaited.set_result(self._fitting(state["awaited"], device))

    def _fitting(self, bases: Mapping[str, Any], device: torch.device) -> Bases:
        shapes = self._shapes()
        for name, (d_a, u_a, d_g, u_g) in bases.items():
            for key, values, vectors in (("A", d_a, u_a), ("G", d_g, u_g)):
                expected = shapes[f"{name}.{key}"]
                if vectors.shape != expected or values.shape != expected[:1]:
                    raise ValueError(f"the eigenbasis {name}.{key} is {tuple(vectors.shape)}, not {expected}")
        return {name: [tensor.to(device) for tensor in basis] for name, basis in bases.items()}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {name: tuple(value.shape) for name, value in self.others.items()}
        for name, layer in self.layers.items():
            n_inputs = layer.weight[0].numel() + (layer.bias is not None)
            shapes[f"{name}.A"], shapes[f"{name}.G"] = (n_inputs, n_inputs), (len(layer.weight),) * 2
        return shapes

    def _parameters(self) -> list[Tensor]:
        return [*(layer.weight for layer in self.layers.values()), *self.others.values()]


def is_due(turn: int, n_rows: int) -> bool:
    """Return whether a factor with so many rows is decomposed at this turn.

    Up to `WIDE` rows it always is. Others are at every (n_rows / WIDE)^2-th turn, since a decomposition takes
    time in proportion to n_rows^3, and at first more often, while their averages still change quickly: with
    3,137 rows, as behind the convolutions of a NatureCNN, at turns 0, 1, 2, 4, 8, 9, 18, 27 and so on.
    """
    every = max(1, round((n_rows / WIDE) ** 2))
    return turn % every == 0 or (turn < every and turn.bit_count() == 1)


def _factors(layer: nn.Linear | nn.Conv2d, x: Tensor, gradient: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return A and G of one call.

    :param x: input of the layer, [N, ..., n_in] or [N, channels, height, width]
    :param gradient: of the summed log-likelihood with respect to the output
    :param n_rows: N; places of a convolution, or steps of a sequence, are not counted
    """
    if isinstance(layer, nn.Linear):
        a = _with_ones(x.reshape(-1, x.shape[-1]), layer)
        g = gradient.reshape(-1, gradient.shape[-1])
        return a.T @ a / n_rows, g.T @ g / len(g)
    g = gradient.movedim(1, -1).reshape(-1, gradient.shape[1])
    n_inputs = layer.weight[0].numel() + (layer.bias is not None)
    factor_a = x.new_zeros(n_inputs, n_inputs)
    n_places = gradient.shape[2] * gradient.shape[3]
    for images in x.split(max(1, MAX_PATCHES // (n_places * n_inputs))):
        padding: Any = 0 if layer.padding == "valid" else layer.padding
        patches = F.unfold(images, layer.kernel_size, layer.dilation, padding, layer.stride)  # type: ignore[arg-type]
        a = _with_ones(patches.transpose(1, 2).reshape(-1, patches.shape[1]), layer)
        factor_a += a.T @ a
    return factor_a / n_rows, g.T @ g / len(g)


def _with_ones(rows: Tensor, layer: nn.Module) -> Tensor:
    """Append the input of the bias, which is one."""
    return rows if layer.bias is None else F.pad(rows, (0, 1), value=1.0)


def _as_matrix(layer: nn.Linear | nn.Conv2d) -> Tensor:
    """Join the gradients of a layer's weights and of its bias, the last column, [n_out, n_in (+ 1)]."""
    weights = layer.weight.grad.flatten(1)  # type: ignore[union-attr]
    if layer.bias is None:
        return weights
    return torch.cat([weights, layer.bias.grad.unsqueeze(1)], dim=1)  # type: ignore[union-attr]


def _decompose(factors: Mapping[str, Tensor]) -> Bases:
    """Compute eigenvalues and eigenvectors of A and of G, by layer."""
    bases: Bases = {}
    for name in factors:
        layer, _, kind = name.rpartition(".")
        if kind == "A":
            bases[layer] = [*_eigh(factors[name]), *_eigh(factors[f"{layer}.G"])]
    return bases


def _eigh(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Decompose a matrix; one that is not finite gives NaN, which the agent finds in its parameters."""
    if not bool(torch.isfinite(factor).all()):
        return torch.full_like(factor[0], torch.nan), torch.full_like(factor, torch.nan)
    values, vectors = torch.linalg.eigh(factor.double())  # NaN in single precision, with many dead inputs
    # laid out as in a file, since products round differently otherwise
    return values.clamp(min=0.0).to(factor.dtype), vectors.to(factor.dtype).contiguous()


def _is_plain(layer: nn.Conv2d) -> bool:
    """Return whether each output is a product of the weights with a patch of the image."""
    return layer.groups == 1 and layer.padding_mode == "zeros" and layer.padding != "same"


def _describe(module: nn.Module) -> str:
    groups = getattr(module, "groups", 1)
    return type(module).__name__ + (f" with {groups} groups" if groups != 1 else "")
