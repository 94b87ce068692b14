"""Run folders and studies of an attacker: what they name is not imported, called or opened.

These are no mutations but a list. Each names `rlzoo_canary`, a module in the working directory, or a function
of Python's own library that executes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml
from optuna.trial import TrialState

from rlzoo.benchmark.scoring import score_run
from rlzoo.config.run import PlayConfig, RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.experiment.resumed_run import reopen_run
from rlzoo.experiment.training_run import check
from rlzoo.playback.play import play
from rlzoo.tuning.report.study_report import write_report
from rlzoo.tuning.study import study as studies
from rlzoo.tuning.study.samplers import make_sampler
from tests.fuzz.agents import STEPS
from tests.fuzz.configurations import few_steps
from tests.fuzz.loader import Loader, ctrl_c_after
from tests.fuzz.mutations import CANARY, PICKLE
from tests.fuzz.runs import RUN, VALUES, make_run, make_study, study_config

PLACE = f"/tmp/{CANARY}"
SHELL = f"import os; os.system('touch {CANARY}')"
TIMED = {"timeit.timeit": {"setup": SHELL, "number": 0}}
CALLED = {"subprocess.Popen": {"args": ["touch", CANARY]}}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "wrapper_type": {"env_wrapper": ["builtins.type", TIMED]},
    "wrapper_call": {"env_wrapper": [CALLED]},
    "wrapper_import": {"env_wrapper": f"{CANARY}.Thing"},
    "wrapper_of_wrapper": {"env_wrapper": [{"gymnasium.wrappers.TransformReward": {"func": "os.system"}}]},
    "vec_wrapper": {"vec_env_wrapper": [TIMED]},
    "callback": {"callback": [CALLED]},
    "callback_import": {"callback": "antigravity.fly"},
    "policy": {"policy": f"{CANARY}.Policy"},
    "policy_module": {"policy": f"rlzoo.policies.actor_critic_policies.os.{CANARY}"},
    "extractor": {"policy_kwargs": {"features_extractor_class": f"{CANARY}.Thing"}},
    "extractor_text": {"policy_kwargs": f"dict(features_extractor_class={CANARY}.Thing)"},
    "activation": {"policy_kwargs": {"net_arch": [4], "activation_fn": "os.system"}},
    "optimizer": {"policy_kwargs": {"optimizer_class": "subprocess.Popen"}},
    "env_kwargs": {"env_kwargs": f"dict(render_mode={CANARY}.Thing)"},
    "video": {"env_wrapper": [{"gymnasium.wrappers.RecordVideo": {"video_folder": PLACE}}]},
    "vec_video": {"vec_env_wrapper": [{"rlzoo.VecVideoRecorder": {"video_folder": PLACE}}]},
    "wrapped_monitor": {"env_wrapper": [{"rlzoo.Monitor": {"filename": PLACE}}]},
    "vec_monitor": {"vec_env_wrapper": [{"rlzoo.VecMonitor": {"filename": PLACE}}]},
    "checkpoints": {"callback": [{"rlzoo.CheckpointCallback": {"save_freq": 8, "save_path": PLACE}}]},
    "imported_name": {"env_wrapper": [{"rlzoo.envs.vec_env.subproc.Process": {"target": "os.system"}}]},
    "module_function": {"callback": [{"rlzoo.io.atomic.check_writable": {"path": PLACE}}]},
    "subproc": {"vec_env_wrapper": ["rlzoo.SubprocVecEnv"]},
    "noise": {"noise_type": "subprocess.Popen", "noise_std": 1},
    "schedule": {"learning_rate": f"__import__('os').system('touch {CANARY}')"},
    "tag": {"env_kwargs": f"!!python/object/apply:os.system ['touch {CANARY}']"},
    "monitor": {"monitor_kwargs": {"filename": f"{PLACE}.csv"}},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "packages": {"gym_packages": [CANARY]},
    "python_file": {"conf_file": f"{CANARY}.py"},
    "module": {"conf_file": CANARY},
    "tensorboard": {"tensorboard_log": PLACE},
    "trained_agent": {"trained_agent": f"{PLACE}.zip"},
    "env_id": {"env_id": f"{CANARY}:CartPole-v1"},
}
CREATE_TRIAL = 4  # in a journal of Optuna
USES = ("resume", "play", "score")


def write_run(folder: Path) -> None:
    make_run(folder)
    (folder / f"{CANARY}.py").write_text(f"{SHELL}\nhyperparams = {{}}\n")


def change_yaml(changes: dict[str, Any], rng: Random, name: str, data: bytes) -> bytes:
    return yaml.safe_dump({**yaml.safe_load(data), **changes}, sort_keys=False).encode()


def use_run(what: str, folder: Path, rng: Random) -> None:
    os.chdir(folder)
    with ctrl_c_after(5):
        if what == "resume":
            few_steps(reopen_run(Path(RUN), {"n_timesteps": 2 * STEPS, "verbose": 0, "device": "cpu"}))
        elif what == "play":
            play(PlayConfig(algo="ppo", env_id="CartPole-v1", folder=".", no_render=True, n_timesteps=8))
        else:
            score_run(Path(RUN), 1)


# -- studies ------------------------------------------------------------------------------------


def write_study(folder: Path) -> None:
    make_study(folder, None)
    (folder / f"{CANARY}.py").write_text(SHELL)


def forge(changes: dict[str, Any], rng: Random, name: str, data: bytes) -> bytes:
    """Give every trial that was added whole other attributes, by `user_attrs` and `system_attrs`."""
    records = [json.loads(line) for line in data.decode().splitlines()]
    for record in records:
        for key, values in changes.items():
            if record.get(key) or (record["op_code"] == CREATE_TRIAL and key in record):
                record[key] = {**record[key], **values}
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def hostile_values(changes: dict[str, Any]) -> str:
    return yaml.safe_dump({**VALUES, "n_timesteps": 8, **changes})


def train_trial(folder: Path, rng: Random) -> None:
    os.chdir(folder)
    config = study_config(folder, None)
    with ctrl_c_after(5):
        run = studies.run_of_trial(config, 4)
        check(run)
        few_steps(studies_start(run, folder))


def studies_start(run: RunConfig, folder: Path) -> Any:
    from rlzoo.experiment.training_run import create_run

    return create_run(
        replace(run, log_folder=str(folder / "logs"), eval_freq=-1, verbose=0, device="cpu", vec_env="dummy")
    )


def go_on(folder: Path, rng: Random) -> None:
    """Draw a trial as a worker does, with the sampler that restores what it kept in the study."""
    os.chdir(folder)
    config: TuneConfig = study_config(folder, None)
    opened = studies.load_study(config)
    opened.study.sampler = make_sampler("cmaes", 1, 1, 1)
    complete = [trial for trial in opened.study.trials if trial.state == TrialState.COMPLETE]
    opened.study.ask(dict(complete[0].distributions))
    write_report(opened.study, opened.settings, opened.folder, figures=False)


PICKLED = {"cma:optimizer:0": PICKLE.hex(), "cma:n_restarts": 0, "cma:generation": 0}


def _loader(name: str, make: Any, use: Any, target: str, mutate: Callable[..., bytes]) -> Loader:
    return Loader(name, make, use, (target,), mutate, alone=False)


LOADERS = (
    *(
        _loader(
            f"{use}_{name}", write_run, partial(use_run, use), "*/config.yml", partial(change_yaml, changes)
        )
        for use in USES
        for name, changes in CONFIGURATIONS.items()
    ),
    *(
        _loader(
            f"{use}_{name}", write_run, partial(use_run, use), "*/args.yml", partial(change_yaml, changes)
        )
        for use in USES
        for name, changes in ARGUMENTS.items()
    ),
    *(
        _loader(
            f"trial_{name}",
            write_study,
            train_trial,
            "*.log",
            partial(forge, {"user_attrs": {"hyperparams": hostile_values(changes)}}),
        )
        for name, changes in CONFIGURATIONS.items()
    ),
    _loader("study_pickle", write_study, go_on, "*.log", partial(forge, {"system_attrs": PICKLED})),
)
