from __future__ import annotations

import io
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import GAIL, PPO, TRPO, BaseCallback, ExpertDataset, VecMonitor, VecNormalize
from rlzoo.algorithms.agent import saving
from rlzoo.algorithms.imitation.gail import discriminator_loss
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import load_env_state

LEARNERS = {
    "ppo": {"n_steps": 32, "batch_size": 32, "n_epochs": 4, "learning_rate": 3e-3},
    "trpo": {"n_steps": 32, "batch_size": 32, "n_critic_updates": 2},
}


class Echo(gym.Env[Any, Any]):
    """The expert does what it sees; the reward says the contrary. Episodes of eight steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, discrete: bool = True) -> None:
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1, np.float32(1), (1,))

    def observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observe(), -1.0, False, self.steps == 8, {}


def shown(discrete: bool = True, n_steps: int = 160, **kwargs: Any) -> ExpertDataset:
    obs = np.random.default_rng(0).uniform(-1, 1, (n_steps, 1)).astype(np.float32)
    data = {
        "obs": obs,
        "actions": (obs > 0).astype(int) if discrete else obs,
        "rewards": np.full(n_steps, -1.0),
        "episode_starts": np.arange(n_steps) % 8 == 0,
        "episode_returns": np.full(n_steps // 8, -8.0),
    }
    return ExpertDataset(traj_data=data, verbose=0, **kwargs)


def make(learner: str = "ppo", discrete: bool = True, env: Any = None, **kwargs: Any) -> GAIL:
    arguments = {"expert_dataset": shown(discrete), "learner": learner, **LEARNERS[learner]}
    arguments |= {"g_step": 1, "d_step": 4, "d_stepsize": 3e-3, "hidden_size_adversary": 16}
    common = {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}
    env = VecMonitor(DummyVecEnv([lambda: Echo(discrete)] * 4)) if env is None else env
    return GAIL("MlpPolicy", env, **{**arguments, **common, **kwargs})


@pytest.mark.parametrize("learner", LEARNERS)
def test_choices_are_imitated_whatever_the_reward_says(learner: str) -> None:
    model = make(learner)
    obs = np.linspace(-1, 1, 41, dtype=np.float32)[:, None]

    def agreement() -> float:
        probabilities = model.action_probability(obs)
        return float(probabilities[np.arange(41), (obs[:, 0] > 0).astype(int)].mean())

    before = agreement()
    model.learn(8000)
    assert agreement() > 0.75 > before
    assert {episode["r"] for episode in model.ep_info_buffer} == {-8.0}  # the environment's own


def test_the_learner_gets_its_keywords_and_defaults() -> None:
    model = make("ppo", n_epochs=3, gamma=0.5, clip_range=0.4)
    learner = model.policy_learner
    assert isinstance(learner, PPO)
    assert (learner.n_epochs, learner.gamma, learner.clip_range) == (3, 0.5, 0.4)
    assert learner.vf_coef == PPO.Config().vf_coef
    learner = make("trpo", target_kl=0.02).policy_learner
    assert isinstance(learner, TRPO)
    assert (learner.target_kl, learner.cg_max_steps) == (0.02, TRPO.Config().cg_max_steps)
    assert GAIL.Config().learner == "trpo"
    model.gamma = 0.25
    assert model.policy_learner.gamma == 0.25
    model.learning_rate = None
    assert model.schedules["learning_rate"](1.0) == PPO.Config().learning_rate


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"cg_max_steps": 3}, "cg_max_steps is of no use with learner='ppo'"),
        ({"learner": "trpo", "n_epochs": 3}, "n_epochs is of no use with learner='trpo'"),
        ({"learner": "ppoo"}, "did you mean 'ppo'"),
        ({"g_step": 0}, "g_step must be at least 1"),
        ({"clip_range": -1.0}, "clip_range must be above 0"),
        ({"expert_dataset": shown(discrete=False)}, "another environment: its actions"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], text: str) -> None:
    learner = arguments.pop("learner", "ppo")
    with pytest.raises(UserError, match=text) as error:
        if learner == "ppoo":
            GAIL("MlpPolicy", Echo(), learner=learner)
        make(learner, **arguments)
    assert "\n" not in str(error.value)


def test_what_the_agent_was_built_with_stays() -> None:
    model = make()
    with pytest.raises(UserError, match="learner cannot be changed"):
        model.learner = "trpo"
    with pytest.raises(UserError, match="hidden_size_adversary cannot be changed"):
        model.hidden_size_adversary = 5
    model.expert_dataset = None
    with pytest.raises(UserError, match="GAIL learns from demonstrations"):
        model.learn(128)


def test_the_loss_of_the_discriminator() -> None:
    expert, policy = torch.tensor([0.3, -1.0, 2.0]), torch.tensor([0.5, -0.2])
    of_expert, of_policy = torch.sigmoid(expert), torch.sigmoid(policy)
    probabilities = torch.cat([of_expert, of_policy])
    entropy = torch.distributions.Bernoulli(probabilities).entropy().mean()
    expected = -of_expert.log().mean() - (1 - of_policy).log().mean() - 0.1 * entropy
    loss, metrics = discriminator_loss(expert, policy, 0.1)
    torch.testing.assert_close(loss, expected)
    assert float(metrics["expert_accuracy"]) == pytest.approx(2 / 3)
    assert float(metrics["policy_accuracy"]) == pytest.approx(1 / 2)


class Rollouts(BaseCallback):
    """Saves the agent between two rollouts, then resets the environments as a training from the file does."""

    def __init__(self, save: bool) -> None:
        super().__init__()
        self.file = io.BytesIO()
        self.saved = not save

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps == 256 and not self.saved:
            self.saved = True
            self.model.save(self.file)
            self.training_env.seed(self.model.restart_seed())
            self.model._last_obs = self.training_env.reset()
            self.model._last_episode_starts = np.ones(4, bool)
            self.model.rollout_buffer.start(self.model._last_obs)


def test_rewards_are_those_of_the_discriminator() -> None:
    model = make(n_steps=16)
    model.learn(64)
    rollout = model.rollout_buffer
    obs, actions = rollout.flat_obs(model.device), torch.from_numpy(rollout.actions.reshape(-1))
    with torch.no_grad():
        expected = -(1 - torch.sigmoid(model.discriminator(obs, actions))).log()
    np.testing.assert_allclose(rollout.reward_column.reshape(-1), expected.numpy(), atol=1e-5)


def test_one_round_of_the_discriminator_for_several_rollouts() -> None:
    model = make(n_steps=16, g_step=3, d_step=5)
    rounds = []
    model.update_discriminator = lambda obs, actions: rounds.append(len(actions)) or {}
    model.learn(64 * 7)
    assert rounds == [64] * 3


def test_the_discriminator_sees_every_step_of_the_expert() -> None:
    data = shown(train_fraction=0.1)
    model = make(n_steps=64, expert_dataset=data)
    seen: list[Any] = []
    judge = model.discriminator.forward
    model.discriminator.forward = lambda obs, actions: seen.append(obs.flatten()) or judge(obs, actions)
    model.learn(256 * 4)
    assert set(data.observations.flatten().tolist()) <= set(torch.cat(seen).tolist())


def test_a_box_is_judged_as_it_is_executed() -> None:
    model = make(discrete=False, n_steps=16, policy_kwargs={"log_std_init": 2.0, "net_arch": [8]})
    seen = []
    update = model.update_discriminator
    model.update_discriminator = lambda obs, actions: seen.append(actions) or update(obs, actions)
    model.learn(64)
    assert np.abs(model.rollout_buffer.actions).max() > 1.5
    assert float(seen[0].abs().max()) == 1.0


def everything(model: GAIL) -> dict[str, Any]:
    checkpoint = saving.to_checkpoint(model)
    del checkpoint.state["state"]["callbacks"], checkpoint.state["state"]["ep_info_buffer"]
    parts = {**checkpoint.weights, **checkpoint.optimizers, **checkpoint.normalize}
    lists = {name: np.asarray(value).tolist() for name, value in parts.items()}
    return {"state": checkpoint.state, **lists}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("normalized", [False, True])
def test_training_goes_on_to_the_bit(learner: str, normalized: bool) -> None:
    def env() -> Any:
        venv: Any = VecMonitor(DummyVecEnv([Echo] * 4))
        return VecNormalize(venv) if normalized else venv

    model, look = make(learner, env=env(), g_step=2), Rollouts(save=True)
    model.learn(512, look)
    look.file.seek(0)
    torch.manual_seed(7)
    fresh = env()
    again = GAIL.load(look.file, env=fresh, device="cpu", expert_dataset=shown())
    if normalized:
        load_env_state(fresh, again.normalize_state)
    assert again.num_timesteps == 256
    again.learn(256, Rollouts(save=False), reset_num_timesteps=False)
    mine, other = everything(model), everything(again)
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        assert value == other[name], name


def test_discriminator_uses_current_statistics_for_both() -> None:
    env = VecNormalize(DummyVecEnv([Echo] * 2))
    model, judged = make(env=env, g_step=1), []
    look = model.update_discriminator

    def note(obs: Any, actions: Any) -> Any:
        raw = model.rollout_buffer.raw
        present = env.normalize_obs(raw.observations[:-1].reshape(-1, 1))
        judged.append((obs.numpy().copy(), present, np.abs(raw.observations).max()))
        return look(obs, actions)

    model.update_discriminator = note  # type: ignore[method-assign]
    model.learn(128)
    assert judged
    for obs, present, largest_raw in judged:
        np.testing.assert_array_equal(obs, present)
        assert largest_raw <= 1


def test_an_agent_acts_without_its_demonstrations() -> None:
    model = make().learn(128)
    file = io.BytesIO()
    model.save(file)
    again = GAIL.load(file, device="cpu")
    assert again.expert_dataset is None
    obs = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(again.action_probability(obs), model.action_probability(obs))
