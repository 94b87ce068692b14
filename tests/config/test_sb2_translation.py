"""Options under the names of Stable Baselines mean what they meant, and one line says today's names."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from rlzoo.config import catalog
from rlzoo.config.hyperparams import has_old_names, shipped_files
from rlzoo.config.legacy.sb2_options import ASSUMED
from rlzoo.config.legacy.sb2_translation import (
    current_algorithm,
    drop_replaced,
    translate_sb2_entry,
    translate_sb2_kwargs,
)
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name, interpret
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import make_schedule


def translate(algo: str, **values: Any) -> tuple[dict[str, Any], str]:
    """An entry under today's names, and the notice ("" for none)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translated = translate_sb2_entry(RawConfig(algo, values)).values
    assert len(caught) <= 1
    text = str(caught[0].message) if caught else ""
    assert "\n" not in text
    return translated, text


RENAMED = [
    ("ppo", "noptepochs", "n_epochs"),
    ("ppo", "cliprange", "clip_range"),
    ("ppo", "lam", "gae_lambda"),
    ("ppo", "timesteps_per_actorbatch", "n_steps"),
    ("ppo", "clip_param", "clip_range"),
    ("ppo", "entcoeff", "ent_coef"),
    ("ppo", "optim_epochs", "n_epochs"),
    ("ppo", "optim_stepsize", "learning_rate"),
    ("ppo", "optim_batchsize", "batch_size"),
    ("a2c", "epsilon", "rms_prop_eps"),
    ("trpo", "timesteps_per_batch", "n_steps"),
    ("trpo", "cg_iters", "cg_max_steps"),
    ("trpo", "lam", "gae_lambda"),
    ("trpo", "entcoeff", "ent_coef"),
    ("trpo", "vf_stepsize", "learning_rate"),
    ("trpo", "vf_iters", "n_critic_updates"),
    ("ddpg", "nb_train_steps", "gradient_steps"),
    ("ddpg", "nb_rollout_steps", "train_freq"),
    ("ddpg", "memory_limit", "buffer_size"),
    ("dqn", "target_network_update_freq", "target_update_interval"),
]


@pytest.mark.parametrize(("algo", "old", "new"), RENAMED)
def test_another_name(algo: str, old: str, new: str) -> None:
    assert translate(algo, **{old: 7, "gamma": 0.9}) == ({new: 7, "gamma": 0.9}, f"{old} is now {new}")


CONVERTED = [
    ("trpo", {"max_kl": 0.02}, {"target_kl": 0.02, "sum_kl": True}),
    ("ppo", {"nminibatches": 4, "n_steps": 128}, {"n_steps": 128, "batch_size": 32}),
    (
        "ppo",
        {"nminibatches": 4, "n_steps": 128, "n_envs": 8},
        {"n_steps": 128, "batch_size": 256, "n_envs": 8},
    ),
    ("ppo", {"nminibatches": 4, "timesteps_per_actorbatch": 256}, {"n_steps": 256, "batch_size": 64}),
    ("ppo", {"nminibatches": 32}, {"batch_size": 64}),
    ("ppo", {"cliprange_vf": None}, {"clip_range_vf": 0.2}),
    ("ppo", {"cliprange_vf": None, "cliprange": 0.1}, {"clip_range": 0.1, "clip_range_vf": 0.1}),
    (
        "ppo",
        {"cliprange_vf": None, "clip_range": "lin_0.1"},
        {"clip_range": "lin_0.1", "clip_range_vf": "lin_0.1"},
    ),
    ("ppo", {"cliprange_vf": -1}, {"clip_range_vf": None}),
    ("ppo", {"cliprange_vf": 0.3}, {"clip_range_vf": 0.3}),
    (
        "ppo",
        {"optim_stepsize": 0.01, "schedule": "linear"},
        {"learning_rate": "lin_0.01", "clip_range": "lin_0.2"},
    ),
    ("ppo", {"adam_epsilon": 1e-5}, {"policy_kwargs": {"optimizer_kwargs": {"eps": 1e-5}}}),
    ("a2c", {"lr_schedule": "linear", "learning_rate": 0.002}, {"learning_rate": "lin_0.002"}),
    ("a2c", {"lr_schedule": "constant"}, {"learning_rate": 0.0007}),
    ("a2c", {"lr_schedule": "middle_drop", "learning_rate": 1}, {"learning_rate": "middle_drop_1.0"}),
    ("a2c", {"lr_schedule": None, "learning_rate": 1}, {"learning_rate": 1}),
    (
        "a2c",
        {"alpha": 0.9, "policy_kwargs": {"net_arch": [8]}},
        {"policy_kwargs": {"net_arch": [8], "optimizer_kwargs": {"alpha": 0.9}}},
    ),
    ("acktr", {"nprocs": 4}, {}),
    ("acer", {"lr_schedule": "constant", "num_procs": 2}, {"lr_schedule": "constant"}),
    ("gail", {"hidden_size": 32}, {"policy_kwargs": {"net_arch": [32, 32]}}),
    ("sac", {"n_cpu_tf_sess": 1, "full_tensorboard_log": False}, {}),
    (
        "sac",
        {"policy": "CustomSACPolicy"},
        {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [256, 256]}},
    ),
    ("ppo", {"policy": "CustomMlpPolicy"}, {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [16]}}),
    (
        "dqn",
        {"policy": "CustomDQNPolicy", "policy_kwargs": "dict(net_arch=[32])"},
        {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [32], "layer_norm": True, "dueling": True}},
    ),
]


@pytest.mark.parametrize(("algo", "old", "new"), CONVERTED)
def test_a_value_that_is_said_in_another_way(algo: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    given = {key: dict(value) if isinstance(value, dict) else value for key, value in old.items()}
    values, notice = translate(algo, **given)
    assert values == new
    assert given == old
    for name in old.keys() - new.keys() - {"policy"}:
        assert name in notice


def test_schedules_are_those_of_the_time() -> None:
    for name in ("constant", "linear", "middle_drop", "double_linear_con", "double_middle_drop"):
        rate = translate("a2c", lr_schedule=name, learning_rate=2)[0]["learning_rate"]
        assert make_schedule(rate)(1.0) == 2


def test_one_notice_lists_all() -> None:
    _, notice = translate("ppo", n_envs=2, n_steps=8, nminibatches=2, noptepochs=3, n_cpu_tf_sess=1)
    assert notice == (
        "noptepochs is now n_epochs; n_cpu_tf_sess is no longer needed: PyTorch's threads are set by "
        "--num-threads or torch.set_num_threads; nminibatches=2 is now batch_size=8"
    )


@pytest.mark.parametrize("algo", ["ppo", "a2c", "her", "qrdqn", "tqc"])
def test_todays_names_are_let_through_without_a_notice(algo: str) -> None:
    values = {
        "policy": "MlpPolicy",
        "n_steps": 5,
        "learning_rate": "lin_0.1",
        "misspelt": 1,
        "model_class": "sac",
    }
    assert translate(algo, **values) == (values, "")


@pytest.mark.parametrize(
    ("algo", "values", "message"),
    [
        ("ppo", {"cliprange": 0.1, "clip_range": 0.2}, "'cliprange' \\(old\\) and 'clip_range' say the same"),
        (
            "ppo",
            {"nminibatches": 4, "batch_size": 64},
            "'nminibatches' \\(old\\) and 'batch_size' say the same",
        ),
        (
            "ppo",
            {"noptepochs": 4, "optim_epochs": 4},
            "'noptepochs' \\(old\\) and 'optim_epochs' say the same",
        ),
        (
            "a2c",
            {"alpha": 0.9, "policy_kwargs": {"optimizer_kwargs": {"alpha": 0.9}}},
            "'alpha' \\(old\\) and 'policy_kwargs.optimizer_kwargs.alpha' say the same",
        ),
        ("ppo", {"nminibatches": 3, "n_steps": 128, "n_envs": 2}, "3 does not divide .* = 128 \\* 2 = 256"),
        ("ppo", {"nminibatches": 0}, "nminibatches must be an integer of at least 1, not 0"),
        ("ppo", {"nminibatches": 4, "n_steps": "many"}, "n_steps must be an integer"),
        ("a2c", {"lr_schedule": "linaer"}, "unknown lr_schedule 'linaer'; did you mean 'linear'"),
        (
            "a2c",
            {"lr_schedule": "linear", "learning_rate": "lin_0.1"},
            "needs a learning_rate that is a number",
        ),
        ("ddpg", {"memory_policy": "Mine"}, "memory_policy is no longer an option: replay_buffer_class"),
        ("ddpg", {"render": True}, "render is no longer an option"),
    ],
)
def test_mistakes_are_one_line(algo: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        translate(algo, **values)
    assert "\n" not in str(caught.value)


def test_a_memory_limit_of_none_leaves_the_buffer_size_alone() -> None:
    assert translate("ddpg", memory_limit=None) == ({}, "")
    assert translate("ddpg", memory_limit=None, buffer_size=9) == ({"buffer_size": 9}, "")


def test_what_is_off_needs_no_error() -> None:
    values, notice = translate("ddpg", render=False, eval_env=None, nb_eval_steps=100)
    assert values == {} and "nb_eval_steps" in notice


# ---------------------------------------------------------------------- ppo1 and ppo2


def test_ppo2_has_its_own_defaults() -> None:
    values, notice = translate("ppo2", policy="MlpPolicy", n_envs=8)
    assert values == {
        "policy": "MlpPolicy",
        "n_envs": 8,
        "gamma": 0.99,
        "n_steps": 128,
        "ent_coef": 0.01,
        "learning_rate": 2.5e-4,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "gae_lambda": 0.95,
        "batch_size": 256,
        "n_epochs": 4,
        "clip_range": 0.2,
        "clip_range_vf": 0.2,
    }
    assert notice == "ppo2 is now ppo"
    assert [current_algorithm(name) for name in ("ppo1", "ppo2", "sac")] == ["ppo", "ppo", "sac"]


def test_ppo1_has_its_own_defaults() -> None:
    assert translate("ppo1", policy="MlpPolicy")[0] == {
        "policy": "MlpPolicy",
        "gamma": 0.99,
        "n_steps": 256,
        "clip_range": "lin_0.2",
        "ent_coef": 0.01,
        "n_epochs": 4,
        "learning_rate": "lin_0.001",
        "batch_size": 64,
        "gae_lambda": 0.95,
        "policy_kwargs": {"optimizer_kwargs": {"eps": 1e-5}},
        "vf_coef": 1.0,
        "max_grad_norm": float("inf"),
    }


def test_what_is_given_under_either_name_replaces_a_default() -> None:
    values, notice = translate("ppo2", batch_size=64, cliprange="lin_0.1", clip_range_vf=None, noptepochs=10)
    assert values["batch_size"] == 64 and values["n_epochs"] == 10
    assert values["clip_range"] == "lin_0.1" and values["clip_range_vf"] is None
    assert notice == "ppo2 is now ppo; noptepochs is now n_epochs; cliprange is now clip_range"
    values, _ = translate("ppo1", learning_rate="lin_0.1", policy_kwargs={"net_arch": [8]})
    assert values["learning_rate"] == "lin_0.1" and values["clip_range"] == 0.2
    assert values["policy_kwargs"] == {"net_arch": [8]}


def test_todays_values_of_an_old_class_stay_as_they_are() -> None:
    """What is written into a run folder is read again under the same name."""
    for algo in ("ppo1", "ppo2"):
        once = translate(algo, policy="MlpPolicy", n_envs=2)[0]
        assert translate(algo, **once) == (once, f"{algo} is now ppo")


# ---------------------------------------------------------------------- overrides, hindsight, constructors


@pytest.mark.parametrize(
    ("algo", "values", "overrides", "kept"),
    [
        ("ppo", {"clip_range": 0.2, "gamma": 0.9}, {"cliprange": 0.1}, {"gamma": 0.9}),
        ("ppo2", {"cliprange": 0.2, "lam": 0.9}, {"clip_range": 0.1}, {"lam": 0.9}),
        ("ppo2", {"batch_size": 64}, {"nminibatches": 4}, {}),
        ("ppo2", {"nminibatches": 4}, {"n_envs": 4}, {"nminibatches": 4}),
        ("a2c", {"learning_rate": 0.1}, {"lr_schedule": "linear"}, {"learning_rate": 0.1}),
        ("ppo", {"policy_kwargs": {"a": 1}}, {"policy_kwargs": {"b": 1}}, {"policy_kwargs": {"a": 1}}),
        ("her", {"model_class": "ddpg", "memory_limit": 1}, {"buffer_size": 2}, {"model_class": "ddpg"}),
    ],
)
def test_overrides_take_the_place_of_the_other_name(
    algo: str, values: dict[str, Any], overrides: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert drop_replaced(algo, values, overrides) == kept


def test_hindsight_replay_has_the_options_of_its_learner() -> None:
    values, notice = translate(
        "her", model_class="ddpg", nb_rollout_steps=20, online_sampling=True, max_episode_length=None
    )
    assert values == {"model_class": "ddpg", "train_freq": 20}
    assert notice.count(";") == 1 and "online_sampling" in notice and "train_freq" in notice


def test_texts_of_a_file_are_read_first() -> None:
    values, _ = translate("a2c", **interpret({"policy_kwargs": "dict(net_arch=[8])", "alpha": 0.9}))
    assert values["policy_kwargs"] == {"net_arch": [8], "optimizer_kwargs": {"alpha": 0.9}}


def test_subclass_inherits_old_options_unless_redefined() -> None:
    class Config:
        __dataclass_fields__ = {"noptepochs": None}

    class PPO:
        pass

    class Mine(PPO):
        pass

    class Own(PPO):
        pass

    Own.Config = Config  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert translate_sb2_kwargs(Mine, {"noptepochs": 3}, {}) == {"n_epochs": 3}
    assert translate_sb2_kwargs(Own, {"noptepochs": 3}, {}) == {"noptepochs": 3}
    assert translate_sb2_kwargs(dict, {"noptepochs": 3}, {}) == {"noptepochs": 3}


def test_assumed_defaults_are_those_of_the_algorithms() -> None:
    import rlzoo

    for name, assumed in ASSUMED.items():
        for option, value in assumed.items():
            default = getattr(getattr(rlzoo, name).Config, option)
            assert make_schedule(default)(1.0) == value, (name, option)


def test_translation_leaves_entries_without_old_names() -> None:
    """`resolve` skips the translation of these."""
    skipped = 0
    for algo in catalog.names():
        for file in shipped_files(algo):
            for entry, values in file.entries.items():
                raw = RawConfig(algo, values, dict.fromkeys(values, entry))
                if not has_old_names(algo, values):
                    skipped += 1
                    assert translate_sb2_entry(raw) == raw
    assert skipped > 100


@pytest.mark.parametrize(
    ("algo", "values"),
    [
        ("ppo2", {"n_steps": 8}),
        ("ppo", {"lam": 0.9}),
        ("her", {"model_class": "sac", "online_sampling": True}),
        ("sac", {"policy": "CustomSACPolicy"}),
        ("sac", {"policy": Name("utils.policies.CustomSACPolicy")}),
    ],
)
def test_old_names_are_seen(algo: str, values: dict[str, Any]) -> None:
    assert has_old_names(algo, values)
