"""Exploration by noise on the parameters instead of the actions (Plappert et al. 2018).

Parameter space noise for exploration, https://arxiv.org/abs/1706.01905. The agent acts with a perturbed copy
of its network, sampled for each episode, so that within an episode its behaviour is consistent. How much
noise the parameters get follows from what it does to the actions (section 3, `AdaptiveParamNoiseSpec`).
Layer normalisation makes networks respond evenly to such noise, and is itself left alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlzoo.core.action_noise import AdaptiveParamNoiseSpec
from rlzoo.core.errors import CheckpointError


class ParameterNoise:
    """A network with noise on its parameters.

    `exploring` is the perturbed network to act with, in evaluation mode: call it as the network itself. All
    environments share it.

    :param network: an actor or a Q network; its parameters are read whenever noise is drawn
    :param spec: how much noise; copied, so that several agents may be given the same one
    :param shared: parts of the network that are not copied, such as statistics of observations
    """

    def __init__(
        self, network: nn.Module, spec: AdaptiveParamNoiseSpec, shared: Iterable[nn.Module] = ()
    ) -> None:
        self.spec = copy.copy(spec)
        self._network = network
        kept = {id(module): module for module in shared}
        self.exploring = copy.deepcopy(network, dict(kept)).requires_grad_(False).eval()
        self._trial = copy.deepcopy(network, dict(kept)).requires_grad_(False).eval()
        self.perturb()

    @property
    def stddev(self) -> float:
        """Present standard deviation of the noise."""
        return self.spec.current_stddev

    def perturb(self) -> None:
        """Draw new noise around the present parameters, for the episode that begins."""
        perturb(self._network, self.exploring, self.stddev)

    def adapt(self, distance: Callable[[nn.Module], Tensor]) -> float:
        """Measure what noise of the present size does, and adapt its size.

        :param distance: given the network with fresh noise, in evaluation mode, says how far its actions are
            from the plain ones
        :return: that distance
        """
        perturb(self._network, self._trial, self.stddev)
        with torch.no_grad():
            measured = float(distance(self._trial))
        self.spec.adapt(measured)
        return measured

    def state_dict(self) -> dict[str, Any]:
        return {"spec": self.spec.state_dict(), "exploring": dict(self.exploring.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        :raises CheckpointError: it does not fit the network
        """
        try:
            self.spec.load_state_dict(state["spec"])
            self.exploring.load_state_dict(state["exploring"])
        except (KeyError, RuntimeError, TypeError):
            raise CheckpointError("the parameter noise in the file does not fit the network") from None


@torch.no_grad()
def perturb(network: nn.Module, perturbed: nn.Module, stddev: float) -> None:
    """Make `perturbed` the network plus Gaussian noise on every parameter outside of layer normalisation.

    :param perturbed: a copy of the network, written in place
    """
    for original, copied in zip(network.modules(), perturbed.modules(), strict=True):
        left_alone = isinstance(original, nn.LayerNorm)
        for name, source in original.named_parameters(recurse=False):
            target = copied.get_parameter(name)
            if left_alone:
                target.copy_(source)
            else:
                torch.add(source, torch.randn_like(source), alpha=stddev, out=target)
        for name, statistics in original.named_buffers(recurse=False):
            copied.get_buffer(name).copy_(statistics)


def action_distance(actions: Tensor, perturbed: Tensor) -> Tensor:
    """Compute the root mean square difference of actions [B, action_dim] (appendix C of the paper)."""
    return (actions - perturbed).square().mean().sqrt()


def greedy_distance(q_values: Tensor, perturbed: Tensor) -> Tensor:
    """Compute the mean KL of softmax policies of Q values [B, n_actions] (appendix C of the paper,
    for DQN)."""
    plain, other = q_values.log_softmax(1), perturbed.log_softmax(1)
    return (plain.exp() * (plain - other)).sum(1).mean()
