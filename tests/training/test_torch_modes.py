"""What a script does with PyTorch in a callback or in an environment works as it does outside of training."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch

import rlzoo
from rlzoo.networks.torch_layers import FlattenExtractor
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy

ALGORITHMS = {"PPO": {"n_steps": 16, "batch_size": 16}, "SAC": {"learning_starts": 8}}


class Novelty(torch.nn.Module):
    """A network that learns to predict observations, as curiosity does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
        self.losses: list[float] = []
        self.initial = self.layer.weight.detach().clone()

    def learn(self, obs: Any) -> None:
        obs = torch.as_tensor(obs, dtype=torch.float32)
        loss = (self.layer(obs) - obs).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def make(name: str, env: Any) -> Any:
    return getattr(rlzoo, name)("MlpPolicy", env, seed=0, device="cpu", **ALGORITHMS[name])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_callbacks_train_networks_of_their_own(name: str) -> None:
    novelty = Novelty()

    class Train(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            novelty.learn(self.locals["new_obs"])
            return True

    make(name, "Pendulum-v1").learn(64, Train())
    assert len(novelty.losses) == 64 and not torch.equal(novelty.layer.weight, novelty.initial)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_environments_train_networks_of_their_own(name: str) -> None:
    novelty = Novelty()

    class Curious(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = self.env.step(action)
            novelty.learn(obs)
            return obs, float(reward) + novelty.losses[-1], terminated, truncated, info

    make(name, Curious(gymnasium.make("Pendulum-v1"))).learn(64)
    assert len(novelty.losses) == 64


@pytest.mark.parametrize("name", ALGORITHMS)
def test_callbacks_take_over_the_weights_of_another_agent(name: str) -> None:
    other = make(name, "Pendulum-v1")

    class TakeOver(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 20:
                self.model.set_parameters(other.get_parameters())
            return True

    model = make(name, "Pendulum-v1").learn(64, TakeOver())
    assert model.n_updates > 0


@pytest.mark.parametrize("name", ["PPO", "RecurrentPPO"])
def test_values_of_a_step_can_be_part_of_a_loss(name: str) -> None:
    weight = torch.nn.Parameter(torch.ones(1))

    class Learn(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            (weight * self.locals["values"] * self.locals["log_probs"]).sum().backward()
            return True

    policy = "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy"
    getattr(rlzoo, name)(policy, "Pendulum-v1", n_steps=16, batch_size=16, device="cpu").learn(16, Learn())
    assert weight.grad is not None and torch.isfinite(weight.grad).all()


class OwnPolicy(ActorCriticPolicy):
    pass


class OwnPPO(rlzoo.PPO):
    pass


class OwnExtractor(FlattenExtractor):
    pass


def acting_modes(monkeypatch: pytest.MonkeyPatch, model: Any, callback: Any = None) -> set[bool]:
    """Train a model; return whether its actions were those of inference mode."""
    modes: set[bool] = set()
    act = rlzoo.PPO.act

    def watched(self: Any, inputs: Any) -> Any:
        output = act(self, inputs)
        modes.add(output.action.is_inference())
        return output

    monkeypatch.setattr(rlzoo.PPO, "act", watched)
    model.learn(8, callback)
    return modes


@pytest.mark.parametrize(
    "case", ["ours", "noise", "policy", "algorithm", "extractor", "hook", "distribution"]
)
def test_only_code_of_rlzoo_acts_in_inference_mode(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "device": "cpu", "use_sde": case == "noise"}
    if case == "extractor":
        kwargs["policy_kwargs"] = {"features_extractor_class": OwnExtractor}
    algorithm = OwnPPO if case == "algorithm" else rlzoo.PPO
    model = algorithm(OwnPolicy if case == "policy" else "MlpPolicy", "Pendulum-v1", **kwargs)
    if case == "hook":
        model.policy.value_net.register_forward_hook(lambda *_: None)
    if case == "distribution":
        model.policy.action_dist = type("Own", (type(model.policy.action_dist),), {"__slots__": ()})(1)
    assert acting_modes(monkeypatch, model) == {case == "ours"}


class Watch(rlzoo.BaseCallback):
    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (rlzoo.StopTrainingOnMaxEpisodes(5), True),
        (rlzoo.EveryNTimesteps(4, rlzoo.StopTrainingOnMaxEpisodes(5)), True),
        (Watch(), False),
        (lambda *_: True, False),
        ([rlzoo.EveryNTimesteps(4, Watch())], False),
    ],
)
def test_custom_callbacks_see_tensors_for_losses(
    callback: Any, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = rlzoo.PPO("MlpPolicy", "Pendulum-v1", n_steps=8, batch_size=8, device="cpu")
    assert acting_modes(monkeypatch, model, callback) == {expected}


def test_callbacks_use_hooks_and_states_in_losses() -> None:
    weight, kept = torch.nn.Parameter(torch.ones(1)), []

    class Probe(rlzoo.BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 2:
                self.model.policy.action_net.register_forward_hook(
                    lambda _, inputs, __: kept.append(inputs[0])
                )
            values = [*kept[-1:], *self.model.rnn_state.values()]
            sum((weight * value).square().sum() for value in values).backward()
            return True

    model = rlzoo.RecurrentPPO("MlpLstmPolicy", "Pendulum-v1", n_steps=16, batch_size=16, device="cpu")
    model.learn(16, Probe())
    assert kept and weight.grad is not None


@pytest.mark.parametrize("name", ALGORITHMS)
def test_tensor_environments_may_hold_a_network(name: str) -> None:
    class World(rlzoo.TensorPendulum):
        world = torch.nn.Linear(1, 1)

        def transition(self, states: Any, actions: Any) -> Any:
            states, rewards, terminal = super().transition(states, actions.clone().mul_(1))
            loss = (self.world(actions) - 1).square().mean()
            loss.backward()
            return states, rewards + self.world(actions).squeeze(1), terminal

    make(name, World(4, device="cpu")).learn(128)
    assert World.world.weight.grad is not None
