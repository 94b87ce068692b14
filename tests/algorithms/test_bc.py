from __future__ import annotations

import io
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import BC, BaseCallback, ExpertDataset, VecNormalize
from rlzoo.algorithms.agent import saving
from rlzoo.algorithms.imitation.bc import bc_loss
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.networks.torch_layers import FlattenExtractor

BOX = spaces.Box(-2, np.float32(2), (1,))


class Room(gym.Env[Any, Any]):
    """Never stepped by behaviour cloning."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        raise AssertionError("behaviour cloning does not step its environment")


def shown(noise: float = 0.0, discrete: bool = False, n_steps: int = 400) -> ExpertDataset:
    """a = x - y / 2, or whether that is positive."""
    generator = np.random.default_rng(0)
    obs = generator.uniform(-1, 1, (n_steps, 2)).astype(np.float32)
    actions = obs[:, :1] - obs[:, 1:] / 2
    noisy = actions + noise * generator.normal(size=(n_steps, 1))
    data = {
        "obs": obs,
        "actions": (actions > 0).astype(int) if discrete else noisy,
        "rewards": np.zeros(n_steps),
        "episode_starts": np.arange(n_steps) % 20 == 0,
        "episode_returns": np.zeros(n_steps // 20),
    }
    return ExpertDataset(traj_data=data, verbose=0)


def make(dataset: ExpertDataset | None, discrete: bool = False, **kwargs: Any) -> BC:
    env = Room(spaces.Discrete(2) if discrete else BOX)
    small = {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}
    return BC("MlpPolicy", env, **{"expert_dataset": dataset, **small, **kwargs})


def test_choices_are_learned() -> None:
    dataset = shown(discrete=True)
    model = make(dataset, discrete=True, learning_rate=1e-2).learn(20_000)
    obs, actions = dataset.read(dataset.val_rows)
    assert (model.predict(obs, deterministic=True)[0] == actions[:, 0]).mean() > 0.95


def test_a_box_is_learned_and_the_noise_is_that_of_the_expert() -> None:
    model = make(shown(noise=0.1), learning_rate="lin_1e-2").learn(60_000)
    obs = np.array([[0.5, 0.2], [-0.5, 0.6]], np.float32)
    mean, std = model.action_probability(obs)
    np.testing.assert_allclose(mean[:, 0], [0.4, -0.8], atol=0.05)
    np.testing.assert_allclose(std, 0.1, atol=0.02)


def test_the_mean_does_not_feel_the_spread() -> None:
    gradients = []
    for log_std in (0.0, -3.0):
        model = make(shown())
        with torch.no_grad():
            model.policy.log_std.fill_(log_std)
        examples = model.demonstrations.examples(np.arange(32))
        loss, _ = bc_loss(model.policy, examples, 0.0)
        gradients.append(torch.autograd.grad(loss, model.policy.action_net.weight)[0])
    assert torch.equal(*gradients)


def test_an_entropy_bonus_keeps_choices_open() -> None:
    def certainty(ent_coef: float) -> float:
        model = make(shown(discrete=True), discrete=True, ent_coef=ent_coef, learning_rate=1e-2).learn(10_000)
        return float(model.action_probability(np.array([0.9, -0.9], np.float32)).max())

    assert certainty(0.0) > 0.95 > certainty(1.0)


class Count(BaseCallback):
    """Counts its calls, and saves the agent at one of them."""

    def __init__(self, save_at: int = -1) -> None:
        super().__init__()
        self.save_at, self.file = save_at, io.BytesIO()

    def _on_step(self) -> bool:
        if self.n_calls == self.save_at:
            self.model.save(self.file)
        return self.n_calls != 50


def test_a_timestep_is_a_step_of_the_expert() -> None:
    model, count = make(shown(), batch_size=32), Count()
    model.learn(1000, count)
    assert model.num_timesteps == 1024 and model.n_updates == count.n_calls == 32
    model.learn(10_000, Count())
    assert model.n_updates == 50  # a callback ended it


def test_validation_is_logged(tmp_path: Any) -> None:
    from rlzoo import configure, read_csv

    model = make(shown(discrete=True), discrete=True)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(2000, log_interval=1)
    rows = read_csv(tmp_path / "progress.csv")
    assert {"train/loss", "train/accuracy", "train/val_loss", "train/val_accuracy"} <= set(rows)
    assert len(rows) == 2000 // 280 + 1
    assert rows["train/val_loss"].iloc[-1] < rows["train/val_loss"].iloc[0]


def everything(model: BC) -> dict[str, Any]:
    checkpoint = saving.to_checkpoint(model)
    del checkpoint.state["state"]["callbacks"]
    tensors = {**checkpoint.weights, **checkpoint.optimizers}
    lists = {name: np.asarray(value).tolist() for name, value in tensors.items()}
    return {"state": checkpoint.state, **lists}


def test_bc_resumes_exactly_without_stored_demonstrations() -> None:
    model, half = make(shown(), learning_rate="lin_1e-2"), Count(save_at=15)
    model.learn(40 * 64, half)
    half.file.seek(0)
    torch.manual_seed(5)
    again = BC.load(half.file, env=Room(BOX), device="cpu")
    assert again.expert_dataset is None and again.num_timesteps == 15 * 64
    with pytest.raises(UserError, match="BC learns from demonstrations: give expert_dataset"):
        again.learn(25 * 64, reset_num_timesteps=False)
    again.expert_dataset = shown()
    again.learn(25 * 64, Count(), reset_num_timesteps=False)
    assert everything(again) == everything(model)


def test_bc_sets_vec_normalize_from_demonstrations() -> None:
    dataset = shown()
    venv = VecNormalize(DummyVecEnv([lambda: Room(BOX)]))
    model = BC("MlpPolicy", venv, dataset, device="cpu", seed=0)
    model.learn(64)
    np.testing.assert_allclose(venv.obs_rms.var, dataset.observations.var(axis=0), rtol=0.02)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dataset": shown(discrete=True)}, "another environment: its actions"),
        ({"dataset": None, "expert_dataset": "none.npz"}, "there is no file none.npz"),
        ({"dataset": None, "expert_dataset": 4}, "must be an ExpertDataset or the path"),
        ({"dataset": None, "expert_dataset": {"expert_pth": "x"}}, "did you mean 'expert_path'"),
    ],
)
def test_mistakes_are_said_when_the_agent_is_made(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text) as error:
        make(**arguments)
    assert "\n" not in str(error.value)


def test_every_training_is_in_training_mode() -> None:
    class Dropped(FlattenExtractor):
        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(super().forward(observations), 0.5, self.training)

    policy_kwargs = {"net_arch": [8], "features_extractor_class": Dropped}
    model = make(shown(), policy_kwargs=policy_kwargs)
    modes, update = [], model.update

    def spy(*args: Any) -> Any:
        modes.append(model.policy.training)
        return update(*args)

    model.update = spy  # type: ignore[method-assign]
    model.learn(128).learn(128, reset_num_timesteps=False)
    assert modes == [True] * 4


def test_updates_are_in_training_mode_after_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    update = BC.update

    def watched(model: BC, *args: Any) -> Any:
        modes.append(model.policy.training)
        return update(model, *args)

    class Predicts(BaseCallback):
        def _on_step(self) -> bool:
            self.model.predict(np.zeros(2, np.float32))
            return True

    monkeypatch.setattr(BC, "update", watched)
    dropout = {"net_arch": [16], "activation_fn": torch.nn.Dropout}
    make(shown(), policy_kwargs=dropout).learn(300, callback=Predicts())
    assert len(modes) > 2 and all(modes)
