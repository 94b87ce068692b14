from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import PPO, BaseFeaturesExtractor, ExpertDataset, VecFrameStack, VecNormalize
from rlzoo.config import catalog
from rlzoo.core.errors import TrainingDiverged, UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.training.supervised import Demonstrations, imitation_loss

BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([2, 4], np.float32))
DISCRETE = spaces.Discrete(3, start=2)
ALGORITHMS = [name for name in catalog.names() if hasattr(catalog.load(name), "Config")]
CASES = [
    (algo, action)
    for algo in ALGORITHMS
    for action, space in {"Box": BOX, "Discrete": DISCRETE}.items()
    if isinstance(space, catalog.load(algo).action_spaces)
]


class Room(gym.Env[Any, Any]):
    """Nothing happens in it."""

    def __init__(self, action_space: spaces.Space[Any], scale: float = 1.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space, self.scale = action_space, scale

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.full(2, self.scale, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.full(2, self.scale, np.float32), 0.0, True, False, {}


class Halving(BaseFeaturesExtractor):
    """An extractor with parameters."""

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=2)
        self.linear = nn.Linear(2, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.linear(obs)


def shown(action_space: spaces.Space[Any], n_steps: int = 240, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Episodes of ten steps; the expert's action depends on the signs of what it sees."""
    obs = scale * np.random.default_rng(1).uniform(-1, 1, (n_steps, 2))
    right, up = obs[:, 0] > 0, obs[:, 1] > 0
    if isinstance(action_space, spaces.Discrete):
        actions = (action_space.start + right.astype(int) + (right & up))[:, None]
    else:
        actions = np.stack([np.where(right, 1.5, -0.5), np.where(up, 3.0, 1.0)], axis=1)
    return {
        "obs": obs.astype(np.float32),
        "actions": actions,
        "rewards": np.zeros(n_steps),
        "episode_starts": np.arange(n_steps) % 10 == 0,
        "episode_returns": np.zeros(n_steps // 10),
    }


def dataset(action_space: spaces.Space[Any], **kwargs: Any) -> ExpertDataset:
    return ExpertDataset(traj_data=shown(action_space, **kwargs), batch_size=32, verbose=0)


def make(algo: str, action: str, **kwargs: Any) -> Any:
    small: dict[str, Any] = {"policy_kwargs": {"net_arch": [32]}}
    if algo == "ars":
        small["zero_policy"] = False
    space = {"Box": BOX, "Discrete": DISCRETE}[action]
    policy = "MlpLstmPolicy" if algo == "ppo_lstm" else "MlpPolicy"
    return catalog.load(algo)(policy, Room(space), seed=0, device="cpu", **{**small, **kwargs})


def loss_of(model: Any, data: ExpertDataset) -> float:
    model.set_training_mode(False)
    with torch.no_grad():
        examples = Demonstrations(model, data).examples(np.arange(len(data)))
        return float(imitation_loss(model.policy, examples)[0])


@pytest.mark.parametrize(("algo", "action"), CASES)
def test_every_algorithm_can_be_pretrained(algo: str, action: str) -> None:
    model = make(algo, action)
    data = dataset(model.action_space)
    before, updates = loss_of(model, data), model.n_updates
    assert model.pretrain(data, n_epochs=15, learning_rate=3e-3) is model
    assert loss_of(model, data) < 0.6 * before
    assert (model.num_timesteps, model.n_updates) == (0, updates)


def test_what_was_shown_is_done_afterwards() -> None:
    discrete, box = (
        (("ppo", "Discrete"), ("dqn", "Discrete")),
        (("ppo", "Box"), ("td3", "Box"), ("sac", "Box")),
    )
    for algo, action in discrete + box:
        model = make(algo, action)
        data = dataset(model.action_space)
        model.pretrain(data, n_epochs=60, learning_rate=1e-2)
        obs, actions = data.read(np.arange(len(data)))
        done, _ = model.predict(obs, deterministic=True)
        if action == "Discrete":
            assert (done == actions[:, 0]).mean() > 0.9, algo
        else:
            assert np.abs(done - actions).mean() < 0.4, algo


def test_the_loss_of_choices_is_their_negative_log_likelihood() -> None:
    model = make("ppo", "Discrete")
    data = dataset(model.action_space)
    obs, actions = data.read(np.arange(len(data)))
    log_probs = model.action_probability(obs, actions=actions[:, 0], logp=True)
    assert loss_of(model, data) == pytest.approx(-log_probs.mean(), rel=1e-5)


@pytest.mark.parametrize(("algo", "scale"), [("ppo", 1.0), ("sac", np.array([1.5, 2.0]))])
def test_box_bc_loss_is_squared_error_in_policy_units(algo: str, scale: Any) -> None:
    model = make(algo, "Box")
    data = dataset(model.action_space)
    obs, actions = data.read(np.arange(len(data)))
    mean, _ = model.action_probability(obs)
    stored = actions if algo == "ppo" else model.policy.scale_action(actions)
    assert loss_of(model, data) == pytest.approx(float(np.mean((mean - stored) ** 2)), rel=1e-4)
    assert scale is not None


@pytest.mark.parametrize("algo", ["td3", "ddpg", "dqn"])
def test_target_networks_follow(algo: str) -> None:
    action = "Discrete" if algo == "dqn" else "Box"
    model = make(algo, action)
    model.pretrain(dataset(model.action_space), n_epochs=2)
    policy = model.policy
    pair = (policy.q_net, policy.q_net_target) if algo == "dqn" else (policy.actor, policy.actor_target)
    for mine, copied in zip(pair[0].parameters(), pair[1].parameters(), strict=True):
        assert torch.equal(mine, copied)


@pytest.mark.parametrize("algo", ["acer", "sac"])
def test_other_target_networks_follow(algo: str) -> None:
    extractors = {"net_arch": [32], "share_features_extractor": True, "features_extractor_class": Halving}
    if algo == "acer":
        model = make("acer", "Discrete")
        pair = model.policy, model.average_policy
    else:
        model = make("sac", "Box", policy_kwargs=extractors)
        pair = model.policy.critic, model.policy.critic_target
    model.pretrain(dataset(model.action_space), n_epochs=2)
    for mine, copied in zip(pair[0].parameters(), pair[1].parameters(), strict=True):
        assert torch.equal(mine, copied)


def test_exploration_noise_and_critic_stay_as_they_are() -> None:
    model = make("ppo", "Box")
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.pretrain(dataset(model.action_space), n_epochs=2)
    after = model.policy.state_dict()
    changed = {name for name in before if not torch.equal(after[name], before[name])}
    assert changed == {name for name in before if "policy_net" in name or "action_net" in name}


def test_training_goes_on_after_pretraining() -> None:
    model = make("ppo", "Discrete", n_steps=16, batch_size=16, n_epochs=1)
    model.pretrain(dataset(model.action_space), n_epochs=1)
    before = {name: value.clone() for name, value in model.policy.named_parameters()}
    model.learn(16)
    assert any(not torch.equal(value, before[name]) for name, value in model.policy.named_parameters())


def test_losses_are_reported_every_so_many_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    model = make("ppo", "Discrete", verbose=1)
    capsys.readouterr()
    model.pretrain(dataset(model.action_space), n_epochs=4, val_interval=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "pretraining: epoch 2 of 4", "pretraining: epoch 4 of 4",
    ]  # fmt: skip
    assert all("training loss" in line and "validation loss" in line for line in lines)


# Scaled observations


def test_a_new_vec_normalize_learns_from_the_demonstrations() -> None:
    venv = VecNormalize(DummyVecEnv([lambda: Room(DISCRETE, scale=300.0)]))
    model = PPO("MlpPolicy", venv, seed=0, device="cpu")
    data = dataset(DISCRETE, scale=300.0)
    seen = Demonstrations(model, data)
    obs = seen.examples(np.arange(len(data))).obs.numpy()
    assert obs.mean() == pytest.approx(0, abs=1e-4) and obs.std() == pytest.approx(1, abs=1e-3)
    statistics = venv.obs_rms.mean.copy()
    Demonstrations(model, dataset(DISCRETE, scale=1.0))  # it has seen something by now
    assert (venv.obs_rms.mean == statistics).all()


def test_ddpg_normalises_by_the_demonstrations() -> None:
    model = make("ddpg", "Box", normalize_observations=True)
    data = dataset(BOX, scale=300.0)
    loss_of(model, data)
    obs = torch.from_numpy(shown(BOX, scale=300.0)["obs"])
    scaled = model.normalizer(obs)
    assert scaled.mean(0).abs().max() < 1e-4 and scaled.std(0).numpy() == pytest.approx(1, abs=0.01)
    Demonstrations(model, dataset(BOX, scale=1.0))  # it has seen something by now
    assert torch.equal(model.normalizer(obs), scaled)


def test_the_vec_normalize_that_scales_observations_is_used() -> None:
    def rooms() -> DummyVecEnv:
        return DummyVecEnv([lambda: Room(DISCRETE, scale=300.0)])

    venv = VecNormalize(VecNormalize(rooms(), norm_reward=False), norm_obs=False)
    data = dataset(DISCRETE, scale=300.0)
    seen = Demonstrations(PPO("MlpPolicy", venv, seed=0, device="cpu"), data)
    assert seen.examples(np.arange(len(data))).obs.numpy().std() == pytest.approx(1, abs=1e-3)
    with pytest.warns(UserWarning, match="scales observations twice"):
        twice = VecNormalize(VecNormalize(rooms(), norm_reward=False), norm_reward=False)
    with pytest.raises(UserError, match="norm_obs=False in all but one"):
        Demonstrations(PPO("MlpPolicy", twice, device="cpu"), data)


def test_observations_that_are_stacked_after_scaling_are_refused() -> None:
    venv = VecFrameStack(VecNormalize(DummyVecEnv([lambda: Room(DISCRETE)])), 2)
    model = PPO("MlpPolicy", venv, device="cpu")
    with pytest.raises(UserError, match="put VecNormalize outermost"):
        model.pretrain(dataset(DISCRETE))


# Memory


@pytest.mark.skipif("ppo_lstm" not in catalog.names(), reason="no policy that remembers")
def test_a_policy_that_remembers_sees_whole_episodes() -> None:
    model = make("ppo_lstm", "Discrete")
    seen = Demonstrations(model, dataset(model.action_space))
    for examples in (seen.draw(25), *seen.one_pass("train")):
        assert len(examples) % 10 == 0
        assert examples.context["sequences"].max_length == 10
        assert examples.context["sequences"].n_sequences == len(examples) // 10
    held_out = sum(len(examples) for examples in seen.one_pass("val"))
    assert held_out == 240 - 10 * int(0.7 * 24)


# Mistakes


def test_mistakes_are_one_line() -> None:
    model = make("ppo", "Discrete")
    for arguments, text in (
        ({"dataset": dataset(BOX)}, "another environment: its actions"),
        ({"dataset": "none.npz"}, "there is no file none.npz"),
        ({"dataset": 3}, "must be an ExpertDataset"),
        ({"dataset": dataset(DISCRETE), "n_epochs": 0}, "n_epochs must be at least 1"),
        ({"dataset": dataset(DISCRETE), "val_interval": 0}, "val_interval must be at least 1"),
    ):
        with pytest.raises(UserError, match=text) as error:
            model.pretrain(**arguments)
        assert "\n" not in str(error.value)
    with pytest.raises(TrainingDiverged, match=r"learning_rate \(1e\+30\)"):
        make("ppo", "Box").pretrain(dataset(BOX), learning_rate=1e30)
    many = PPO("MlpPolicy", Room(spaces.MultiBinary(2)), device="cpu")
    with pytest.raises(UserError, match="for Box and Discrete actions, not for MultiBinary"):
        many.pretrain(dataset(DISCRETE))


@pytest.mark.skipif("ars" not in catalog.names(), reason="no policy begins at zero")
def test_hidden_layers_of_zeros_are_refused() -> None:
    model = make("ars", "Box", zero_policy=True)
    with pytest.raises(UserError, match="give zero_policy=False"):
        model.pretrain(dataset(BOX))
    linear = catalog.load("ars")("LinearPolicy", Room(BOX), seed=0, device="cpu")
    data = dataset(BOX)
    before = loss_of(linear, data)
    linear.pretrain(data, n_epochs=15, learning_rate=3e-2)
    assert loss_of(linear, data) < 0.8 * before


def test_a_custom_value_network_needs_only_q_values() -> None:
    class Values(nn.Module):
        action_space = DISCRETE

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def q_values(self, obs: torch.Tensor) -> torch.Tensor:
            return self.layer(obs)  # type: ignore[no-any-return]

    model = make("dqn", "Discrete")
    examples = Demonstrations(model, dataset(DISCRETE)).examples(np.arange(8))
    loss, metrics = imitation_loss(Values(), examples)
    assert loss.requires_grad and 0 <= float(metrics["accuracy"]) <= 1
