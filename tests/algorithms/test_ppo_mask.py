"""MaskablePPO: only allowed actions, learned from with the masks they were chosen under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.algorithms.on_policy.ppo_mask import MaskablePPO
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.envs.action_masks import ActionMasker, get_action_masks
from rlzoo.envs.examples.toy import FakeImageEnv, IdentityEnv, SimpleMultiObsEnv
from rlzoo.envs.examples.toy_invalid_actions import (
    InvalidActionEnv,
    InvalidActionEnvDiscrete,
    InvalidActionEnvMultiBinary,
    InvalidActionEnvMultiDiscrete,
)
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.evaluation.evaluate import evaluate_policy
from rlzoo.metrics.logger import configure
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy

SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 0, "device": "cpu"}
SPACES = {
    "discrete": lambda: InvalidActionEnvDiscrete(dim=6, n_invalid_actions=4),
    "multi_discrete": lambda: InvalidActionEnvMultiDiscrete(dims=[3, 4], n_invalid_actions=4),
    "multi_binary": lambda: InvalidActionEnvMultiBinary(dims=4, n_invalid_actions=3),
}


def test_learn_logs_each_rollout(tmp_path: Path) -> None:
    model = MaskablePPO("MlpPolicy", DummyVecEnv([SPACES["discrete"]]), **SMALL)
    model.set_logger(configure(tmp_path, ["csv"]))
    model.learn(96)
    assert len((tmp_path / "progress.csv").read_text().splitlines()) == 4  # with the line of names


def is_allowed(action: Any, masks: np.ndarray, space: spaces.Space[Any]) -> bool:
    counts = choice_counts(space)
    return bool(masks[np.cumsum([0, *counts[:-1]]) + np.ravel(action)].all())


class Strict(InvalidActionEnv):
    """Raises for an invalid action."""

    def step(self, action: Any) -> Any:
        assert is_allowed(action, self.action_masks(), self.action_space), "an invalid action"
        return super().step(action)


def strict(name: str) -> Any:
    example = SPACES[name]()
    return lambda: Strict(example.action_space, 10, example.n_invalid_actions)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_only_allowed_actions_are_taken_and_predicted(name: str, vector: Any) -> None:
    if vector is SubprocVecEnv and name != "discrete":
        pytest.skip("one kind is enough")
    venv = vector([strict(name)] * 2)
    try:
        model = MaskablePPO("MlpPolicy", venv, **SMALL).learn(128)
        obs = venv.reset()
        for deterministic in (True, False):
            for _ in range(12):
                actions, state = model.predict(
                    obs, deterministic=deterministic, action_masks=get_action_masks(venv)
                )
                assert state is None
                obs = venv.step(actions)[0]
    finally:
        venv.close()


def test_the_rollout_is_learned_from_with_its_masks() -> None:
    """The log-probabilities of the update are those of the masked policy."""
    model = MaskablePPO("MlpPolicy", DummyVecEnv([strict("discrete")] * 2), **SMALL)
    before = {}

    def update(rollout: Any, counters: Any) -> dict[str, Any]:
        columns = model.read_rollout(rollout)
        before["log_probs"], *_ = model.old_values(rollout, columns)
        before["columns"] = columns
        return {}

    model.update = update  # type: ignore[method-assign]
    model.learn(64)
    columns = before["columns"]
    masks = columns.context["action_masks"]
    assert masks.shape == (64, 6) and masks.sum(dim=1).unique().tolist() == [2]
    assert masks.gather(1, columns.actions.unsqueeze(1)).all()
    with torch.no_grad():
        latent = model.policy.get_distribution(columns.obs).logits
    expected = latent.masked_fill(~masks, -torch.inf).log_softmax(1)
    chosen = expected.gather(1, columns.actions.unsqueeze(1)).squeeze(1)
    assert torch.allclose(before["log_probs"], chosen, atol=1e-6)


def test_rollout_buffer_shows_its_action_masks() -> None:
    model = MaskablePPO("MlpPolicy", DummyVecEnv([strict("discrete")] * 2), **SMALL).learn(64)
    masks = model.rollout_buffer.action_masks
    assert masks.shape == (32, 2, 6) and masks.dtype == np.float32
    assert (masks.sum(axis=2) == 2).all()
    assert np.take_along_axis(masks, model.rollout_buffer.actions.astype(int), axis=2).all()
    plain = MaskablePPO("MlpPolicy", DummyVecEnv([strict("discrete")] * 2), **SMALL)
    assert not hasattr(plain.make_rollout_buffer(plain.env), "action_masks")


def test_a_mask_that_allows_everything_changes_nothing() -> None:
    """Then MaskablePPO is PPO: to the bit without masks, to rounding with them (they are for PyTorch)."""
    plain = PPO("MlpPolicy", IdentityEnv(4, ep_length=10), **SMALL).learn(96)
    free = ActionMasker(IdentityEnv(4, ep_length=10), lambda env: np.ones(4, bool))
    masked = MaskablePPO("MlpPolicy", free, **SMALL).learn(96)
    unmasked = MaskablePPO("MlpPolicy", IdentityEnv(4, ep_length=10), **SMALL).learn(96, use_masking=False)
    for name, value in plain.policy.state_dict().items():
        torch.testing.assert_close(value, masked.policy.state_dict()[name], rtol=1e-5, atol=1e-6)
        assert torch.equal(value, unmasked.policy.state_dict()[name]), name


def test_masks_make_a_large_choice_learnable() -> None:
    kwargs = {"n_steps": 250, "batch_size": 125, "gamma": 0.0, "learning_rate": 1e-2}
    returns = {}
    for cls in (MaskablePPO, PPO):
        env = InvalidActionEnvDiscrete(dim=40, n_invalid_actions=36)
        model = cls("MlpPolicy", env, seed=0, device="cpu", **kwargs).learn(1500)
        returns[cls], _ = evaluate_policy(model, env, 3, warn=False)
    assert returns[MaskablePPO] >= 80 > 40 > returns[PPO]


@pytest.mark.parametrize("learn_first", [True, False])
def test_an_environment_without_masks(learn_first: bool) -> None:
    model = MaskablePPO("MlpPolicy", IdentityEnv(4), **SMALL)
    with pytest.raises(UserError, match=r"no action_masks\(\).*ActionMasker.*use_masking=False") as error:
        model.learn(32)
    assert "\n" not in str(error.value)
    model.learn(32, use_masking=False)


class Forbidding(IdentityEnv):
    """Forbids everything after twenty steps."""

    def action_masks(self) -> np.ndarray:
        return np.full(3, self.current_step < 20)


def test_all_invalid_mask_ends_training_with_one_line() -> None:
    model = MaskablePPO("MlpPolicy", Forbidding(3), **SMALL)
    with pytest.raises(UserError, match="action mask of environment 0 forbids every choice") as error:
        model.learn(64)
    assert "\n" not in str(error.value)


def test_predict_takes_masks_of_one_observation_or_a_batch() -> None:
    model = MaskablePPO("MlpPolicy", InvalidActionEnvDiscrete(3), **SMALL)
    action, _ = model.predict(1, action_masks=np.array([False, False, True]))
    assert action == 2
    actions, _ = model.predict(np.array([0, 1]), action_masks=[[True, False, False], [False, True, False]])
    assert actions.tolist() == [0, 1]
    with pytest.raises(UserError, match=r"shape \(2, 3\)"):
        model.predict(np.array([0, 1]), action_masks=[True, False, False])
    with pytest.raises(UserError, match="forbids every choice"):
        model.predict(1, action_masks=[False, False, False])


def test_predict_leaves_nothing_out() -> None:
    """Dropout is for updates: after `predict`, the policy is in evaluation mode."""
    kwargs = {"activation_fn": torch.nn.Dropout, "ortho_init": False}
    model = MaskablePPO("MlpPolicy", InvalidActionEnvDiscrete(30), policy_kwargs=kwargs, **SMALL)
    model.policy.set_training_mode(True)
    actions = {int(model.predict(1, deterministic=True)[0]) for _ in range(20)}
    assert len(actions) == 1 and not model.policy.training


def test_action_probability_under_masks() -> None:
    model = MaskablePPO("MlpPolicy", InvalidActionEnvDiscrete(3), **SMALL)
    masks = [True, False, True]
    free = model.action_probability(1)
    probabilities = model.action_probability(1, action_masks=masks)
    np.testing.assert_allclose(probabilities, free * masks / (free * masks).sum(), atol=1e-6)
    assert model.action_probability(1, actions=[2], action_masks=masks) == pytest.approx(probabilities[2])


def test_masks_go_with_a_saved_agent(tmp_path: Path) -> None:
    env = DummyVecEnv([strict("multi_discrete")])
    model = MaskablePPO("MlpPolicy", env, **SMALL).learn(64)
    model.save(tmp_path / "agent")
    loaded = MaskablePPO.load(tmp_path / "agent", env=env)
    obs = env.reset()
    masks = get_action_masks(env)
    for found, expected in zip(
        loaded.predict(obs, deterministic=True, action_masks=masks),
        model.predict(obs, deterministic=True, action_masks=masks),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == 96


def test_box_actions_and_policies_without_masks_are_refused() -> None:
    class Own(ActorCriticPolicy):
        pass

    with pytest.raises(UserError, match="MaskablePPO does not support Box actions; it supports Discrete"):
        MaskablePPO("MlpPolicy", "Pendulum-v1")
    with pytest.raises(UserError, match="Own takes no action masks: derive it from MaskableActorCritic"):
        MaskablePPO(Own, IdentityEnv(3))


@pytest.mark.parametrize(
    ("policy", "env"), [("CnnPolicy", FakeImageEnv), ("MultiInputPolicy", SimpleMultiObsEnv)]
)
def test_images_and_dicts(policy: str, env: Any) -> None:
    n_actions = env().action_space.n
    allowed = np.arange(n_actions) % 2 == 0

    class Even(ActionMasker):
        def step(self, action: Any) -> Any:
            assert action % 2 == 0
            return super().step(action)

    vector = DummyVecEnv([lambda: Even(env(), lambda _: allowed)])
    model = MaskablePPO(policy, vector, **{**SMALL, "n_steps": 8, "batch_size": 8}).learn(16)
    assert model.num_timesteps == 16
