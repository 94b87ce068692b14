"""The complete policy as one module, against `predict` behind the wrappers of the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import MISSING
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.export.description import describe
from rlzoo.export.observation_layers import observation_parts
from rlzoo.export.policy_module import PolicyModule

SMALL = {"net_arch": [16]}
OFF = {"buffer_size": 100}
N = 20


class ShiftedActions(gym.Env):
    """Discrete observations and actions that begin at other numbers than 0."""

    observation_space = spaces.MultiDiscrete([3, 4], start=np.array([1, -2]))
    action_space = spaces.Discrete(5, start=-2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


AGENTS = {
    "ppo": lambda: rlzoo.PPO("MlpPolicy", "CartPole-v1", policy_kwargs=SMALL),
    "ppo clips a Box": lambda: rlzoo.PPO("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL),
    "a2c gSDE squashed": lambda: rlzoo.A2C(
        "MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs={**SMALL, "squash_output": True}
    ),
    "trpo": lambda: rlzoo.TRPO("MlpPolicy", "Acrobot-v1", policy_kwargs=SMALL),
    "acktr": lambda: rlzoo.ACKTR("MlpPolicy", "CartPole-v1", policy_kwargs=SMALL),
    "acer": lambda: rlzoo.ACER("MlpPolicy", "CartPole-v1", policy_kwargs=SMALL),
    "ars": lambda: rlzoo.ARS("LinearPolicy", "Pendulum-v1"),
    "dqn dueling": lambda: rlzoo.DQN(
        "MlpPolicy", "CartPole-v1", policy_kwargs={**SMALL, "dueling": True}, **OFF
    ),
    "qrdqn": lambda: rlzoo.QRDQN("MlpPolicy", "CartPole-v1", policy_kwargs=SMALL, **OFF),
    "sac gSDE": lambda: rlzoo.SAC("MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs=SMALL, **OFF),
    "td3": lambda: rlzoo.TD3("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, **OFF),
    "ddpg": lambda: rlzoo.DDPG("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, **OFF),
    "tqc": lambda: rlzoo.TQC("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, **OFF),
    "crossq": lambda: rlzoo.CrossQ("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, **OFF),
    "her": lambda: rlzoo.HER("MlpPolicy", rlzoo.BitFlippingEnv(3), rlzoo.DQN, policy_kwargs=SMALL, **OFF),
    "multi-discrete": lambda: rlzoo.PPO("MlpPolicy", rlzoo.IdentityEnvMultiDiscrete(3), policy_kwargs=SMALL),
    "multi-binary": lambda: rlzoo.PPO("MlpPolicy", rlzoo.IdentityEnvMultiBinary(3), policy_kwargs=SMALL),
    "shifted": lambda: rlzoo.PPO("MlpPolicy", ShiftedActions(), policy_kwargs=SMALL),
    "discrete observations": lambda: rlzoo.DQN("MlpPolicy", "FrozenLake-v1", policy_kwargs=SMALL, **OFF),
}


def observations(space: spaces.Space[Any], n: int = N) -> Any:
    """A batch of random observations."""
    space.seed(0)
    samples = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in space.spaces}
    return np.stack(samples)


def run(module: PolicyModule, obs: Any, *others: Any) -> list[np.ndarray]:
    """What the module gives for observations as the environment shows them."""
    arrays = [obs[port.name] if isinstance(obs, dict) else obs for port in module.inputs[: len(module.parts)]]
    given = [torch.from_numpy(np.asarray(array)) for array in (*arrays, *others)]
    outputs = module(*given)
    return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]


@pytest.mark.parametrize("name", AGENTS)
def test_module_acts_as_predict_does(name):
    model = AGENTS[name]()
    module = PolicyModule(model)
    obs = observations(model.observation_space)
    expected, _ = model.predict(obs, deterministic=True)
    (actions,) = run(module, obs)
    assert actions.dtype == expected.dtype and actions.shape == expected.shape
    np.testing.assert_allclose(actions, expected, atol=1e-6)


def test_module_holds_what_acts_and_no_more():
    model = rlzoo.SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=SMALL, **OFF)
    names = [name for name, _ in PolicyModule(model).named_parameters()]
    assert names and not [name for name in names if "critic" in name]
    assert all(parameter.requires_grad for parameter in model.policy.actor.parameters())


def test_export_leaves_gsde_noise_of_a_training_agent_alone():
    model = rlzoo.SAC("MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs=SMALL, **OFF)
    model.policy.reset_noise(1)  # with a graph, as in training
    noise = model.policy.actor.action_dist.exploration_mat
    PolicyModule(model)
    assert model.policy.actor.action_dist.exploration_mat is noise and noise.requires_grad


@pytest.mark.parametrize("env", ["IdentityEnvMultiDiscrete", "IdentityEnvMultiBinary", "IdentityEnvBox"])
def test_an_agent_is_exported_after_it_has_learned(env):
    model = rlzoo.PPO("MlpPolicy", getattr(rlzoo, env)(), n_steps=8, batch_size=8, policy_kwargs=SMALL)
    model.learn(8)
    obs = observations(model.observation_space)
    (actions,) = run(PolicyModule(model), obs)
    np.testing.assert_allclose(actions, model.predict(obs, deterministic=True)[0], atol=1e-6)


@pytest.mark.parametrize("algo", ["A2C", "SAC", "TQC"])
def test_parameters_of_gsde_stay_parameters_after_learning(algo):
    model = getattr(rlzoo, algo)("MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs=SMALL)
    model.learning_starts = 5
    copied = PolicyModule(model.learn(10)).policy
    held = dict(copied.named_parameters())
    assert all(isinstance(value, torch.nn.Parameter) for value in held.values())  # as torch.export asks
    assert [name for name in held if name.endswith("log_std")]


def test_masked_multi_discrete_is_exported_after_learning():
    env = rlzoo.InvalidActionEnvMultiDiscrete()
    model = rlzoo.MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, policy_kwargs=SMALL).learn(8)
    assert PolicyModule(model).is_masked


def trained(venv: Any) -> Any:
    """Some steps, for statistics that are not those of the start."""
    venv.action_space.seed(0)
    venv.reset()
    for _ in range(30):
        venv.step(np.stack([venv.action_space.sample() for _ in range(venv.num_envs)]))
    return venv


def test_normalisation_with_clipping_is_part_of_the_module():
    venv = trained(
        rlzoo.VecNormalize(rlzoo.make_vec_env("Pendulum-v1", 2, seed=0), clip_obs=0.8, epsilon=0.1)
    )
    model = rlzoo.PPO("MlpPolicy", venv, policy_kwargs=SMALL)
    raw = observations(venv.venv.observation_space)
    scaled = venv.normalize_obs(raw)
    assert (np.abs(scaled) == np.float32(0.8)).any()
    (actions,) = run(PolicyModule(model), raw)
    np.testing.assert_allclose(actions, model.predict(scaled, deterministic=True)[0], atol=1e-6)


def test_normalised_keys_of_a_dict_are_those_of_vec_normalize():
    env = rlzoo.SimpleMultiObsEnv(discrete_actions=False)
    venv = trained(rlzoo.VecNormalize(rlzoo.make_vec_env(lambda: env, 1, seed=0), norm_obs_keys=["vec"]))
    model = rlzoo.PPO("MultiInputPolicy", venv, policy_kwargs=SMALL)
    module = PolicyModule(model)
    raw = observations(venv.venv.observation_space, 3)
    assert [port.shape for port in module.inputs] == [
        ("batch", *raw[key].shape[1:]) for key in ("img", "vec")
    ]
    expected = model.predict(venv.normalize_obs(raw), deterministic=True)[0]
    np.testing.assert_allclose(run(module, raw)[0], expected, atol=1e-6)


def test_double_precision_of_observations_is_kept():
    venv = trained(rlzoo.VecNormalize(rlzoo.make_vec_env("HalfCheetah-v5", 1, seed=0)))
    module = PolicyModule(rlzoo.PPO("MlpPolicy", venv, policy_kwargs=SMALL))
    assert module.inputs[0].dtype == "float64"


def test_stacks_of_normalised_frames_mark_those_that_are_missing():
    venv = rlzoo.VecNormalize(rlzoo.make_vec_env("Pendulum-v1", 1, seed=0))
    stacked = trained(rlzoo.VecFrameStack(venv, 3))
    venv.training = False
    model = rlzoo.PPO("MlpPolicy", stacked, policy_kwargs=SMALL)
    module = PolicyModule(model)
    frames = [np.full((1, 3), MISSING, np.float32)] * 2
    obs = stacked.reset()
    for _ in range(4):  # the first two with frames from before the episode
        frames = [*frames[-2:], venv.get_original_obs()]
        action, _ = model.predict(obs, deterministic=True)
        np.testing.assert_allclose(run(module, np.concatenate(frames, 1))[0], action, atol=1e-6)
        obs, _, _, _ = stacked.step(action)
    told = describe(model, module)["frame_stack"]["observation"]
    assert told == {"n_frames": 3, "axis": 0, "missing": MISSING, "order": "oldest first, newest last"}


def test_stacked_images_come_in_with_their_channels_last():
    env = rlzoo.FakeImageEnv(screen_height=36, screen_width=36, n_channels=1)
    venv = rlzoo.VecFrameStack(rlzoo.make_vec_env(lambda: env, 1, seed=0), 4)
    model = rlzoo.PPO("CnnPolicy", venv, policy_kwargs={"features_extractor_kwargs": {"features_dim": 16}})
    module = PolicyModule(model)
    assert module.inputs[0].shape == ("batch", 36, 36, 4) and model.observation_space.shape == (4, 36, 36)
    images = observations(venv.observation_space, 5)
    expected = model.predict(np.moveaxis(images, -1, 1), deterministic=True)[0]
    assert (run(module, images)[0] == expected).all()
    assert observation_parts(model)["observation"].stack.missing == 0


@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "MlpLnLstmPolicy"])
def test_recurrent_state_comes_in_and_goes_out(policy):
    kwargs = {**SMALL, "lstm_hidden_size": 6, "n_lstm_layers": 2}
    model = rlzoo.A2C(policy, "CartPole-v1", policy_kwargs=kwargs)
    module = PolicyModule(model)
    assert [port.name for port in module.inputs] == ["observation", "state_h", "state_c", "episode_start"]
    assert [port.name for port in module.outputs] == ["actions", "next_state_h", "next_state_c"]
    obs = observations(model.observation_space)
    rng = np.random.default_rng(0)
    state = tuple(rng.normal(size=(2, N, 6)).astype(np.float32) for _ in "hc")
    starts = rng.random(N) < 0.5
    expected, after = model.predict(obs, state, episode_start=starts, deterministic=True)
    actions, h, c = run(module, obs, *state, starts)
    assert (actions == expected).all()
    np.testing.assert_allclose([h, c], after, atol=1e-6)


@pytest.mark.parametrize(
    "env", ["InvalidActionEnvDiscrete", "InvalidActionEnvMultiDiscrete", "InvalidActionEnvMultiBinary"]
)
def test_action_masks_are_an_input(env):
    model = rlzoo.MaskablePPO("MlpPolicy", getattr(rlzoo, env)(), policy_kwargs=SMALL)
    module = PolicyModule(model)
    width = module.inputs[-1].shape[1]
    obs = observations(model.observation_space)
    rng = np.random.default_rng(0)
    for _ in range(5):
        masks = rng.random((N, width)) < 0.5
        masks[:, :: 1 if width == 2 else 2] = True
        expected, _ = model.predict(obs, deterministic=True, action_masks=masks)
        assert (run(module, obs, masks)[0] == expected).all()


class Doubling(VecEnvWrapper):
    """A user's wrapper that changes observations."""

    def reset(self) -> Any:
        return self.venv.reset() * 2

    def wait_arrays(self) -> Any:
        step = self.venv.wait_arrays()
        step.obs = step.obs * 2
        return step


def test_what_a_file_cannot_know_is_refused():
    inner = rlzoo.make_vec_env("CartPole-v1", 1, seed=0)
    model = rlzoo.PPO("MlpPolicy", Doubling(rlzoo.VecNormalize(inner)), policy_kwargs=SMALL)
    with pytest.raises(UserError, match="go through Doubling"):
        PolicyModule(model)
    PolicyModule(rlzoo.PPO("MlpPolicy", Doubling(inner), policy_kwargs=SMALL))  # shows what Doubling shows


class OwnPredict(rlzoo.ActorCriticPolicy):
    """A user's policy with a `predict` of its own."""

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return np.zeros(1, int), None


def test_a_policy_with_a_predict_of_its_own_is_refused():
    model = rlzoo.PPO(OwnPredict, "CartPole-v1")
    with pytest.raises(UserError, match=r"OwnPredict cannot be exported: it overrides predict\(\)"):
        PolicyModule(model)


def test_a_key_with_the_name_of_another_input_is_refused():
    class Confusing(ShiftedActions):
        observation_space = spaces.Dict({"action_masks": spaces.Box(0, 1, (2,))})
        action_space = spaces.Discrete(2)

        def action_masks(self) -> Any:
            return np.ones(2, bool)

    model = rlzoo.MaskablePPO("MultiInputPolicy", Confusing(), policy_kwargs=SMALL)
    with pytest.raises(UserError, match="'action_masks'"):
        PolicyModule(model)
