"""Train tiny agents with stable-baselines3 and sb3-contrib, for scripts/import_table.py and the tests.

    python scripts/make_import_files.py OUT [--only NAME ...]

Runs in an interpreter that has the version to be tested (and not rlzoo). For each agent: its model file, and
an .npz file with 200 observations and the deterministic actions that it takes. What a version does not have
is named and passed over.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
import stable_baselines3 as sb3  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize  # noqa: E402

try:
    import gymnasium as gym
except ImportError:
    import gym  # type: ignore[import-not-found, no-redef]
if sb3.__version__ < "2":
    import gym  # type: ignore[import-not-found, no-redef]

N_OBS, STEPS = 200, 64
SMALL = {"net_arch": [6]}
ROLLOUT = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
REPLAY = {"buffer_size": 200, "learning_starts": 20, "batch_size": 8}
CNN = {"net_arch": [4], "features_extractor_kwargs": {"features_dim": 4}}
UNSHARED = {**CNN, "net_arch": [{"pi": [4], "vf": [5]}], "share_features_extractor": False}
PENDULUM, CARTPOLE = "Pendulum-v1", "CartPole-v1"
FIXED = {**REPLAY, "ent_coef": 0.1, "train_freq": (1, "episode")}
THREE = {"net_arch": {"pi": [5], "qf": [7]}, "n_critics": 3}
SDE = {**REPLAY, "use_sde": True}
LSTM = {"lstm_hidden_size": 5}
DICT = {"net_arch": [4], "features_extractor_kwargs": {"cnn_output_dim": 4}}


def halving(progress: float) -> float:
    return 1e-3 * (1 + progress) / 2


def linear_schedule(initial_value: float) -> Any:
    def func(progress_remaining: float) -> float:
        return progress_remaining * initial_value

    return func


# name -> (class, policy, environment, arguments, policy_kwargs)
AGENTS: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "ppo_mlp": ("PPO", "MlpPolicy", CARTPOLE, ROLLOUT, SMALL),
    "ppo_box": ("PPO", "MlpPolicy", PENDULUM, {**ROLLOUT, "clip_range_vf": 0.3}, SMALL),
    "ppo_relu": (
        "PPO", "MlpPolicy", PENDULUM, ROLLOUT,
        {"net_arch": [{"pi": [5], "vf": [7]}], "activation_fn": nn.ReLU, "ortho_init": False},
    ),
    "ppo_shared": ("PPO", "MlpPolicy", CARTPOLE, ROLLOUT, {"net_arch": [6, {"pi": [5], "vf": [4]}]}),
    "ppo_adamw": (
        "PPO", "MlpPolicy", CARTPOLE, ROLLOUT,
        {**SMALL, "optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.01}},
    ),
    "ppo_linear_schedule": ("PPO", "MlpPolicy", CARTPOLE, {**ROLLOUT, "learning_rate": "linear"}, SMALL),
    "ppo_function": ("PPO", "MlpPolicy", CARTPOLE, {**ROLLOUT, "learning_rate": halving}, SMALL),
    "ppo_sde": ("PPO", "MlpPolicy", PENDULUM, {**ROLLOUT, "use_sde": True, "sde_sample_freq": 4}, SMALL),
    "ppo_sde_squashed": (
        "PPO", "MlpPolicy", PENDULUM, {**ROLLOUT, "use_sde": True},
        {**SMALL, "squash_output": True, "full_std": False, "use_expln": True},
    ),
    "ppo_multidiscrete": ("PPO", "MlpPolicy", "multidiscrete", ROLLOUT, SMALL),
    "ppo_multibinary": ("PPO", "MlpPolicy", "multibinary", ROLLOUT, SMALL),
    "ppo_cnn": ("PPO", "CnnPolicy", "image", ROLLOUT, CNN),
    "ppo_cnn_unshared": ("PPO", "CnnPolicy", "image", ROLLOUT, UNSHARED),
    "ppo_cnn_stacked": ("PPO", "CnnPolicy", "stacked", ROLLOUT, CNN),
    "ppo_dict": ("PPO", "MultiInputPolicy", "dict", ROLLOUT, DICT),
    "ppo_normalized": ("PPO", "MlpPolicy", "normalized", ROLLOUT, SMALL),
    "a2c_mlp": ("A2C", "MlpPolicy", CARTPOLE, {"n_steps": 8}, SMALL),
    "a2c_adam": ("A2C", "MlpPolicy", PENDULUM, {"n_steps": 8, "use_rms_prop": False}, SMALL),
    "a2c_tf": ("A2C", "MlpPolicy", CARTPOLE, {"n_steps": 8}, {**SMALL, "optimizer_class": "RMSpropTFLike"}),
    "a2c_sde": ("A2C", "MlpPolicy", PENDULUM, {"n_steps": 8, "use_sde": True}, SMALL),
    "a2c_cnn": ("A2C", "CnnPolicy", "image", {"n_steps": 8}, CNN),
    "a2c_dict": ("A2C", "MultiInputPolicy", "dict", {"n_steps": 8}, DICT),
    "dqn_mlp": ("DQN", "MlpPolicy", CARTPOLE, REPLAY, SMALL),
    "dqn_cnn": ("DQN", "CnnPolicy", "image", REPLAY, CNN),
    "dqn_dict": ("DQN", "MultiInputPolicy", "dict", REPLAY, DICT),
    "dqn_her": ("DQN", "MultiInputPolicy", "goals_discrete", {**REPLAY, "her": True}, SMALL),
    "qrdqn_mlp": ("QRDQN", "MlpPolicy", CARTPOLE, REPLAY, {**SMALL, "n_quantiles": 7}),
    "qrdqn_cnn": ("QRDQN", "CnnPolicy", "image", REPLAY, {**CNN, "n_quantiles": 5}),
    "qrdqn_dict": ("QRDQN", "MultiInputPolicy", "dict", REPLAY, {**DICT, "n_quantiles": 5}),
    "ddpg_mlp": ("DDPG", "MlpPolicy", PENDULUM, {**REPLAY, "noise": "ou"}, SMALL),
    "ddpg_her": ("DDPG", "MultiInputPolicy", "goals", {**REPLAY, "her": True}, SMALL),
    "ddpg_cnn": ("DDPG", "CnnPolicy", "image_box", REPLAY, CNN),
    "td3_mlp": ("TD3", "MlpPolicy", PENDULUM, {**REPLAY, "noise": "normal"}, SMALL),
    "td3_apart": ("TD3", "MlpPolicy", PENDULUM, REPLAY, THREE),
    "td3_cnn": ("TD3", "CnnPolicy", "image_box", REPLAY, CNN),
    "td3_cnn_shared": ("TD3", "CnnPolicy", "image_box", REPLAY, {**CNN, "share_features_extractor": True}),
    "td3_her": ("TD3", "MultiInputPolicy", "goals", {**REPLAY, "her": True}, SMALL),
    "sac_mlp": ("SAC", "MlpPolicy", PENDULUM, REPLAY, SMALL),
    "sac_fixed": ("SAC", "MlpPolicy", PENDULUM, FIXED, SMALL),
    "sac_sde": ("SAC", "MlpPolicy", PENDULUM, SDE, SMALL),
    "sac_sde_unbounded": (
        "SAC", "MlpPolicy", PENDULUM, SDE, {**SMALL, "clip_mean": 0.0, "use_expln": True},
    ),
    "sac_cnn": ("SAC", "CnnPolicy", "image_box", REPLAY, CNN),
    "sac_cnn_shared": ("SAC", "CnnPolicy", "image_box", REPLAY, {**CNN, "share_features_extractor": True}),
    "sac_dict": ("SAC", "MultiInputPolicy", "goals", REPLAY, SMALL),
    "sac_her": ("SAC", "MultiInputPolicy", "goals", {**REPLAY, "her": True}, SMALL),
    "sac_nstep": ("SAC", "MlpPolicy", PENDULUM, {**REPLAY, "n_steps": 3}, SMALL),
    "tqc_mlp": ("TQC", "MlpPolicy", PENDULUM, REPLAY, {**SMALL, "n_quantiles": 5, "n_critics": 3}),
    "tqc_sde": ("TQC", "MlpPolicy", PENDULUM, SDE, SMALL),
    "tqc_cnn": ("TQC", "CnnPolicy", "image_box", REPLAY, CNN),
    "tqc_her": ("TQC", "MultiInputPolicy", "goals", {**REPLAY, "her": True}, SMALL),
    "crossq_mlp": ("CrossQ", "MlpPolicy", PENDULUM, REPLAY, SMALL),
    "crossq_sde": ("CrossQ", "MlpPolicy", PENDULUM, SDE, SMALL),
    "crossq_plain": ("CrossQ", "MlpPolicy", PENDULUM, REPLAY, {**SMALL, "batch_norm": False}),
    "trpo_mlp": ("TRPO", "MlpPolicy", PENDULUM, {"n_steps": 16, "batch_size": 16}, SMALL),
    "trpo_sde": ("TRPO", "MlpPolicy", PENDULUM, {"n_steps": 16, "batch_size": 16, "use_sde": True}, SMALL),
    "trpo_cnn": ("TRPO", "CnnPolicy", "image", {"n_steps": 16, "batch_size": 16}, CNN),
    "trpo_dict": ("TRPO", "MultiInputPolicy", "dict", {"n_steps": 16, "batch_size": 16}, DICT),
    "ars_linear": ("ARS", "LinearPolicy", PENDULUM, {"n_delta": 2}, {}),
    "ars_mlp": ("ARS", "MlpPolicy", PENDULUM, {"n_delta": 2, "zero_policy": False}, SMALL),
    "ars_discrete": ("ARS", "LinearPolicy", CARTPOLE, {"n_delta": 2}, {"with_bias": True}),
    "ppo_mask_mlp": ("MaskablePPO", "MlpPolicy", "masked", ROLLOUT, SMALL),
    "ppo_mask_cnn": ("MaskablePPO", "CnnPolicy", "image_masked", ROLLOUT, CNN),
    "ppo_mask_dict": ("MaskablePPO", "MultiInputPolicy", "dict_masked", ROLLOUT, DICT),
    "ppo_lstm_mlp": ("RecurrentPPO", "MlpLstmPolicy", CARTPOLE, ROLLOUT, {**SMALL, **LSTM}),
    "ppo_lstm_box": (
        "RecurrentPPO", "MlpLstmPolicy", PENDULUM, {**ROLLOUT, "use_sde": True},
        {**SMALL, **LSTM, "n_lstm_layers": 2, "shared_lstm": True, "enable_critic_lstm": False},
    ),
    "ppo_lstm_no_critic": (
        "RecurrentPPO", "MlpLstmPolicy", CARTPOLE, ROLLOUT,
        {**SMALL, "lstm_hidden_size": 5, "enable_critic_lstm": False},
    ),
    "ppo_lstm_cnn": ("RecurrentPPO", "CnnLstmPolicy", "image", ROLLOUT, {**CNN, "lstm_hidden_size": 4}),
    "ppo_lstm_dict": ("RecurrentPPO", "MultiInputLstmPolicy", "dict", ROLLOUT, {**DICT, **LSTM}),
}  # fmt: skip
IMAGES = ("image", "stacked", "image_box", "image_masked", "dict", "dict_masked")


class Environments:
    """The test environments of stable-baselines3, wherever a version has them."""

    def __getattr__(self, name: str) -> Any:
        for place in ("envs", "identity_env", "bit_flipping_env"):
            try:
                return getattr(importlib.import_module(f"stable_baselines3.common.{place}"), name)
            except (AttributeError, ImportError):
                continue
        raise AttributeError(f"no {name}")


def make_env(name: str) -> Any:
    """The environment of a row of `AGENTS`; of images and dictionaries those that stable-baselines3 has."""
    envs = Environments()
    if name in ("image", "stacked", "image_box", "image_masked"):
        channels = 1 if name == "stacked" else 3
        made: Any = envs.FakeImageEnv(
            action_dim=3, screen_height=36, screen_width=36, n_channels=channels, discrete=name != "image_box"
        )
    elif name in ("dict", "dict_masked"):
        made = envs.SimpleMultiObsEnv(random_start=False)
    elif name.startswith("goals"):
        made = envs.BitFlippingEnv(n_bits=4, continuous=name == "goals", max_steps=4)
    elif name == "multidiscrete":
        made = envs.IdentityEnvMultiDiscrete(dim=3, ep_length=20)
    elif name == "multibinary":
        made = envs.IdentityEnvMultiBinary(dim=3, ep_length=20)
    elif name == "masked":
        made = importlib.import_module("sb3_contrib.common.envs").InvalidActionEnvDiscrete(
            dim=5, n_invalid_actions=2
        )
    else:
        made = gym.make(PENDULUM if name == "normalized" else name)
    if name.endswith("_masked"):
        masker = importlib.import_module("sb3_contrib.common.wrappers").ActionMasker
        made = masker(made, lambda env: np.ones(env.action_space.n, bool))
    return made


def algorithm(name: str) -> Any:
    if hasattr(sb3, name):
        return getattr(sb3, name)
    return getattr(importlib.import_module("sb3_contrib"), name)


def build(name: str) -> tuple[Any, Any]:
    """An agent of `AGENTS`, and its vector of environments."""
    cls, policy, env_name, arguments, policy_kwargs = AGENTS[name]
    arguments, kwargs = dict(arguments), dict(policy_kwargs)
    env: Any = DummyVecEnv([lambda: make_env(env_name)])
    if env_name == "stacked":
        env = VecFrameStack(env, 4)
    if env_name == "normalized":
        env = VecNormalize(env, clip_obs=5.0)
    size = env.action_space.shape
    if (noise := arguments.pop("noise", None)) is not None:
        from stable_baselines3.common import noise as noises

        kind = noises.NormalActionNoise if noise == "normal" else noises.OrnsteinUhlenbeckActionNoise
        arguments["action_noise"] = kind(np.zeros(size), 0.1 * np.ones(size))
    if arguments.pop("her", False):
        from stable_baselines3 import HerReplayBuffer

        arguments["replay_buffer_class"] = HerReplayBuffer
        arguments["replay_buffer_kwargs"] = {"n_sampled_goal": 2, "goal_selection_strategy": "final"}
        if sb3.__version__ < "1.8":
            arguments["replay_buffer_kwargs"]["max_episode_length"] = 4
    if arguments.get("learning_rate") == "linear":
        arguments["learning_rate"] = linear_schedule(1e-3)
    if kwargs.get("optimizer_class") == "RMSpropTFLike":
        from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

        kwargs["optimizer_class"], kwargs["optimizer_kwargs"] = RMSpropTFLike, {"alpha": 0.99, "eps": 1e-5}
    return algorithm(cls)(policy, env, seed=1, policy_kwargs=kwargs, device="cpu", **arguments), env


def observations(space: Any, rng: np.random.Generator) -> Any:
    """Observations of a space, stacked."""
    kind = type(space).__name__
    if kind == "Dict":
        return {key: observations(part, rng) for key, part in space.spaces.items()}
    if kind == "Box" and space.dtype == np.uint8:  # coarse patterns of different brightness
        tiles = rng.integers(0, 256, (N_OBS, *(-(-size // 6) for size in space.shape)))
        tiles = tiles * rng.random((N_OBS, 1, 1, 1))
        for axis, size in enumerate(space.shape, 1):
            tiles = np.repeat(tiles, 6, axis=axis).take(range(size), axis=axis)
        return tiles.astype(np.uint8)
    if kind == "Box":
        return np.clip(rng.normal(size=(N_OBS, *space.shape)), space.low, space.high).astype(np.float32)
    if kind == "Discrete":
        return rng.integers(0, space.n, N_OBS)
    if kind == "MultiDiscrete":
        return (rng.random((N_OBS, *space.nvec.shape)) * space.nvec).astype(np.int64)
    return rng.integers(0, 2, (N_OBS, *space.shape)).astype(np.int8)


def act(model: Any, obs: Any, masks: Any) -> np.ndarray:
    """The deterministic actions; a recurrent policy sees the observations one by one, in episodes of 50."""
    if masks is not None:
        return np.asarray(model.predict(obs, deterministic=True, action_masks=masks)[0])
    if not hasattr(model.policy, "lstm_actor"):
        return np.asarray(model.predict(obs, deterministic=True)[0])
    actions, state = [], None
    for i in range(N_OBS):
        row = {key: part[i : i + 1] for key, part in obs.items()} if isinstance(obs, dict) else obs[i : i + 1]
        start = np.array([i % 50 == 0])
        action, state = model.predict(row, state=state, episode_start=start, deterministic=True)
        actions.append(action[0])
    return np.asarray(actions)


def judge(model: Any, obs: Any, actions: np.ndarray) -> np.ndarray | None:
    """What the networks make of observations [N_OBS, n]: Q-values, or probabilities of choices and values."""
    policy = model.policy
    if hasattr(policy, "lstm_actor") or not hasattr(policy, "obs_to_tensor"):
        return None
    policy.set_training_mode(False)
    tensor = policy.obs_to_tensor(obs)[0]
    with torch.no_grad():
        if hasattr(policy, "q_net"):
            return policy.q_net(tensor).numpy()
        if hasattr(policy, "quantile_net"):
            return policy.quantile_net(tensor).mean(dim=1).numpy()
        if hasattr(policy, "critic"):
            scaled = torch.as_tensor(policy.scale_action(actions)).float()
            judged = policy.critic(tensor, scaled)
            return (
                torch.cat([part.reshape(N_OBS, -1) for part in judged], dim=1).numpy()
                if isinstance(judged, tuple)
                else judged.reshape(N_OBS, -1).numpy()
            )
        if hasattr(policy, "value_net") and hasattr(policy, "get_distribution"):
            distribution = policy.get_distribution(tensor).distribution
            values = policy.predict_values(tensor)
            shown = [values] + ([distribution.probs] if hasattr(distribution, "probs") else [])
            return torch.cat([part.reshape(N_OBS, -1) for part in shown], dim=1).numpy()
    return None


def thin_out(model: Any) -> None:
    """Leave a few weights of convolutions, so that the file packs well."""
    generator = torch.Generator().manual_seed(0)
    for module in model.policy.modules():
        if isinstance(module, nn.Conv2d):
            keep = torch.rand(module.weight.shape, generator=generator) < 0.01
            module.weight.data = torch.where(keep, module.weight.data * 5, torch.zeros(()))


def make(name: str, out: Path, packed: bool) -> None:
    model, env = build(name)
    rng = np.random.default_rng(0)
    images = AGENTS[name][2] in IMAGES
    if not (packed and images):  # an optimiser has as many numbers as the networks, twice
        model.learn(STEPS)
    if packed and images:
        thin_out(model)
    for key, value in model.policy.named_parameters():  # far from where training begins
        if ".cnn." not in key and (packed or "features_extractor" not in key):  # whose sums are long
            value.data += 0.5 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(key)))
    for target, source in (("critic_target", "critic"), ("actor_target", "actor")):
        if hasattr(model, target) and packed and images:
            getattr(model, target).load_state_dict(getattr(model, source).state_dict())
    masks = None
    if AGENTS[name][0] == "MaskablePPO":
        masks = rng.random((N_OBS, int(model.action_space.n))) < 0.6
        masks[:, 0] |= ~masks.any(axis=1)
    obs = observations(model.observation_space, rng)
    arrays = {f"obs.{key}": part for key, part in obs.items()} if isinstance(obs, dict) else {"obs": obs}
    arrays["actions"] = act(model, obs, masks)
    if masks is not None:
        arrays["masks"] = masks
    if (judged := judge(model, obs, arrays["actions"])) is not None:
        arrays["judged"] = judged
    model.save(out / f"{name}.zip")
    if packed:
        repack(out / f"{name}.zip")
    np.savez_compressed(out / f"{name}.npz", **arrays)
    if isinstance(env, VecNormalize):
        env.save(str(out / f"{name}_vecnormalize.pkl"))
        probe = rng.normal(size=(N_OBS, *env.observation_space.shape))
        np.savez(out / f"{name}_statistics.npz", raw=probe, normalized=env.normalize_obs(probe))


def repack(path: Path) -> None:
    """Write the members again, deflated."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=list(AGENTS), metavar="NAME")
    parser.add_argument("--packed", action="store_true", help="small files, for the tests")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    global N_OBS
    N_OBS = 60 if args.packed else N_OBS
    made = 0
    for name in args.only:
        try:
            make(name, args.out, args.packed)
            made += 1
        except Exception as error:
            text = str(error).splitlines()[0][:110] if str(error) else ""
            print(f"  {name}: passed over: {type(error).__name__}: {text}", flush=True)
    (args.out / "version.txt").write_text(f"{sb3.__version__}\n")
    print(f"stable-baselines3 {sb3.__version__}, {gym.__name__} {gym.__version__}: {made} agents")


if __name__ == "__main__":
    main()
