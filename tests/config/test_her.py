"""`her` entries are entries of the algorithm that learns."""

from __future__ import annotations

import warnings

import pytest

from rlzoo.config.her_entries import expand_her
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name, interpret
from rlzoo.core.errors import UserError

OLD = {
    "n_timesteps": 1e6,
    "policy": "MlpPolicy",
    "model_class": "tqc",
    "n_sampled_goal": 8,
    "goal_selection_strategy": "final",
    "gamma": 0.95,
    "policy_kwargs": "dict(net_arch=[512, 512], n_critics=2)",
}


def expand(values):
    expanded = expand_her(RawConfig("her", values))
    return expanded.algo, expanded.values


def test_an_older_entry():
    values = interpret(OLD)
    assert expand(values) == (
        "tqc",
        {
            "n_timesteps": 1e6,
            "policy": "MultiInputPolicy",
            "gamma": 0.95,
            "policy_kwargs": {"net_arch": [512, 512], "n_critics": 2},
            "replay_buffer_class": Name("rlzoo.HerReplayBuffer"),
            "replay_buffer_kwargs": {"n_sampled_goal": 8, "goal_selection_strategy": "final"},
        },
    )
    assert values == interpret(OLD)


@pytest.mark.parametrize("model_class", ["sac", "SAC", "stable_baselines3.SAC", Name("rlzoo.SAC")])
def test_model_class(model_class):
    assert expand({"model_class": model_class})[0] == "sac"


@pytest.mark.parametrize(
    ("model_class", "message"),
    [(None, "needs a model_class"), (3, "needs a model_class"), ("her", "another"), ("sca", "mean 'sac'")],
)
def test_wrong_model_class(model_class, message):
    with pytest.raises(UserError, match=message):
        expand({"model_class": model_class})


def test_arguments_of_the_buffer_in_either_place():
    entry = {"model_class": "sac", "n_sampled_goal": 2, "replay_buffer_kwargs": "dict(copy_info_dict=True)"}
    _, values = expand(entry)
    assert values["replay_buffer_kwargs"] == {"n_sampled_goal": 2, "copy_info_dict": True}
    with pytest.raises(UserError, match="replay_buffer_kwargs must be a mapping"):
        expand({"model_class": "sac", "replay_buffer_kwargs": [1]})


def test_a_policy_for_dicts_stays():
    for policy in ("MultiInputPolicy", "my_package.MyPolicy", Name("my_package.MyPolicy")):
        assert expand({"model_class": "sac", "policy": policy})[1]["policy"] == policy


def test_old_keys_are_dropped_with_a_notice():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        entry = {"model_class": "sac", "online_sampling": False, "max_episode_length": 100}
        values = expand_her(translate_sb2_entry(RawConfig("her", entry))).values
    assert not {"online_sampling", "max_episode_length"} & set(values)
    assert len(caught) == 1
    notices = str(caught[0].message).split("; ")
    assert [notice.split(" is")[0] for notice in notices] == ["online_sampling", "max_episode_length"]


def test_other_algorithms_are_themselves():
    values = {"policy": "MlpPolicy", "online_sampling": True}
    assert expand_her(RawConfig("ppo", values)) == RawConfig("ppo", values)
