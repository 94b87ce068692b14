"""What scripts for stable-baselines3 read from a model, and set."""

from __future__ import annotations

import io
import time
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo import (
    A2C,
    ACER,
    ARS,
    DDPG,
    DQN,
    HER,
    PPO,
    QRDQN,
    SAC,
    TD3,
    TQC,
    TRPO,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    PrioritizedReplayBuffer,
    RecurrentPPO,
    SimpleMultiObsEnv,
    TrainFreq,
    TrainFrequencyUnit,
    UserError,
    make_vec_env,
)
from rlzoo.core.runtime import get_device
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.training.save_files import load_from_zip_file

SMALL = {"policy_kwargs": {"net_arch": [8]}}


def test_weights_of_ars_are_one_vector():
    model = ARS("LinearPolicy", "CartPole-v1", n_delta=1).learn(50)
    assert torch.equal(model.weights, torch.nn.utils.parameters_to_vector(model.policy.parameters()))


def test_learned_entropy_coefficient_is_readable():
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=10, **SMALL)
    before = model.log_ent_coef.detach().clone()
    assert before.shape == (1,) and model.ent_coef_tensor == 1
    model.learn(30)
    assert not torch.equal(model.log_ent_coef, before)
    assert isinstance(model.ent_coef_optimizer, torch.optim.Optimizer)
    torch.testing.assert_close(model.log_ent_coef.exp().squeeze(), model.ent_coef_tensor)


def test_fixed_entropy_coefficient_has_no_optimiser():
    model = SAC("MlpPolicy", "Pendulum-v1", ent_coef=0.25, **SMALL)
    assert model.log_ent_coef is None and model.ent_coef_optimizer is None
    assert model.ent_coef_tensor == 0.25
    with pytest.raises(AttributeError, match="log_ent_coef"):
        TD3("MlpPolicy", "Pendulum-v1", **SMALL).log_ent_coef  # noqa: B018


def test_exploration_rate_is_set_until_training_goes_on():
    model = DQN("MlpPolicy", "CartPole-v1", seed=0, **SMALL)
    obs = np.zeros((400, 4), np.float32)
    assert len(set(model.predict(obs)[0])) == 1
    model.exploration_rate = 1.0
    assert 0.4 < model.predict(obs)[0].mean() < 0.6
    assert len(set(model.predict(obs, deterministic=True)[0])) == 1
    model.learn(50)
    assert model.exploration_rate == pytest.approx(model.exploration_schedule(0.0)) == 0.05
    with pytest.raises(UserError, match="at most 1, not 2"):
        model.exploration_rate = 2


def test_networks_and_learning_rate_are_the_models():
    model = QRDQN("MlpPolicy", "CartPole-v1", learning_rate=lambda progress: progress * 1e-3, **SMALL)
    assert model.quantile_net is model.policy.quantile_net
    assert model.quantile_net_target is model.policy.quantile_net_target
    assert model.lr_schedule(0.5) == 5e-4
    assert PPO("MlpPolicy", "CartPole-v1").lr_schedule(1.0) == 3e-4


def test_one_number_of_noise_is_for_every_dimension():
    noise = NormalActionNoise(np.zeros(1), 0.5 * np.ones(1))
    model = TD3("MlpPolicy", "LunarLanderContinuous-v3", action_noise=noise, learning_starts=0, **SMALL)
    silent = TD3("MlpPolicy", "LunarLanderContinuous-v3", learning_starts=0, **SMALL)
    assert model.noise_shape == (-1, 1) and silent.noise_shape == (-1, 2)
    assert model.learn(3).action_noise().shape == (1,)


def test_incomplete_parameters_are_a_runtime_error():
    model = PPO("MlpPolicy", "CartPole-v1")
    parameters = model.get_parameters()
    parameters["policy"] = dict(list(parameters["policy"].items())[1:])
    with pytest.raises(RuntimeError, match="is missing; with exact_match=False"):
        model.set_parameters(parameters)
    model.set_parameters(parameters, exact_match=False)
    with pytest.raises(ValueError, match="unknown part of the model"):
        model.set_parameters({"nothing": {}}, exact_match=False)


def test_names_of_a_subclass_are_left_out_of_files():
    class Quiet(PPO):
        def _excluded_save_params(self):
            return [*super()._excluded_save_params(), "gamma"]

    model = Quiet("MlpPolicy", "CartPole-v1", gamma=0.5)
    file = io.BytesIO()
    model.save(file)
    assert "gamma" not in load_from_zip_file(io.BytesIO(file.getvalue()))[0]
    model.save(file, include=["gamma"])
    assert load_from_zip_file(io.BytesIO(file.getvalue()))[0]["gamma"] == 0.5


def test_loaded_model_goes_on_in_the_same_environments():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8).learn(8)
    file, env = io.BytesIO(), model.get_env()
    model.save(file)
    loaded = PPO.load(io.BytesIO(file.getvalue()), env=env, force_reset=False)
    np.testing.assert_array_equal(loaded._last_obs, model._last_obs)
    assert PPO.load(io.BytesIO(file.getvalue()), env=env)._last_obs is None
    steps = env.env_method("get_wrapper_attr", "state")[0]
    np.testing.assert_allclose(loaded._last_obs[0], steps, rtol=1e-5)
    loaded.learn(8, reset_num_timesteps=False)
    assert loaded.num_timesteps == 16
    two = PPO.load(io.BytesIO(file.getvalue()), env=make_vec_env("CartPole-v1", 2), force_reset=False)
    assert two._last_obs is None


def test_target_network_of_many_environments_is_warned_of():
    with pytest.warns(UserWarning, match=r"\(3 > 2\), so the target network is copied"):
        DQN("MlpPolicy", make_vec_env("CartPole-v1", 3), target_update_interval=2, **SMALL)


def test_compiled_policy_is_saved_as_the_original(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1")
    model.save(tmp_path / "plain")
    model.policy = torch.compile(model.policy)
    model.save(tmp_path / "compiled")
    loaded = [PPO.load(tmp_path / name).policy.state_dict() for name in ("plain", "compiled")]
    assert loaded[0].keys() == loaded[1].keys()
    assert all(map(torch.equal, loaded[0].values(), loaded[1].values()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_warned_of_and_the_cpu_used():
    with pytest.warns(UserWarning, match="'cuda' is not available on this machine: using the CPU"):
        assert get_device("cuda") == torch.device("cpu")


def test_hindsight_without_an_algorithm_names_the_replay_buffer():
    with pytest.raises(ImportError, match="replay_buffer_class=HerReplayBuffer"):
        HER("MlpPolicy", "CartPole-v1")


@pytest.mark.parametrize("clear", ["policy", "optimizer"])
def test_gradient_step_by_hand_is_taken(clear):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, **SMALL)
    policy = model.policy
    observations = torch.ones(4, 4)
    for _ in range(2):
        (policy if clear == "policy" else policy.optimizer).zero_grad(set_to_none=True)
        policy.predict_values(observations).sum().backward()
        expected = policy.value_net.bias.item() - 3e-4  # of Adam at constant gradients
        policy.optimizer.step()
        assert policy.value_net.bias.item() == pytest.approx(expected, rel=1e-4)
        assert policy.value_net.bias.grad.item() == 4
    model.learn(16)


def test_target_entropy_is_a_number_and_can_be_assigned():
    model = SAC("MlpPolicy", "Pendulum-v1", **SMALL)
    assert model.target_entropy == -1.0 and model.config.target_entropy == "auto"
    coefficient = model.entropy_coefficient
    model.target_entropy = -2.0
    assert model.target_entropy == -2.0 == model.config.target_entropy
    assert model.entropy_coefficient is coefficient and coefficient.target_entropy == -2.0
    with pytest.raises(UserError, match="target_entropy must be a number"):
        model.target_entropy = "much"
    with pytest.raises(AttributeError, match="target_entropy"):
        TD3("MlpPolicy", "Pendulum-v1", **SMALL).target_entropy  # noqa: B018


def test_train_freq_is_a_named_tuple_with_a_unit():
    model = DQN("MlpPolicy", "CartPole-v1", **SMALL)
    assert model.train_freq == TrainFreq(4, TrainFrequencyUnit.STEP)
    model.train_freq = (2, "episode")
    assert model.train_freq == TrainFreq(2, TrainFrequencyUnit.EPISODE)
    model.train_freq = TrainFreq(3, TrainFrequencyUnit.STEP)
    assert model.update_period() == (3, False)


def test_numbers_of_quantiles_and_critics_are_readable():
    kwargs = {"n_quantiles": 7, "n_critics": 3, "net_arch": [8]}
    critic = TQC("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs).critic
    assert (critic.n_critics, critic.n_quantiles, critic.quantiles_total) == (3, 7, 21)
    quantiles = {"n_quantiles": 5, "net_arch": [8]}
    assert QRDQN("MlpPolicy", "CartPole-v1", policy_kwargs=quantiles).n_quantiles == 5


def test_actor_tells_whether_it_uses_sde():
    assert SAC("MlpPolicy", "Pendulum-v1", use_sde=True, **SMALL).actor.use_sde
    assert not SAC("MlpPolicy", "Pendulum-v1", **SMALL).actor.use_sde


@pytest.mark.parametrize("name", ["learning_rate", "lr_schedule"])
def test_assigned_learning_rate_is_used_from_then_on(name):
    model = A2C("MlpPolicy", "CartPole-v1", **SMALL).learn(10)

    def assign(local_values, _):
        setattr(model, name, lambda progress: 1e-5)
        model._setup_lr_schedule()

    model.learn(10, callback=assign)
    assert model.lr_schedule(1.0) == 1e-5
    assert model.policy.optimizer.param_groups[0]["lr"] == 1e-5


def test_train_takes_steps_on_the_replay_buffer():
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=100, **SMALL)
    with pytest.raises(UserError, match="nothing to sample"):
        model.train(gradient_steps=1)
    model.learn(20)
    before = model.policy.parameters_to_vector()
    assert model.n_updates == 0
    model.train(gradient_steps=3, batch_size=5)
    assert model.n_updates == 3 and model.logger.name_to_value["train/n_updates"] == 3
    assert np.isfinite(model.logger.name_to_value["train/critic_loss"])
    assert not np.array_equal(before, model.policy.parameters_to_vector())


def test_train_learns_from_the_last_rollout_again():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, n_epochs=2, **SMALL)
    with pytest.raises(UserError, match="no full rollout"):
        model.train()
    before = model.learn(16).policy.parameters_to_vector()
    model.train()
    assert model.n_updates == 8
    assert not np.array_equal(before, model.policy.parameters_to_vector())


def test_train_warns_of_a_rate_whose_schedule_has_ended():
    model = ACER("MlpPolicy", "CartPole-v1", **SMALL).learn(20)  # its learning rate falls to 0
    before = model.policy.parameters_to_vector()
    with pytest.warns(UserWarning, match="learning rate of 0"):
        model.train()
    assert np.array_equal(before, model.policy.parameters_to_vector())
    model.learning_rate = lambda _: 1e-3
    model.train()
    assert not np.array_equal(before, model.policy.parameters_to_vector())


@pytest.mark.parametrize(
    ("algorithm", "n_steps", "said"),
    [
        (PPO, 8, r"batch_size 12 is larger than a rollout, n_steps \* n_envs = 8 \* 1 = 8"),
        (TRPO, 8, "the last minibatch of the value function has 8 rows"),
        (TRPO, 13, "the last minibatch of the value function has 1 row$"),
    ],
)
def test_sizes_of_rollout_and_minibatch_that_do_not_fit(algorithm, n_steps, said):
    with pytest.warns(UserWarning, match=said):
        algorithm("MlpPolicy", "CartPole-v1", n_steps=n_steps, batch_size=12, **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algorithm("MlpPolicy", "CartPole-v1", n_steps=24, batch_size=12, **SMALL)


@pytest.mark.parametrize(("policy", "on_cpu_instead"), [("MlpPolicy", True), ("MultiInputPolicy", False)])
def test_small_networks_on_a_gpu_are_mentioned(policy, on_cpu_instead):
    env = "CartPole-v1" if policy == "MlpPolicy" else SimpleMultiObsEnv()
    model = A2C(policy, env)
    assert model._device_hint() is None
    model.device = torch.device("cuda")
    assert bool(model._device_hint()) == on_cpu_instead


def test_wrong_arguments_of_a_rollout_buffer_are_found_at_once():
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        A2C("MlpPolicy", "CartPole-v1", rollout_buffer_kwargs={"wrong": 1})
    with pytest.raises(TypeError, match="gamma is set by the algorithm"):
        A2C("MlpPolicy", "CartPole-v1", rollout_buffer_kwargs={"gamma": 0.5})


def test_other_noise_than_that_of_the_file_begins_anew(tmp_path):
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1))
    model = TD3("MlpPolicy", "Pendulum-v1", action_noise=noise, learning_starts=0, **SMALL).learn(5)
    model.save(tmp_path / "noisy")
    other = NormalActionNoise(np.zeros(1), np.ones(1))
    loaded = TD3.load(tmp_path / "noisy", env="Pendulum-v1", action_noise=other)
    assert type(loaded.action_noise) is NormalActionNoise
    again = TD3.load(tmp_path / "noisy", action_noise=OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(1)))
    assert str(again.action_noise.state_dict()) == str(model.action_noise.state_dict())


def test_loaded_replay_buffer_is_on_the_device_of_the_model(tmp_path):
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, learning_starts=10, **SMALL).learn(20)
    model.save_replay_buffer(tmp_path / "buffer")
    model.device = torch.device("meta")
    model.load_replay_buffer(tmp_path / "buffer")
    assert model.replay_buffer.device == model.device


@pytest.mark.parametrize("in_dict", [False, True])
def test_batches_of_images_with_channels_last_are_recognised(in_dict):
    policy = PPO("MlpPolicy", "CartPole-v1").policy
    space = spaces.Box(0, 255, (3, 32, 32), np.uint8)
    policy.observation_space = spaces.Dict(image=space) if in_dict else space
    for shape, batch in {
        (3, 32, 32): False,
        (32, 32, 3): False,
        (1, 3, 32, 32): True,
        (1, 32, 32, 3): True,
    }.items():
        image = np.zeros(shape, np.uint8)
        assert policy.is_vectorized_observation({"image": image} if in_dict else image) == batch


def test_spaces_are_among_the_data_of_a_file(tmp_path):
    model = PPO("MlpPolicy", "CartPole-v1")
    model.save(tmp_path / "agent")
    data, _, _ = load_from_zip_file(tmp_path / "agent.zip")
    assert data["observation_space"] == model.observation_space
    assert data["action_space"] == model.action_space


def test_an_overridden_predict_acts_in_training():
    class Shielded(DQN):
        def predict(self, *args, **kwargs):
            actions, state = super().predict(*args, **kwargs)
            return np.zeros_like(actions), state

    model = Shielded("MlpPolicy", "CartPole-v1", learning_starts=10, buffer_size=200, **SMALL).learn(100)
    assert not model.replay_buffer.actions[10:100].any()

    class Constant(SAC):
        def predict(self, observation, *args, **kwargs):
            return np.full((len(observation), 1), 0.5, np.float32), None

    model = Constant("MlpPolicy", "Pendulum-v1", learning_starts=10, buffer_size=200, **SMALL).learn(100)
    np.testing.assert_allclose(model.replay_buffer.actions[10:100], 0.25)  # the torque is in [-2, 2]


@pytest.mark.parametrize(
    ("algorithm", "env", "kwargs"),
    [
        (PPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32}),
        (TRPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32}),
        (DQN, "CartPole-v1", {"learning_starts": 20}),
        (SAC, "Pendulum-v1", {"learning_starts": 20}),
        (TD3, "Pendulum-v1", {"learning_starts": 20}),
        (ARS, "CartPole-v1", {}),
    ],
)
def test_an_assigned_policy_is_trained(algorithm, env, kwargs):
    policy = "LinearPolicy" if algorithm is ARS else "MlpPolicy"
    small = {} if algorithm is ARS else SMALL
    model, other = (algorithm(policy, env, seed=seed, **kwargs, **small) for seed in (0, 1))
    steps = 600 if algorithm is ARS else 64
    other.learn(steps)
    model.policy = other.policy
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(steps)
    assert model.policy is other.policy
    assert any(not torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True))


def test_acer_says_that_it_trains_no_assigned_policy():
    model, other = (ACER("MlpPolicy", "CartPole-v1", **SMALL) for _ in range(2))
    model.policy = other.policy
    with pytest.raises(UserError, match="set_parameters"):
        model.learn(20)


FREEZING = {
    "PPO": (PPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32}, "mlp_extractor.policy_net"),
    "RecurrentPPO": (RecurrentPPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32}, "lstm_actor"),
    "A2C": (A2C, "CartPole-v1", {}, "value_net"),
    "DQN": (DQN, "CartPole-v1", {"learning_starts": 20, "train_freq": 1}, "q_net.q_net.0"),
    "SAC critics": (SAC, "Pendulum-v1", {"learning_starts": 20}, "critic.layers.0"),
    "SAC latent": (SAC, "Pendulum-v1", {"learning_starts": 20}, "actor.latent_pi"),
    "SAC actor": (SAC, "Pendulum-v1", {"learning_starts": 20}, "actor"),
    "TD3": (TD3, "Pendulum-v1", {"learning_starts": 20}, "actor"),
}


@pytest.mark.parametrize("when", ["at first", "after a training"])
@pytest.mark.parametrize("case", FREEZING)
def test_frozen_parameters_stay_as_they_are(case, when):
    algorithm, env, kwargs, frozen = FREEZING[case]
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    model = algorithm(policy, env, seed=0, **kwargs, **SMALL)
    if when == "after a training":  # Adam has momentum
        model.learn(64)
    model.policy.get_submodule(frozen).requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.policy.named_parameters()}
    model.learn(64)
    changed = {
        name for name, value in model.policy.named_parameters() if not torch.equal(value, before[name])
    }
    assert changed and not any(name.startswith(f"{frozen}.") for name in changed)


def test_start_time_is_in_nanoseconds():
    began = time.time_ns()
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, **SMALL).learn(64)
    assert began - 10**6 <= model.start_time <= time.time_ns()


def test_agents_do_not_share_the_state_of_optimisers():
    first, second = (SAC("MlpPolicy", "Pendulum-v1", seed=0, learning_starts=10, **SMALL) for _ in range(2))
    first.learn(20)
    second.set_parameters(first.get_parameters())
    for optimizer, other in zip(
        (first.actor.optimizer, first.critic.optimizer),
        (second.actor.optimizer, second.critic.optimizer),
        strict=True,
    ):
        averages = [next(iter(one.state.values()))["exp_avg"] for one in (optimizer, other)]
        assert torch.equal(*averages) and averages[0].data_ptr() != averages[1].data_ptr()


def test_unknown_parameters_are_left_out_without_exact_match() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    parameters = model.get_parameters()
    parameters["policy"] = {name: value + 1 for name, value in parameters["policy"].items()}
    expected = parameters["policy"]["value_net.bias"]
    parameters["policy"]["old.weight"] = torch.ones(1)
    with pytest.raises(RuntimeError, match=r"old\.weight"):
        model.set_parameters(parameters)
    model.set_parameters(parameters, exact_match=False)
    assert torch.equal(model.policy.state_dict()["value_net.bias"], expected)
    flat = {"value_net.bias": expected + 1, "old.weight": torch.ones(1)}
    model.set_parameters(flat, exact_match=False)
    assert torch.equal(model.policy.state_dict()["value_net.bias"], expected + 1)


def test_buffers_are_made_again_from_the_attributes() -> None:
    """As `_setup_model` of scripts does, with the class and the arguments that the algorithm would take."""
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16)
    model.n_steps = 64
    model.rollout_buffer = model.rollout_buffer_class(
        model.n_steps, model.observation_space, model.action_space, device=model.device, gamma=model.gamma,
        gae_lambda=model.gae_lambda, n_envs=model.n_envs, **model.rollout_buffer_kwargs,
    )  # fmt: skip
    assert model.learn(64).rollout_buffer.observations.shape == (64, 1, 4)
    learner = DQN("MlpPolicy", "CartPole-v1", learning_starts=10, **SMALL)
    learner.replay_buffer = learner.replay_buffer_class(
        500, learner.observation_space, learner.action_space, device=learner.device,
        n_envs=learner.n_envs, **learner.replay_buffer_kwargs,
    )  # fmt: skip
    assert learner.learn(32).replay_buffer.size() == 32
    assert TQC("MultiInputPolicy", SimpleMultiObsEnv(discrete_actions=False)).replay_buffer_kwargs == {}


def test_replay_buffer_kwargs_can_be_assigned() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=PrioritizedReplayBuffer, **SMALL)
    model.replay_buffer_kwargs = {"alpha": 0.3}
    assert (model.config.replay_buffer_kwargs, model.replay_buffer_kwargs) == ({"alpha": 0.3},) * 2
    assert model.replay_buffer_class is PrioritizedReplayBuffer


def test_policy_aliases_name_the_policies_of_an_algorithm() -> None:
    assert PPO.policy_aliases["MlpPolicy"] is ActorCriticPolicy
    assert {"MlpPolicy", "CnnPolicy", "MultiInputPolicy"} <= SAC.policy_aliases.keys()
    assert SAC.policy_aliases["MlpPolicy"] is not TD3.policy_aliases["MlpPolicy"]


def test_ddpg_has_the_settings_of_td3() -> None:
    model = DDPG("MlpPolicy", "Pendulum-v1")
    assert (model.policy_delay, model.target_policy_noise, model.target_noise_clip) == (1, 0.1, 0.0)


@pytest.mark.parametrize("algorithm", [SAC, TQC])
def test_the_spread_of_state_dependent_noise_is_logged(algorithm) -> None:
    model = algorithm("MlpPolicy", "Pendulum-v1", use_sde=True, learning_starts=10, **SMALL).learn(30)
    expected = model.actor.get_std().mean().item()
    assert model.logger.name_to_value["train/std"] == pytest.approx(expected, rel=0.05)
