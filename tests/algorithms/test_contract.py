"""What every algorithm of the catalogue must do, on every space that it supports."""

from __future__ import annotations

import dataclasses
import inspect

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.config import catalog
from rlzoo.core.errors import TrainingDiverged, UnknownArgument, UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.training.off_policy_loop import off_policy
from rlzoo.training.on_policy_loop import on_policy
from rlzoo.training.population_loop import population
from rlzoo.training.supervised import supervised

ALGORITHMS = [
    name for name in catalog.names() if hasattr(catalog.load(name), "Config")
]  # `her` makes another
TINY_NETS = {"policy_kwargs": {"net_arch": [8]}}
TINY = {
    on_policy: {
        "n_steps": 8,
        "batch_size": 8,
        "n_epochs": 2,
        "buffer_size": 32,
        "replay_start": 8,
        **TINY_NETS,
    },
    supervised: {"batch_size": 8, **TINY_NETS},
    population: {"n_delta": 2, **TINY_NETS},
    off_policy: {
        "buffer_size": 100,
        "learning_starts": 10,
        "batch_size": 8,
        "train_freq": 4,
        "target_update_interval": 8,
        **TINY_NETS,
    },
}

OBSERVATIONS = {
    "Box": spaces.Box(-1, 1, (3,), np.float32),
    "Box64": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "Discrete": spaces.Discrete(4),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(4),
    "Image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
    "Dict": spaces.Dict(
        {
            "v": spaces.Box(-1, 1, (2,)),
            "i": spaces.Box(0, 255, (1, 36, 36), np.uint8),
            "d": spaces.Discrete(3),
        }
    ),
}
ACTIONS = {
    "Box": spaces.Box(np.array([-1, 0], np.float32), np.array([2, 3], np.float32)),
    "Box2d": spaces.Box(-2, 1, (2, 2)),
    "Discrete": spaces.Discrete(3),
    "DiscreteFrom": spaces.Discrete(3, start=5),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
}


class RandomEnv(gym.Env):
    """Random observations; asserts that every action it is given lies in its action space."""

    def __init__(self, observation_space, action_space, length=5):
        self.observation_space, self.action_space, self.length = observation_space, action_space, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self._obs(), {}

    def _obs(self):
        if (
            isinstance(self.observation_space, spaces.Box)
            and not np.isfinite(self.observation_space.low).all()
        ):
            return self.np_random.normal(size=self.observation_space.shape)
        return self.observation_space.sample()

    def action_masks(self):
        return np.ones(sum(choice_counts(self.action_space)), bool)

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.t += 1
        return self._obs(), float(self.np_random.normal()), False, self.t >= self.length, {}


def fields(algo):
    return {field.name for field in dataclasses.fields(catalog.load(algo).Config)}


def policy_for(algo, observation="Box"):
    name = {"Image": "Cnn", "Dict": "MultiInput"}.get(observation, "Mlp")
    if catalog.load(algo).policy_family == "population":
        return "MlpPolicy"  # images are vectors to it
    return f"{name}{'Lstm' if catalog.load(algo).policy_family == 'recurrent' else ''}Policy"


def demonstrations(observation_space, action_space, n_steps=40):
    """Random steps in episodes of five."""
    observation_space.seed(0), action_space.seed(0)
    obs = [observation_space.sample() for _ in range(n_steps)]
    data = {
        "actions": np.stack([action_space.sample() for _ in range(n_steps)]),
        "rewards": np.zeros(n_steps),
        "episode_starts": np.arange(n_steps) % 5 == 0,
        "episode_returns": np.zeros(n_steps // 5),
    }
    if isinstance(observation_space, spaces.Dict):
        data |= {f"obs/{key}": np.stack([row[key] for row in obs]) for key in observation_space.spaces}
    else:
        data["obs"] = (
            np.clip(np.stack(obs), -10, 10) if observation_space.dtype.kind == "f" else np.stack(obs)
        )
    return ExpertDataset(traj_data=data, verbose=0)


def make(algo, observation="Box", action=None, **kwargs):
    cls = catalog.load(algo)
    known = fields(algo) | {"policy_kwargs"}
    tiny = {name: value for name, value in TINY[cls.loop].items() if name in known}
    observation_space, action_space = OBSERVATIONS[observation], ACTIONS[action or supported(algo)[-1]]
    env = RandomEnv(observation_space, action_space)
    if "expert_dataset" in known:
        tiny["expert_dataset"] = demonstrations(observation_space, action_space)
    if "learner" in known:
        tiny["learner"] = "ppo"
    return cls(policy_for(algo, observation), env, **{"seed": 0, "device": "cpu", **tiny, **kwargs})


def weights(model):
    return {name: value.detach().clone() for name, value in model.policy.named_parameters()}


def supported(algo):
    return [name for name, space in ACTIONS.items() if isinstance(space, catalog.load(algo).action_spaces)]


def cases(named):
    """(algorithm, value) for the values that are meant for all algorithms, one loop, or a hyperparameter."""
    return [
        (algo, *case[1:])
        for algo in ALGORITHMS
        for case in named
        if case[0] in ("all", catalog.load(algo).loop) or case[0] in fields(algo)
    ]


@pytest.mark.parametrize(
    ("observation", "algo"),
    [(name, algo) for name in OBSERVATIONS for algo in ALGORITHMS if (name, algo) != ("Dict", "ars")],
)
def test_builds_and_learns_on_every_observation_space(algo, observation):
    model = make(algo, observation, supported(algo)[0])
    before = weights(model)
    model.learn(40)
    after = weights(model)
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any((after[name] != before[name]).any() for name in before)
    assert model.num_timesteps >= 40 and model.n_updates > 0


@pytest.mark.parametrize(
    ("algo", "action"), [(algo, action) for algo in ALGORITHMS for action in supported(algo)]
)
def test_builds_and_learns_on_every_action_space(algo, action):
    model = make(algo, action=action)
    model.learn(40)  # RandomEnv checks each action that is executed
    for deterministic in (True, False):
        single, state = model.predict(OBSERVATIONS["Box"].sample(), deterministic=deterministic)
        assert ACTIONS[action].contains(single if single.shape else single.item())
        assert (state is None) is not getattr(model.policy, "recurrent", False)
        batch, _ = model.predict(np.zeros((4, 3), np.float32), deterministic=deterministic)
        assert batch.shape == (4, *ACTIONS[action].shape)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_parameter_takes_part_in_learning(algo):
    """Two updates on random experience move each tensor of the policy."""
    entropy = {"ent_coef": 0.01} if "ent_coef" in fields(algo) else {}
    model = make(algo, action="Box" if "Box" in supported(algo) else "Discrete", **entropy)
    before = weights(model)
    model.learn(64)
    after = weights(model)
    unmoved = [name for name in before if torch.equal(before[name], after[name])]
    assert [name for name in unmoved if not (algo == "bc" and "value_net" in name)] == []  # it has no critic


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_zero_learning_rate_changes_nothing(algo):
    model = make(algo, learning_rate=0.0)
    before = weights(model)
    model.learn(40)
    after = weights(model)
    of_critic = algo in ("trpo", "gail")  # the length of the actor's step is that of the trust region
    learned = [name for name in before if "value_net" in name or not of_critic]
    assert learned and all(torch.equal(after[name], before[name]) for name in learned)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_same_seed_same_parameters_and_another_seed_others(algo):
    first, second, other = (weights(make(algo, seed=seed).learn(64)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_unsupported_spaces_are_refused_in_one_line(algo):
    with pytest.raises(UserError, match=r"does not support Tuple actions; it supports") as error:
        catalog.load(algo)(
            policy_for(algo), RandomEnv(OBSERVATIONS["Box"], spaces.Tuple([spaces.Discrete(2)]))
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_wrong_keywords_name_the_nearest_right_one(algo):
    with pytest.raises(UnknownArgument, match=r"learning_rat'.*did you mean 'learning_rate'"):
        make(algo, learning_rat=1e-3)
    with pytest.raises(TypeError, match="did you mean 'verbose'"):
        make(algo, verbos=1)


WRONG_VALUES = [
    ("gamma", "gamma", 1.5),
    ("gamma", "gamma", "high"),
    ("n_steps", "n_steps", 0),
    ("n_steps", "n_steps", 2.5),
    ("all", "learning_rate", "linear"),
    ("use_sde", "use_sde", 1),
    (off_policy, "buffer_size", 0),
    (off_policy, "learning_starts", -1),
    (off_policy, "batch_size", 0),
    (off_policy, "gradient_steps", -2),
    (off_policy, "train_freq", 0),
    (off_policy, "train_freq", (1, "epsiode")),
    (off_policy, "train_freq", (1, "step", 2)),
    (off_policy, "replay_buffer_class", dict),
    (off_policy, "replay_buffer_kwargs", 3),
    ("tau", "tau", 1.5),
    ("action_noise", "action_noise", 0.1),
    ("random_exploration", "random_exploration", -0.1),
    ("target_update_interval", "target_update_interval", 0),
    ("policy_delay", "policy_delay", 0),
    ("exploration_fraction", "exploration_fraction", 2),
]


@pytest.mark.parametrize(("algo", "name", "value"), cases(WRONG_VALUES))
def test_wrong_values_are_refused(algo, name, value):
    with pytest.raises(UserError, match=name if name != "learning_rate" else "linear|learning_rate"):
        make(algo, **{name: value})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_signature_shows_every_hyperparameter_with_its_default(algo):
    cls = catalog.load(algo)
    parameters = inspect.signature(cls).parameters
    assert list(parameters)[:2] == ["policy", "env"]
    for field in dataclasses.fields(cls.Config):
        assert parameters[field.name].default == field.default
    assert cls.Config.__dataclass_params__.frozen


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_hyperparameters_read_and_assign_through_the_model(algo):
    model = make(algo)
    candidates = {"gamma": (0.5, 2.0), "batch_size": (5, 0), "n_eval_episodes": (5, 0)}
    name = next(name for name in candidates if name in fields(algo))
    value, wrong = candidates[name]
    setattr(model, name, value)
    assert getattr(model, name) == getattr(model.config, name) == value
    with pytest.raises(UserError, match=name):
        setattr(model, name, wrong)
    assert getattr(model, name) == value
    model.learning_rate = "lin_1e-3"
    assert model.schedules["learning_rate"](0.5) == pytest.approx(5e-4)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_positional_hyperparameters_follow_the_signature(algo):
    cls = catalog.load(algo)
    names = [field.name for field in dataclasses.fields(cls.Config)]
    values = {name: {"expert_dataset": None, "learning_rate": 1e-4}.get(name, 16) for name in names[:2]}
    env = RandomEnv(OBSERVATIONS["Box"], ACTIONS[supported(algo)[-1]])
    model = cls(policy_for(algo), env, *values.values())
    assert all(getattr(model, name) == value for name, value in values.items())


WRONG_ARGUMENTS = [
    ("all", {"policy_kwargs": 5}, "policy_kwargs must be a dictionary, not 5"),
    ("all", {"stats_window_size": "a"}, "stats_window_size must be a whole number, not 'a'"),
    ("all", {"stats_window_size": 0}, "stats_window_size must be at least 1, not 0"),
    ("all", {"seed": -3}, "seed must be at least 0, not -3"),
    ("all", {"seed": 1.5}, "seed must be a whole number or null, not 1.5"),
    ("ent_coef", {"ent_coef": float("nan")}, "ent_coef must be a number.*, not nan"),
    ("n_steps", {"n_steps": float("nan")}, "n_steps must be a whole number, not nan"),
    ("n_steps", {"n_steps": 2**63}, r"n_steps must be a whole number below 2\*\*63, not 9223372036854775808"),
    (off_policy, {"batch_size": 2**62}, "batch_size must be at least 1 and at most 2.14748e"),
    (off_policy, {"replay_buffer_kwargs": {"n_stesp": 3}}, "replay_buffer_kwargs.*n_stesp"),
]


@pytest.mark.parametrize(("algo", "argument", "text"), cases(WRONG_ARGUMENTS))
def test_wrong_arguments_are_named(algo, argument, text):
    with pytest.raises(UserError, match=text) as error:
        make(algo, **argument).learn(8)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_numbers_of_numpy_are_numbers(algo):
    given = {"n_steps": np.int64(16), "gamma": np.float32(0.5), "learning_rate": np.float32(0.25)}
    given = {name: value for name, value in given.items() if name in fields(algo)}
    model = make(algo, **given)
    for name, value in given.items():
        assert getattr(model, name) == value
        assert type(getattr(model, name)) is (int if name == "n_steps" else float)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "does not support Tuple observations; it supports Box"),
        (
            spaces.Dict(a=spaces.Dict(b=spaces.Discrete(2))),
            "does not support Dict observations inside a Dict",
        ),
    ],
)
def test_observations_that_cannot_be_stored_are_refused(algo, space, text):
    from rlzoo import VecEnv

    class Shown(VecEnv):
        def reset(self):
            raise AssertionError("refused before anything runs")

        step_async = reset

    with pytest.raises(UserError, match=text):
        catalog.load(algo)(policy_for(algo), Shown(1, space, ACTIONS[supported(algo)[0]]))


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_divergence_stops_with_the_update_and_the_suspects(algo):
    unlimited = {"kfac_clip": 1e60, "max_grad_norm": 1e60} if "kfac_clip" in fields(algo) else {}
    learning_rate = (
        1e60 if algo == "ars" else 1e30
    )  # 1e30 is a weight like any other where nothing is squared
    model = make(algo, learning_rate=learning_rate, **unlimited)
    with pytest.raises(TrainingDiverged, match=r"NaN or infinite in update \d+.*learning_rate \(1e\+[36]0\)"):
        model.learn(400)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_set_env_wants_the_same_spaces_and_number_of_copies(algo):
    from rlzoo import DummyVecEnv

    model = make(algo)
    with pytest.raises(UserError, match="action_space"):
        model.set_env(RandomEnv(OBSERVATIONS["Box"], spaces.Discrete(77)))
    copies = [lambda: RandomEnv(OBSERVATIONS["Box"], model.action_space) for _ in range(3)]
    with pytest.raises(AssertionError, match=r"made for 1 env.*has 3.*load\(path, env=env\)"):
        model.set_env(DummyVecEnv(copies))
    assert model.n_envs == 1
    model.replace_env(DummyVecEnv(copies))
    model.learn(48)
    assert model.n_envs == 3
    if algo == "ars":
        return  # no episode goes on from one iteration to the next
    assert model.num_timesteps % 3 == 0
    with pytest.raises(UserError, match="episodes of 3 environments, but the new vector has 1"):
        model.replace_env(DummyVecEnv(copies[:1]), force_reset=False)
    assert model.n_envs == 3


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_counting_goes_on_without_reset(algo):
    model = make(algo).learn(40)
    steps, updates = model.num_timesteps, model.n_updates
    model.learn(40, reset_num_timesteps=False)
    assert model.num_timesteps >= steps + 40 and model.n_updates > updates
    model.learn(40)
    assert 40 <= model.num_timesteps < steps + 40


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_learning_without_environment_says_how_to_give_one(algo):
    model = make(algo)
    model.env = None
    with pytest.raises(UserError, match="set_env"):
        model.learn(10)
