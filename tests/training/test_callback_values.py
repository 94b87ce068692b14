"""What callbacks, evaluation hooks and the logger see of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlzoo import (
    A2C,
    ARS,
    DQN,
    PPO,
    BaseCallback,
    CallbackList,
    EveryNTimesteps,
    InvalidActionEnvDiscrete,
    MaskablePPO,
    RecurrentPPO,
    RolloutBuffer,
    evaluate_policy,
)
from rlzoo.callbacks.callbacks import PklCheckpointCallback


class Keep(BaseCallback):
    """Keeps what one step's locals hold."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        self.seen.append(dict(self.locals))
        assert self.locals["new_obs"] is self.locals["new_obs"]
        assert self.locals["new_obs"] is self.model._last_obs
        return self.n_calls < 40


@pytest.mark.parametrize("algorithm", [A2C, DQN])
def test_new_obs_is_one_array_for_all_callbacks(algorithm: Any) -> None:
    first, second = Keep(), Keep()
    algorithm("MlpPolicy", "CartPole-v1", seed=0).learn(40, callback=CallbackList([first, second]))
    for mine, other in zip(first.seen, second.seen, strict=True):
        assert mine["new_obs"] is other["new_obs"]
    steps = [step["new_obs"] for step in first.seen]
    assert len({id(obs) for obs in steps}) == len(steps)  # each step has its own


@pytest.mark.parametrize("algorithm", [A2C, DQN])
def test_changing_stored_rewards_is_an_error(algorithm: Any) -> None:
    def add(locals_: Any, _: Any) -> None:
        locals_["rewards"] += 1

    with pytest.raises(ValueError, match="read-only"):
        algorithm("MlpPolicy", "CartPole-v1").learn(10, callback=add)


def test_reading_locals_does_not_change_training() -> None:
    plain = A2C("MlpPolicy", "CartPole-v1", seed=0).learn(30)
    read = A2C("MlpPolicy", "CartPole-v1", seed=0).learn(30, callback=Keep())
    for name, value in plain.policy.state_dict().items():
        assert (value == read.policy.state_dict()[name]).all(), name


def test_locals_hold_values_and_log_probs_of_rollouts() -> None:
    keep = Keep()
    PPO("MlpPolicy", "CartPole-v1", n_steps=16, seed=0).learn(16, callback=keep)
    step = keep.seen[3]
    assert step["values"].shape == (1, 1) and step["log_probs"].shape == (1,)
    assert step["obs_tensor"].shape == (1, 4) and step["n_steps"] == 4 and step["n_rollout_steps"] == 16


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_metrics_are_recorded_after_a_short_learn(algorithm: Any) -> None:
    arguments = {"n_steps": 16, "n_epochs": 2} if algorithm is PPO else {"learning_starts": 8}
    model = algorithm("MlpPolicy", "CartPole-v1", **arguments).learn(32, log_interval=1000)
    values = model.logger.name_to_value
    assert values["train/n_updates"] == model.n_updates > 0
    assert isinstance(values["train/loss"], float)


def test_evaluation_callback_sees_finished_episodes() -> None:
    model = A2C("MlpPolicy", "CartPole-v1", seed=0)
    finished: list[int] = []

    def hook(locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        assert not np.array_equal(locals_["observations"], locals_["new_observations"])
        assert len(locals_["episode_rewards"]) == len(locals_["episode_lengths"]) == len(finished)
        if locals_["done"]:
            finished.append(locals_["i"])

    evaluate_policy(model, model.get_env(), 3, callback=hook)
    assert finished == [0, 0, 0]


def test_pkl_checkpoints_load_by_their_names(tmp_path: Path) -> None:
    callback = PklCheckpointCallback(20, tmp_path, save_replay_buffer=True)
    DQN("MlpPolicy", "CartPole-v1", buffer_size=100).learn(20, callback=callback)
    model = DQN.load(tmp_path / "rl_model_20_steps", env="CartPole-v1")
    model.load_replay_buffer(tmp_path / "rl_model_replay_buffer_20_steps.pkl")
    assert model.replay_buffer.size() == 20


def test_values_at_the_end_are_of_the_last_observation() -> None:
    class End(BaseCallback):
        def _on_step(self) -> bool:
            self.of_step = self.locals["values"]
            return True

        def _on_rollout_end(self) -> None:
            obs = self.model.policy.obs_to_tensor(self.locals["new_obs"])[0]
            assert torch.allclose(self.locals["values"], self.model.policy.predict_values(obs), atol=1e-6)
            assert not self.locals["values"].equal(self.of_step)
            self.ends = getattr(self, "ends", 0) + 1

    callback = End()
    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1).learn(32, callback=callback)
    assert callback.ends == 2


def test_changing_stored_actions_is_an_error() -> None:
    def change(locals_: Any, _: Any) -> None:
        locals_["buffer_actions"][...] = 0

    with pytest.raises(ValueError, match="read-only"):
        DQN("MlpPolicy", "CartPole-v1").learn(10, callback=change)


def test_assigned_progress_holds_until_the_next_step() -> None:
    model = A2C("MlpPolicy", "CartPole-v1", learning_rate=lambda left: left)
    model._current_progress_remaining = 0.25
    assert model.set_learning_rate(model.policy.optimizer, model.counters) == 0.25
    model._update_current_progress_remaining(30, 60)
    assert model._current_progress_remaining == 0.5
    seen: list[float] = []
    model._current_progress_remaining = 1.0
    model.learn(20, callback=lambda values, _: seen.append(values["self"]._current_progress_remaining))
    assert seen[9] == 0.5 and model._current_progress_remaining == 0.0
    dqn = DQN("MlpPolicy", "CartPole-v1", exploration_fraction=1.0, exploration_final_eps=0.0)
    dqn._update_current_progress_remaining(50, 100)
    assert dqn.exploration_rate == 0.5
    model._total_timesteps = 40
    assert model._current_progress_remaining == 0.5


class Inner(BaseCallback):
    """Reads the reward of each of its calls."""

    def _on_step(self) -> bool:
        self.rewards = [*getattr(self, "rewards", []), float(self.locals["rewards"][0])]
        return True


class EverySecond(BaseCallback):
    """Triggers another callback, which it keeps to itself, every second step."""

    def __init__(self, inner: BaseCallback) -> None:
        super().__init__()
        self.inner, self.told = inner, 0

    def _init_callback(self) -> None:
        self.inner.init_callback(self.model)

    def _on_step(self) -> bool:
        return self.inner.on_step() if self.n_calls % 2 == 0 else True

    def update_child_locals(self, locals_: Any) -> None:
        self.told += "rewards" in locals_
        self.inner.update_locals(locals_)


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [(PPO, {"n_steps": 16, "batch_size": 16}), (DQN, {"learning_starts": 8}), (ARS, {"n_delta": 1})],
)
@pytest.mark.parametrize("nested", [False, True])
def test_locals_are_passed_on_by_a_containing_callback(algorithm: Any, kwargs: Any, nested: bool) -> None:
    outer = EverySecond(Inner())
    callback = [EveryNTimesteps(1, CallbackList([outer]))] if nested else outer
    model = algorithm("LinearPolicy" if algorithm is ARS else "MlpPolicy", "CartPole-v1", seed=0, **kwargs)
    model.learn(32, callback=callback)
    assert outer.n_calls >= 32 and outer.inner.rewards == [1.0] * (outer.n_calls // 2)
    assert outer.told == outer.n_calls  # before every step


@pytest.mark.parametrize("use_masking", [True, False])
@pytest.mark.parametrize("buffer_class", [None, type("Own", (RolloutBuffer,), {"add": RolloutBuffer.add})])
def test_locals_hold_the_action_masks(use_masking: bool, buffer_class: Any) -> None:
    class Masks(BaseCallback):
        def _on_training_start(self) -> None:
            self.pairs: list[Any] = []

        def _on_step(self) -> bool:
            masks = self.locals["action_masks"]
            assert self.locals["use_masking"] is use_masking
            self.pairs.append((masks, int(self.locals["actions"][0])))
            return True

    env = InvalidActionEnvDiscrete(dim=8, n_invalid_actions=6)
    model = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, rollout_buffer_class=buffer_class)
    callback = Masks()
    model.learn(16, callback=callback, use_masking=use_masking)
    if use_masking:
        assert all(masks.shape == (1, 8) and masks[0, action] for masks, action in callback.pairs)
        assert all(masks.sum() == 2 for masks, _ in callback.pairs)
    else:
        assert all(masks is None for masks, _ in callback.pairs)
    assert len(callback.pairs) == 16


@pytest.mark.parametrize("critic", [True, False])
def test_locals_hold_recurrent_states_and_episode_starts(critic: bool) -> None:
    class States(BaseCallback):
        def _on_step(self) -> bool:
            seen.append((self.locals["episode_starts"], self.locals["lstm_states"], self.locals["dones"]))
            return True

    seen: list[Any] = []
    kwargs = {"lstm_hidden_size": 8, "n_lstm_layers": 2, "enable_critic_lstm": critic}
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=64, batch_size=64, policy_kwargs=kwargs)
    model.learn(64, callback=States())
    assert [starts.dtype for starts, _, _ in seen[:1]] == [torch.float32]
    ends = [True, *(bool(dones[0]) for _, _, dones in seen[:-1])]
    assert [bool(starts[0]) for starts, _, _ in seen] == ends and sum(ends) > 1
    for _, states, _ in seen:
        assert [part.shape for pair in (states.pi, states.vf) for part in pair] == [(2, 1, 8)] * 4
        assert states.pi[0].equal(states.vf[0]) is not critic
    columns = model.rollout_buffer.extra_columns["lstm_actor_h"]  # before each step
    for (_, states, _), before_next in zip(seen[:-1], columns[1:], strict=True):
        torch.testing.assert_close(states.pi[0].transpose(0, 1), before_next)


def test_locals_of_ppo_name_no_masks_or_recurrent_states() -> None:
    keep = Keep()
    PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16).learn(16, callback=keep)
    assert not {"action_masks", "use_masking", "episode_starts", "lstm_states"} & keep.seen[0].keys()
