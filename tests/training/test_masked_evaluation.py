"""Evaluation asks for masks where the agent takes them and the environment has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.algorithms.on_policy.ppo_mask import MaskablePPO
from rlzoo.callbacks.callbacks import EvalCallback, MaskableEvalCallback
from rlzoo.core.errors import UserError
from rlzoo.envs.action_masks import ActionMasker
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.evaluation.evaluate import evaluate_policy


class Steered(IdentityEnv):
    """The mask leaves the right action alone."""

    def action_masks(self) -> np.ndarray:
        return np.arange(self.action_space.n) == self.state


def make(cls: Any = MaskablePPO, env: Any = Steered) -> Any:
    return cls("MlpPolicy", env(8), n_steps=8, batch_size=8, n_epochs=1, seed=0, device="cpu")


def test_masks_are_used_where_they_can_be() -> None:
    for use_masking in (None, True):
        mean, std = evaluate_policy(make(), make_vec_env(lambda: Steered(8), 2), 4, use_masking=use_masking)
        assert (mean, std) == (100.0, 0.0)
    mean, _ = evaluate_policy(make(), Steered(8), 2, warn=False, use_masking=False)
    assert mean < 60
    mean, _ = evaluate_policy(make(), IdentityEnv(8), 2, warn=False)
    assert mean < 60
    mean, _ = evaluate_policy(make(PPO), Steered(8), 2, warn=False)
    assert mean < 60


def test_masks_that_are_asked_for_and_cannot_be_had() -> None:
    with pytest.raises(UserError, match=r"no action_masks\(\) method"):
        evaluate_policy(make(), IdentityEnv(8), warn=False, use_masking=True)
    with pytest.raises(UserError, match="PPO takes no action masks"):
        evaluate_policy(make(PPO), Steered(8), warn=False, use_masking=True)


@pytest.mark.parametrize(
    ("callback", "masked"),
    [(EvalCallback, True), (MaskableEvalCallback, True), (MaskableEvalCallback, False)],
)
def test_callbacks(callback: Any, masked: bool, tmp_path: Any) -> None:
    given = {} if masked else {"use_masking": False}
    hook = callback(
        make_vec_env(lambda: Steered(8)),
        eval_freq=8,
        n_eval_episodes=2,
        verbose=0,
        log_path=tmp_path,
        **given,
    )
    make().learn(8, callback=hook)
    results = np.load(tmp_path / "evaluations.npz")["results"]
    assert (results < 60).all() if given else (results == 100).all()


def test_a_callback_without_masks_is_refused_before_the_training() -> None:
    hook = MaskableEvalCallback(make_vec_env(lambda: IdentityEnv(8)), eval_freq=8)
    model = make()
    with pytest.raises(UserError, match=r"no action_masks\(\) method"):
        model.learn(16, callback=hook)
    assert model.num_timesteps == 0


def test_playing_an_agent_asks_for_masks() -> None:
    from rlzoo.evaluation.evaluate import play_episodes

    venv = make_vec_env(lambda: ActionMasker(IdentityEnv(8), lambda env: np.arange(8) == env.state), 2)
    assert play_episodes(make(), venv, 2).returns == [100.0, 100.0]
