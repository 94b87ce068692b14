"""Loaders of what people write: hyperparameters, overrides, search spaces, lists, names."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from rlzoo.benchmark.finished import learned_from, mark_finished, training_seconds
from rlzoo.cli.main import main
from rlzoo.config.benchmark import experts_of, read_list
from rlzoo.config.her_entries import expand_her
from rlzoo.config.hyperparams import lookup, shipped_folder
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.raw import RawConfig
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import parse_overrides
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.experiment.session import TrainingSession
from rlzoo.experiment.training_run import create_run
from rlzoo.experiment.validate_hyperparams import validate_file
from rlzoo.io.space_json import space_from_json, space_to_json
from rlzoo.tuning.space.space_file import space_from_file
from tests.fuzz.agents import STEPS, Stop, example
from tests.fuzz.loader import Loader, ctrl_c_after, only
from tests.fuzz.mutations import CANARY, mutate_text

ENTRIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": (
        "CartPole-v1",
        {
            "n_envs": 2, "n_timesteps": 1e2, "policy": "MlpPolicy", "n_steps": 8, "batch_size": 8,
            "n_epochs": 1,
            "gae_lambda": 0.9, "normalize": {"norm_reward": False}, "learning_rate": "lin_1e-3",
            "clip_range": 0.2,
            "policy_kwargs": "dict(net_arch=[4], activation_fn=nn.ReLU)", "frame_stack": 2,
            "env_wrapper": ["rlzoo.TimeFeatureWrapper",
            {"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 20}}],
        },
    ),
    "sac": (
        "Pendulum-v1",
        {
            "n_timesteps": 100, "policy": "MlpPolicy", "buffer_size": 50, "learning_starts": 8,
            "batch_size": 4,
            "train_freq": [4, "step"], "gradient_steps": 1, "ent_coef": "auto_0.1", "noise_type": "normal",
            "noise_std": 0.1, "policy_kwargs": {"net_arch": {"pi": [4], "qf": [4]}, "log_std_init": -3},
            "env_kwargs": {"g": 9.8}, "monitor_kwargs": {"info_keywords": []},
        },
    ),
    "her": (
        "BitFlipping-v0",
        {
            "n_timesteps": 100, "policy": "MultiInputPolicy", "model_class": "dqn", "n_sampled_goal": 4,
            "goal_selection_strategy": "future", "buffer_size": 50, "learning_starts": 8, "batch_size": 4,
            "policy_kwargs": {"net_arch": [4]}, "exploration_fraction": 0.3,
        },
    ),
    "tqc": (
        "Pendulum-v1",
        {
            "n_timesteps": 100, "policy": "MlpPolicy", "buffer_size": 50, "learning_starts": 8,
            "batch_size": 4,
            "top_quantiles_to_drop_per_net": 1, "use_sde": True, "policy_kwargs": {"n_critics": 2,
            "net_arch": [4]},
            "callback": "rlzoo.ParallelTrainCallback",
        },
    ),
}  # fmt: skip
OVERRIDES = (
    "n_steps:8", "batch_size:8", "learning_rate:lin_1e-3",
    "policy_kwargs:dict(net_arch=[4], activation_fn=nn.Tanh)",
    "normalize:dict(norm_obs=True, norm_reward=False)", "env_wrapper:rlzoo.TimeFeatureWrapper", "n_envs:2",
    "clip_range:0.2", "gamma:0.99", "target_kl:None", "policy:'MlpPolicy'", "frame_stack:2", "n_epochs:1",
    "replay_buffer_class:HerReplayBuffer", "train_freq:[1,'episode']", "action_noise:None",
    "optimize_memory_usage:True",
)  # fmt: skip


def run_command(*arguments: Any) -> None:
    """Run a command line; an exit code other than 0 is an error of the package.

    :raises UserError: the command said no
    """
    code = main(list(map(str, arguments)))
    if code:
        raise UserError(f"exit code {code}")


def tiny_run(algo: str, env_id: str, folder: Path, **fields: Any) -> RunConfig:
    """The configuration of a run of a few steps."""
    common: dict[str, Any] = {"n_timesteps": 2 * STEPS, "eval_freq": -1, "verbose": 0, "device": "cpu"}
    common |= {"vec_env": "dummy", "num_threads": 1, "seed": 0, "log_folder": str(folder)}
    return RunConfig(algo=algo, env_id=env_id, **{**common, **fields})


def few_steps(session: TrainingSession) -> None:
    """Train what has been built for a few steps."""
    with session.resources:
        session.model.learn(
            STEPS, callback=[*session.callbacks, Stop()], reset_num_timesteps=not session.resumed
        )


def write_hyperparams(folder: Path) -> None:
    for algo, (env_id, values) in ENTRIES.items():
        text = yaml.safe_dump({env_id: values, "default": values}, sort_keys=False)
        (folder / f"{algo}.yml").write_text(text)


def read_hyperparams(folder: Path, rng: Random) -> None:
    path = only(folder)
    env_id = ENTRIES[path.stem][0]
    with ctrl_c_after(5):
        validate_file(str(path))
        translate_sb2_entry(lookup(path.stem, env_id, path))
        if rng.random() < 0.5:
            few_steps(create_run(tiny_run(path.stem, env_id, folder / "logs", conf_file=str(path))))


def write_overrides(folder: Path) -> None:
    (folder / "params.txt").write_text("gamma:0.9\nn_envs:1")


def mutate_overrides(rng: Random, name: str, data: bytes) -> bytes:
    lines = rng.sample(OVERRIDES, rng.randrange(1, 4))
    return mutate_text(rng, "\n".join(lines).encode())


def read_overrides(folder: Path, rng: Random) -> None:
    lines = only(folder).read_bytes().decode(errors="surrogateescape").split("\n")
    algo = rng.choice(("ppo", "sac", "her"))
    env_id, values = ENTRIES[algo]
    conf = folder / "conf.yml"
    conf.write_text(yaml.safe_dump({"default": values}))
    with ctrl_c_after(5):
        few_steps(
            create_run(
                tiny_run(
                    algo, env_id, folder / "logs", hyperparams=parse_overrides(lines), conf_file=str(conf)
                )
            )
        )


def write_space(folder: Path) -> None:
    space = {
        "learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}, "batch_size": {"low": 1, "high": 20,
        "step": 2},
        "gamma": [0.9, 0.99], "policy_kwargs": {"net_arch": {"choices": [[64, 64], [256, 256]]}},
        "policy_kwargs.activation_fn": ["nn.ReLU", "nn.Tanh"], "n_envs": [1, 2],
    }  # fmt: skip
    (folder / "space.yml").write_text(yaml.safe_dump(space))


def read_space(folder: Path, rng: Random) -> None:
    space = space_from_file(only(folder), rng.choice(("ppo", "sac")))
    json.dumps(space.to_json())
    if space.size is not None and space.size < 10_000:
        space.grid()


def write_lists(folder: Path) -> None:
    for name in ("learning.yml", "invalid_actions.yml"):
        shutil.copy(shipped_folder("benchmarks") / name, folder)
    rows = [
        {"algo": "ppo", "env": "CartPole-v1", "required": 500, "n_timesteps": 1000},
        {
            "algo": ["sac", "td3"],
            "env": ["Pendulum-v1", "MountainCarContinuous-v0"],
            "seeds": [0],
            "below": 3.5,
        },
        {
            "algo": "bc",
            "env": "CartPole-v1",
            "expert": {"algo": "ppo", "seed": 100, "episodes": 25},
            "note": "x",
        },
    ]
    (folder / "list.yml").write_text(yaml.safe_dump({"seeds": [0, 1], "episodes": 10, "rows": rows}))
    (folder / "invalid_actions.yml").unlink()


def read_lists(folder: Path, rng: Random) -> None:
    experts_of(read_list(only(folder)))
    if rng.random() < 0.3:
        run_command("benchmark", "table", "--list", only(folder))


@cache
def scores() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(
        (shipped_folder("benchmarks") / "learning_scores.json").read_text()
    )
    return content


def write_scores(folder: Path) -> None:
    (folder / "scores.json").write_text(json.dumps(scores()[:6]))
    (folder / "score.json").write_text(json.dumps(scores()[0]))


def read_scores(folder: Path, rng: Random) -> None:
    options = rng.choice(
        (
            (),
            ("--list", "benchmarks/learning.yml"),
            ("--format", rng.choice(("csv", "json", "latex", "short"))),
        )
    )
    run_command("benchmark", "table", only(folder), *options)


def write_registry(folder: Path) -> None:
    entries = json.loads((shipped_folder("trained_agents") / "registry.json").read_text())
    (folder / "registry.json").write_text(json.dumps(entries[:6]))


def read_registry(folder: Path, rng: Random) -> None:
    from rlzoo.runs import pretrained_registry as registry

    for entry in registry.read_registry(folder):
        entry.summary()


def write_finished(folder: Path) -> None:
    mark_finished(folder, 3.5, "0" * 64)


def read_finished(folder: Path, rng: Random) -> None:
    training_seconds(folder)
    learned_from(folder)


# -- names --------------------------------------------------------------------------------------


def write_names(*names: str) -> Any:
    def write(folder: Path) -> None:
        for number, name in enumerate(names):
            (folder / f"{number}.txt").write_text(name)

    return write


def text_of(folder: Path) -> str:
    return only(folder).read_bytes().decode(errors="surrogateescape")


def read_env_id(folder: Path, rng: Random) -> None:
    ensure_registered(text_of(folder))


def read_package(folder: Path, rng: Random) -> None:
    import_packages([text_of(folder)])


def write_learners(folder: Path) -> None:
    entry = {"model_class": "stable_baselines3.SAC", "policy": "MlpPolicy", "n_sampled_goal": 4}
    (folder / "entry.json").write_text(
        json.dumps({**entry, "replay_buffer_kwargs": "dict(copy_info_dict=True)"})
    )


def read_learner(folder: Path, rng: Random) -> None:
    try:
        entry = json.loads(only(folder).read_text())
    except (ValueError, RecursionError):
        return  # the reading is this fuzzer's
    if isinstance(entry, dict):
        expand_her(RawConfig("her", entry))


def write_spaces(folder: Path) -> None:
    for name in ("ppo_sde", "ppo_dict", "dqn", "her"):
        agent = example(name)
        for what in ("observation", "action"):
            space = space_to_json(getattr(agent, f"{what}_space"))
            (folder / f"{name}_{what}.json").write_text(json.dumps(space))


def read_spaces(folder: Path, rng: Random) -> None:
    try:
        tree = json.loads(only(folder).read_text())
    except (ValueError, RecursionError):
        return
    space = space_from_json(tree)
    space.seed(0)
    space.contains(space.sample())


IDS = (
    "CartPole-v1", "ALE/Pong-v5", "PongNoFrameskip-v4", "Breakout-ramDeterministic-v4",
    "HalfCheetahBulletEnv-v0", "my_package:My-v0", "FetchReach-v4", "PendulumNoVel-v1",
)  # fmt: skip
PACKAGES = ("json", "rlzoo", "gymnasium.envs", "no_such_package", f"{CANARY}x")

LOADERS = (
    Loader("hyperparams", write_hyperparams, read_hyperparams, share=3),
    Loader("overrides", write_overrides, read_overrides, mutate=mutate_overrides, share=2),
    Loader("space_file", write_space, read_space, share=1),
    Loader("lists", write_lists, read_lists, share=0.5),
    Loader("scores", write_scores, read_scores, share=0.5),
    Loader("registry", write_registry, read_registry),
    Loader("finished", write_finished, read_finished),
    Loader(
        "env_ids",
        write_names(*IDS[:1]),
        read_env_id,
        mutate=lambda rng, *_: mutate_text(rng, rng.choice(IDS).encode()),
    ),
    Loader(
        "packages",
        write_names(*PACKAGES[:1]),
        read_package,
        mutate=lambda rng, *_: mutate_text(rng, rng.choice(PACKAGES).encode()),
        share=0.5,
    ),
    Loader("model_class", write_learners, read_learner),
    Loader("spaces", write_spaces, read_spaces, share=2),
)
