"""A file that holds the actor only: the agent plays as before, and cannot be trained on."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium import spaces

from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.off_policy.sac import SAC
from rlzoo.algorithms.off_policy.td3 import TD3
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.config import catalog
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.training.checkpoint import Checkpoint, metadata, read_checkpoint, write_checkpoint
from rlzoo.training.expert_trajectories import generate_expert_traj

LOADED = [catalog.load(name) for name in catalog.names()]
ALGORITHMS: list[Any] = [loaded for loaded in LOADED if hasattr(loaded, "Config")]  # `her` makes another
SMALL = {
    "n_steps": 16,
    "batch_size": 8,
    "n_epochs": 1,
    "n_delta": 2,
    "buffer_size": 64,
    "learning_starts": 8,
    "replay_start": 16,
    "train_freq": 4,
    "learner": "ppo",
}


class RandomWalk(gym.Env[Any, Any]):
    """Random observations; episodes of nine steps."""

    def __init__(self, discrete: bool) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Box(-1, 1, (3,))
        box: spaces.Space[Any] = spaces.Box(np.array([-1, 0], np.float32), np.array([2, 5], np.float32))
        self.action_space = spaces.Discrete(3) if discrete else box

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def action_masks(self) -> Any:
        return np.ones(sum(choice_counts(self.action_space)), bool)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return obs, float(self.np_random.normal()), False, self.steps == 9, {}


def make_env(algorithm: type[Algorithm]) -> VecEnv:
    discrete = spaces.Box not in algorithm.action_spaces
    return DummyVecEnv([lambda: RandomWalk(discrete)] * 2)


def make(algorithm: type[Algorithm], env: VecEnv | None = None, **kwargs: Any) -> Any:
    """An agent that has learned a little, so that statistics and copies are not what they began as."""
    env = make_env(algorithm) if env is None else env
    known = algorithm.__signature__.parameters  # type: ignore[attr-defined]
    arguments = {name: value for name, value in SMALL.items() if name in known}
    if "expert_dataset" in known:
        shown = generate_expert_traj(lambda _: env.action_space.sample(), None, env, n_episodes=3)
        arguments["expert_dataset"] = ExpertDataset(traj_data=shown, verbose=0)
    policy = "MlpLstmPolicy" if algorithm.policy_family == "recurrent" else "MlpPolicy"
    arguments |= {"seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}, **kwargs}
    return algorithm(policy, env, **arguments).learn(40)


def saved(model: Algorithm, actor_only: bool = True) -> io.BytesIO:
    buffer = io.BytesIO()
    model.save(buffer, actor_only=actor_only)
    return buffer


def changed(
    buffer: io.BytesIO, change: Callable[[Checkpoint], None], empty: Sequence[str] = ()
) -> io.BytesIO:
    """The file with other metadata or weights, and members without tensors."""
    checkpoint = read_checkpoint(buffer)
    change(checkpoint)
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata.json"] = json.dumps(checkpoint.metadata).encode()
    members["weights.safetensors"] = safetensors.torch.save(dict(checkpoint.weights))
    members |= {f"{name}.safetensors": safetensors.torch.save({}) for name in empty}
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return result


def predictions(model: Algorithm, deterministic: bool) -> list[Any]:
    """Twenty actions on the same observations, with the state of a recurrent policy handed on."""
    set_random_seed(3)
    generator, state, actions = np.random.default_rng(5), None, []
    for _ in range(20):
        obs = generator.uniform(-1, 1, 3).astype(np.float32)
        action, state = model.predict(obs, state=state, deterministic=deterministic)
        actions.append(action)
    return actions


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_agent_plays_as_before(algorithm: type[Algorithm]) -> None:
    model = make(algorithm)
    again: Any = algorithm.load(saved(model), device="cpu")
    assert again.actor_only and not model.actor_only
    for deterministic in (True, False):
        np.testing.assert_array_equal(predictions(model, deterministic), predictions(again, deterministic))
    assert again.config == algorithm.load(saved(model, False), device="cpu").config  # type: ignore[attr-defined]
    assert again.num_timesteps == model.num_timesteps > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_is_kept_that_only_training_reads(algorithm: type[Algorithm]) -> None:
    """Of the parameters, each that is kept changes what `predict` computes from, and each other does not."""
    model = make(algorithm)
    kept = {name.removeprefix("policy/") for name in read_checkpoint(saved(model)).weights}
    obs = torch.rand(4, 3)
    expected = _computed(model, obs)
    for name, value in model.policy.state_dict().items():
        if name.endswith(("steps", "count", "num_batches_tracked")):
            continue  # counters of statistics, which acting does not advance
        before = value.clone()
        value.add_(torch.rand(value.shape))
        assert (not torch.equal(_computed(model, obs), expected)) == (name in kept), name
        value.copy_(before)


def _computed(model: Any, obs: torch.Tensor) -> torch.Tensor:
    """What actions are chosen by: values of the choices, or (log-)probabilities of some actions."""
    torch.manual_seed(0)
    policy = model.policy
    policy.set_training_mode(False)
    with torch.inference_mode():
        if hasattr(policy, "q_values") and not hasattr(policy, "action_net"):
            return policy.q_values(obs).clone()
        if hasattr(policy, "get_distribution"):
            context = {}
            if policy.recurrent:
                context["rnn_state"] = {name: part + 0.5 for name, part in policy.initial_state(4).items()}
            distribution = policy.get_distribution(obs, **context)
            actions = torch.zeros(4, 2) if isinstance(model.action_space, spaces.Box) else torch.arange(4) % 3
            return distribution.log_prob(actions).clone()
        outputs = policy.action_net(obs) if hasattr(policy, "action_net") else policy._predict(obs)
        return outputs.clone()


def test_critics_copies_and_optimizers_are_left_out() -> None:
    model = make(SAC, policy_kwargs={"net_arch": [64, 64]})
    checkpoint = read_checkpoint(small := saved(model))
    assert checkpoint.actor_only and not read_checkpoint(whole := saved(model, False)).actor_only
    assert {name.split(".")[0] for name in checkpoint.weights} == {"policy/actor"}
    assert not checkpoint.optimizers and checkpoint.state["optimizers"] != {"actor.optimizer": {}}
    assert len(small.getvalue()) < len(whole.getvalue()) / 4
    with zipfile.ZipFile(small) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        assert set(archive.namelist()) == {
            "metadata.json",
            "config.json",
            "state.json",
            "weights.safetensors",
        }


@pytest.mark.parametrize(
    ("member", "actor_only", "message"),
    [
        ("normalize.safetensors", True, r"VecNormalize.* is missing"),
        ("weights.safetensors", True, "weights.safetensors is missing"),
        ("normalize.safetensors", False, "normalize.safetensors is missing"),
        ("optimizers.safetensors", False, "optimizers.safetensors is missing"),
    ],
)
def test_a_member_that_is_needed_is_missed(member: str, actor_only: bool, message: str) -> None:
    model = make(PPO, VecNormalize(make_env(PPO)))
    PPO.load(saved(model, actor_only), device="cpu")
    less = io.BytesIO()
    with zipfile.ZipFile(saved(model, actor_only)) as archive, zipfile.ZipFile(less, "w") as target:
        for name in set(archive.namelist()) - {member}:
            target.writestr(name, archive.read(name))
    with pytest.raises(CheckpointError, match=message):
        PPO.load(less, device="cpu")


def test_a_policy_without_tensors() -> None:
    write_checkpoint(file := io.BytesIO(), Checkpoint({**metadata("PPO", None), "actor_only": True}, {}, {}))
    assert not read_checkpoint(file).weights


def test_a_shared_extractor_is_kept() -> None:
    model = make(TD3, policy_kwargs={"net_arch": [8], "share_features_extractor": True})
    again = TD3.load(saved(model), device="cpu")
    np.testing.assert_array_equal(predictions(model, True), predictions(again, True))


def test_statistics_of_observations_travel_along() -> None:
    env = VecNormalize(make_env(PPO))
    again, other = PPO.load(saved(make(PPO, env)), device="cpu"), VecNormalize(make_env(PPO))
    load_env_state(other, again.normalize_state)
    np.testing.assert_array_equal(other.obs_rms.mean, env.obs_rms.mean)


def test_it_cannot_be_trained_on() -> None:
    model = make(SAC)
    again = SAC.load(saved(model), env=make_env(SAC), device="cpu")
    with pytest.raises(UserError, match="the actor only: it plays, but cannot be trained on"):
        again.learn(10)
    with pytest.raises(UserError, match="the actor only"):
        again.pretrain(None)
    with pytest.raises(UserError, match="missing"):
        make(SAC).set_parameters(saved(model))


def test_saving_it_again_keeps_what_it_is() -> None:
    model = make(SAC)
    again = SAC.load(saved(SAC.load(saved(model), device="cpu"), actor_only=False), device="cpu")
    assert again.actor_only
    np.testing.assert_array_equal(predictions(model, True), predictions(again, True))


def test_a_file_that_claims_more_or_less_than_it_holds() -> None:
    model = make(SAC)

    def drop(prefix: str) -> Callable[[Checkpoint], None]:
        def change(checkpoint: Checkpoint) -> None:
            checkpoint.weights = {
                name: value for name, value in checkpoint.weights.items() if not name.startswith(prefix)
            }

        return change

    with pytest.raises(CheckpointError, match=r"policy/actor\.mu.* is not in the model file"):
        SAC.load(changed(saved(model), drop("policy/actor.mu")), device="cpu")
    with pytest.raises(CheckpointError, match=r"policy/critic\..* is not in the model file"):
        SAC.load(changed(saved(model, False), drop("policy/critic.")), device="cpu")
    nothing = ("normalize", "optimizers")
    SAC.load(changed(saved(model), lambda file: None, nothing), device="cpu")
    with pytest.raises(CheckpointError, match=r"state\.json of the model file is damaged"):
        SAC.load(changed(saved(model), lambda file: file.metadata.pop("actor_only"), nothing), device="cpu")
    with pytest.raises(CheckpointError, match="lacks the parameter policy/critic"):
        whole = changed(saved(model, False), lambda file: file.metadata.update(actor_only=True))
        SAC.load(whole, device="cpu")
    with pytest.raises(CheckpointError, match="the actor only"):
        SAC.load(changed(saved(model), lambda file: file.metadata.update(actor_only="yes")), device="cpu")
