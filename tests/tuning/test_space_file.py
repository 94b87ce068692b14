"""A space of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlzoo.core.errors import UserError
from rlzoo.params.search_parameters import Choice, Float, Int
from rlzoo.tuning.space.space_file import space_from_file

FILE = """\
learning_rate: {low: 1e-5, high: 1e-2, log: true}
gamma: {low: 0, high: 1}
n_steps: {low: 128, high: 1e3, step: 8}
n_epochs: [4, 10]
n_envs: {low: 1, high: 8}
normalize: [true, false]
policy_kwargs:
  net_arch: {choices: [[64, 64], [256, 256]]}
policy_kwargs.log_std_init: {low: -2.0, high: 0}
"""


def test_the_file_is_the_space(tmp_path: Path) -> None:
    (tmp_path / "space.yml").write_text(FILE)
    assert space_from_file(tmp_path / "space.yml", "ppo").rows == {
        "learning_rate": Float(1e-5, 1e-2, log=True),
        "gamma": Float(0.0, 1.0),
        "n_steps": Int(128, 1000, step=8),
        "n_epochs": Choice(4, 10),
        "n_envs": Int(1, 8),
        "normalize": Choice(True, False),
        "policy_kwargs.net_arch": Choice([64, 64], [256, 256]),
        "policy_kwargs.log_std_init": Float(-2.0, 0.0),
    }


@pytest.mark.parametrize(
    ("algo", "text"),
    [
        ("her", "n_sampled_goal: {low: 1, high: 8}\ngoal_selection_strategy: [future, final]\ntau: [0.01]"),
        ("ppo2", "n_epochs: [4]"),
        ("ppo", "policy_kwargs: {activation_fn: [nn.ReLU, tanh]}"),
        ("dqn", "prioritized_replay_alpha: [0.4]"),
        ("ppo_lstm", "policy_kwargs: {lstm_hidden_size: {low: 16, high: 256, log: true}}"),
        ("td3", "noise_type: [normal]\nnoise_std: {low: 0, high: 1}\ntrain_freq: [1, [1, episode]]"),
        ("sac", "ent_coef: [auto, 0.1]\nreplay_buffer_kwargs.n_sampled_goal: [4]\nenv_kwargs.gravity: [9.8]"),
    ],
)
def test_names_that_are_known(tmp_path: Path, algo: str, text: str) -> None:
    (tmp_path / "space.yml").write_text(text)
    assert len(space_from_file(tmp_path / "space.yml", algo).rows) == len(text.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lerning_rate: [1]", "unknown hyperparameter 'lerning_rate'; did you mean 'learning_rate'"),
        ("net_arch: [[64]]", "write policy_kwargs.net_arch"),
        ("policy_kwargs: {net_arc: [[64]]}", "unknown policy keyword 'net_arc'; did you mean 'net_arch'"),
        ("tau: [0.1]", "unknown hyperparameter 'tau'"),
        ("n_timesteps: [1000]", "n_timesteps is the length of each trial"),
        ("learning_rate: {low: 1, high: 0.1}", "the range from 1 to 0.1 is empty"),
        ("learning_rate: {low: 0, high: 0.1, log: true}", "must be above 0"),
        ("learning_rate: {low: 0.1}", "high must be a number, not None"),
        ("learning_rate: {low: 0, high: 1, step: -1}", "step must be above 0"),
        ("gamma: {low: 0, hgh: 1}", "unknown part of gamma 'hgh'; did you mean 'high'"),
        ("gamma: {choices: [0.9], low: 0}", "choices and a range"),
        ("gamma: []", "no choices"),
        ("gamma: 0.9", "must be {low"),
        ("n_epochs: {low: 1.5, high: 3}", "n_epochs must be a whole number"),
        ("batch_size: [many]", "batch_size must be a whole number"),
        ("policy_kwargs.net_arch: [[8]]\npolicy_kwargs: {net_arch: [[4]]}", "given twice"),
        ("gamma: {low: 0.9, high: 2}", "gamma must be at least 0 and at most 1, not 2.0"),
        ("n_epochs: {low: -3, high: 9}", "n_epochs must be at least 1, not -3"),
        ("learning_rate: [1e-3, abc]", "learning_rate: 'abc' is not a schedule"),
        ("n_envs: [1, 0]", "n_envs must be at least 1, not 0"),
        ("policy_kwargs: {log_std_init: [abc]}", "log_std_init must be a number, not 'abc'"),
        ("policy_kwargs: {activation_fn: [Foo]}", "policy_kwargs.activation_fn: unknown activation 'Foo'"),
        ("policy: [MlpPolicy, MlpPolicee]", "unknown policy 'MlpPolicee'; did you mean 'MlpPolicy'"),
        ("noise_type: [none, normal]", "noise_type: PPO has no action noise"),
        ("matmul_precision: [highest, medum]", "unknown matmul_precision 'medum'; did you mean 'medium'"),
        ("- gamma", "not a mapping"),
        ("", "not a mapping"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "space.yml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        space_from_file(path, "ppo")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
