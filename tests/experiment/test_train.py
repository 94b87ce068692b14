from __future__ import annotations

import csv
import dataclasses
import json
import os
import shutil
import sys
import types

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlzoo
from rlzoo import PPO, BaseCallback, EvalCallback, VecNormalize
from rlzoo.cli.main import main
from rlzoo.config.run import PlayConfig, RunConfig
from rlzoo.config.values_as_text import dump_yaml, read_yaml
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.experiment import factories as build
from rlzoo.experiment.resumed_run import reopen_run, resume
from rlzoo.experiment.training_run import create_run, train
from rlzoo.runs import run_folder


def parameters(path):
    return PPO.load(path, device="cpu").policy.state_dict()


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


class Stop(BaseCallback):
    """Ends the training after some steps."""

    def __init__(self, after: int = 200) -> None:
        super().__init__()
        self.after = after

    def _on_step(self) -> bool:
        return self.num_timesteps < self.after


class RefusesToBegin(BaseCallback):
    def _on_training_start(self):
        raise ValueError("no robot there")

    def _on_step(self):
        return True


@pytest.fixture(autouse=True)
def this_module_is_importable(monkeypatch):
    module = types.ModuleType("callbacks_of_a_user")
    module.Stop, module.RefusesToBegin = Stop, RefusesToBegin
    monkeypatch.setitem(sys.modules, "callbacks_of_a_user", module)


def test_a_run_leaves_what_the_design_says(run):
    result = train(run(eval_freq=100, save_freq=100, eval_episodes=2), command="rlzoo train ...")
    assert result.num_timesteps == 400
    assert result.folder.name == "CartPole-v1_1"
    files = {
        path.relative_to(result.folder).as_posix() for path in result.folder.rglob("*") if path.is_file()
    }
    assert files == {
        *(
            ".lock",
            "CartPole-v1.zip",
            "best_model.zip",
            "evaluations.npz",
            "progress.csv",
            "command.txt",
            "system.json",
        ),
        *("0.monitor.csv", "1.monitor.csv", "CartPole-v1/config.yml", "CartPole-v1/args.yml"),
        *(f"rl_model_{steps}_steps.zip" for steps in (100, 200, 300, 400)),
    }
    assert PPO.load(result.model_path, device="cpu").num_timesteps == 400
    assert (result.folder / "command.txt").read_text() == "rlzoo train ...\n"
    assert json.loads((result.folder / "system.json").read_text())["versions"]["rlzoo"] == rlzoo.__version__
    assert np.load(result.folder / "evaluations.npz")["timesteps"].tolist() == [100, 200, 300, 400]
    assert [int(row["time/total_timesteps"]) for row in rows(result.folder / "progress.csv")][-1] == 400


def test_its_config_makes_the_same_agent_again(run):
    first = train(
        run(hyperparams={"learning_rate": "lin_1e-3", "policy_kwargs": {"net_arch": [5]}}, n_timesteps=200)
    )
    config = run_folder.config_path(first.folder, "CartPole-v1")
    second = train(run(conf_file=str(config)))
    assert second.folder != first.folder
    assert equal(parameters(first.model_path), parameters(second.model_path))
    other = train(run(conf_file=str(config), seed=1))
    assert not equal(parameters(first.model_path), parameters(other.model_path))


def test_a_random_seed_is_written_down(run):
    result = train(run(seed=-1, n_timesteps=40))
    seed = run_folder.read_run(result.folder).seed
    assert seed >= 0
    again = train(run(seed=seed, n_timesteps=40))
    assert equal(parameters(result.model_path), parameters(again.model_path))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_resumed_run_continues_in_place(run, env_id):
    stopped = train(
        run(env_id=env_id, hyperparams={"callback": {"callbacks_of_a_user.Stop": {"after": 200}}})
    )
    assert stopped.num_timesteps == 200
    monitor = stopped.folder / "0.monitor.csv"
    before = monitor.read_text()
    config = run_folder.config_path(stopped.folder, env_id)
    values = read_yaml(config)
    del values["callback"]
    config.write_text(dump_yaml(values))
    result = resume(stopped.folder)
    assert result.folder == stopped.folder
    assert result.num_timesteps == 400
    assert monitor.read_text().startswith(before)
    assert monitor.read_text().count("#") == 1
    steps = [int(row["time/total_timesteps"]) for row in rows(result.folder / "progress.csv")]
    assert steps == sorted(steps)
    assert steps[0] < 200 < steps[-1] == 400


def test_resume_restores_counters_schedules_and_optimiser(run):
    stopped = train(run(env_id="Pendulum-v1", n_timesteps=200))
    session = reopen_run(stopped.folder, {"n_timesteps": 800})
    with session.resources:
        model, saved = session.model, PPO.load(stopped.model_path, device="cpu")
        assert model.num_timesteps == 200
        assert equal(model.policy.state_dict(), saved.policy.state_dict())
        expected = saved.policy.optimizer.state_dict()["state"]
        for index, entry in model.policy.optimizer.state_dict()["state"].items():
            assert all(torch.equal(entry[key], expected[index][key]) for key in entry)
        statistics = model.get_vec_normalize_env()
        assert statistics.obs_rms.count > 190
        seen = []

        def look(locals_, globals_):
            seen.append(model.counters.progress_remaining)

        model.learn(600, callback=look, reset_num_timesteps=False)
    assert seen[0] == pytest.approx(1 - 202 / 800)
    assert seen[-1] == 0


def test_resuming_twice_gives_the_same_agent(run, tmp_path):
    stopped = train(run(env_id="Pendulum-v1", n_timesteps=200))
    copy = shutil.copytree(stopped.folder, tmp_path / "copy" / stopped.folder.name)
    one, two = resume(stopped.folder, n_timesteps=400), resume(copy, n_timesteps=400)
    assert equal(parameters(one.model_path), parameters(two.model_path))


def test_checkpoints_may_change_when_a_run_is_resumed(run):
    folder = train(run(algo="sac", env_id="Pendulum-v1", n_timesteps=40, conf_file=None)).folder
    flags = ["--save-freq", "30", "--save-replay-buffer", "--verbose", "0"]
    assert main(["train", "--resume", str(folder), "-n", "110", *flags]) == 0
    names = sorted(path.name for path in folder.glob("rl_model_*"))
    assert {"rl_model_70_steps.zip", "rl_model_100_steps.zip"} <= set(names)
    assert any("replay_buffer" in name for name in names)


def test_a_new_goal_is_kept(run):
    result = train(run(n_timesteps=40))
    reopen_run(result.folder, {"n_timesteps": 120}).resources.close()
    assert resume(result.folder).num_timesteps == 120


def test_a_finished_run_has_nothing_left_to_do(run, capsys):
    result = train(run(n_timesteps=40))
    assert resume(result.folder).num_timesteps == 40
    assert "larger -n" in capsys.readouterr().out


def test_resume_passes_over_a_damaged_checkpoint(run, capsys):
    result = train(run(save_freq=100))
    result.model_path.write_bytes(result.model_path.read_bytes()[:1000])
    (result.folder / "rl_model_400_steps.zip").write_bytes(b"")
    session = reopen_run(result.folder, {})
    session.resources.close()
    assert session.model.num_timesteps == 300
    assert "CartPole-v1.zip" in capsys.readouterr().err


def test_a_new_run_from_an_agent(run):
    first = train(run(env_id="Pendulum-v1", n_timesteps=200))
    session = create_run(run(env_id="Pendulum-v1", trained_agent=str(first.model_path), seed=7))
    with session.resources:
        assert session.folder.name == "Pendulum-v1_2"
        assert equal(session.model.policy.state_dict(), parameters(first.model_path))
        assert session.model.get_vec_normalize_env().obs_rms.count > 190
        assert session.model.seed == 7
    one = train(run(env_id="Pendulum-v1", trained_agent=str(first.model_path), seed=7, n_timesteps=80))
    two = train(run(env_id="Pendulum-v1", trained_agent=str(first.model_path), seed=8, n_timesteps=80))
    assert one.num_timesteps == 80  # its clock starts at zero
    assert not equal(parameters(one.model_path), parameters(two.model_path))


def test_an_agent_of_another_algorithm_or_environment_is_refused(run, logs):
    agent = train(run(n_timesteps=40)).model_path
    with pytest.raises(CheckpointError, match="PPO"):
        create_run(run(algo="a2c", hyperparams={}, conf_file=None, trained_agent=str(agent)))
    with pytest.raises(UserError, match="space"):
        create_run(run(env_id="Pendulum-v1", trained_agent=str(agent)))
    assert sorted(path.name for path in logs.rglob("*_[0-9]")) == ["CartPole-v1_1"]


def test_the_evaluation_environment_is_made_as_the_training_one(run):
    values = {"env_kwargs": {"g": 5.0}, "env_wrapper": "rlzoo.TimeFeatureWrapper", "frame_stack": 2}
    session = create_run(
        run(env_id="Pendulum-v1", hyperparams=values, eval_freq=100, eval_env_kwargs={"render_mode": None})
    )
    with session.resources:
        (evaluation,) = session.callbacks
        venv, eval_env = session.venv, evaluation.eval_env
        assert eval_env.observation_space == venv.observation_space
        assert venv.observation_space.shape == (8,)
        assert set(venv.get_attr("g")) == set(eval_env.get_attr("g")) == {5.0}
        normalize = rlzoo.unwrap_vec_normalize(eval_env)
        assert isinstance(normalize, VecNormalize)
        assert not normalize.training
        assert not normalize.norm_reward


@pytest.mark.parametrize("stochastic", [False, True])
def test_evaluations_play_as_the_environment_is_played(run, monkeypatch, stochastic):
    monkeypatch.setattr(build, "plays_stochastically", lambda env_id: stochastic)
    session = create_run(run(eval_freq=100))
    with session.resources:
        (evaluation,) = session.callbacks
        assert evaluation.deterministic is not stochastic


def test_evaluation_seeds_are_apart_from_training_seeds(run):
    session = create_run(run(eval_freq=100, hyperparams={"n_envs": 4}))
    with session.resources:
        (evaluation,) = session.callbacks
        training, other = session.venv.reset(), evaluation.eval_env.reset()
        assert not any(np.array_equal(row, other[0]) for row in np.array(training))


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({}, None),
        ({"env_kwargs": {"render_mode": "rgb_array"}}, "rgb_array"),
        ({"env_wrapper": "rlzoo.TimeFeatureWrapper"}, "rgb_array"),
        ({"vec_env_wrapper": "rlzoo.VecCheckNan"}, "rgb_array"),
        ({"callback": ["callbacks_of_a_user.Stop"]}, "rgb_array"),
    ],
)
def test_render_mode_is_set_only_where_needed(run, values, mode):
    """Being able to draw is not free: each flame of a LunarLander becomes a body of its world."""
    session = create_run(run(env_id="Pendulum-v1", hyperparams=values, eval_freq=100))
    with session.resources:
        evaluation = session.callbacks[-1]
        assert session.venv.render_mode == evaluation.eval_env.render_mode == mode


def test_callbacks_of_the_hyperparameters_run(run):
    result = train(run(hyperparams={"callback": ["callbacks_of_a_user.Stop"]}))
    assert result.num_timesteps == 200


def test_frequencies_are_in_environment_steps(run):
    result = train(run(hyperparams={"n_envs": 4}, save_freq=80))
    steps = sorted(int(path.name.split("_")[2]) for path in result.folder.glob("rl_model_*"))
    assert steps == [80, 160, 240, 320, 400]


@pytest.mark.parametrize(("threads", "expected"), [(-1, 1), (2, 2)])
def test_small_networks_use_one_thread_in_training_alone(run, threads, expected):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        session = create_run(run(num_threads=threads))
        session.resources.close()
        assert torch.get_num_threads() == 3
        with session.model.training_threads():
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_start_that_fails_leaves_no_folder(run, logs):
    with pytest.raises(UserError, match="env_wrapper"):
        train(run(hyperparams={"env_wrapper": "rlzoo.Nothing"}))
    with pytest.raises(UserError, match="CartPol"):
        train(run(env_id="CartPol-v1"))
    with pytest.raises(UserError, match="after"):
        train(run(hyperparams={"callback": {"callbacks_of_a_user.Stop": {"aftr": 3}}}))
    assert not logs.exists()


@pytest.mark.parametrize("n_timesteps", [50, 100])
def test_a_run_shorter_than_learning_starts_warns(run, n_timesteps):
    with pytest.warns(UserWarning, match=r"learning_starts \(100\) is not below n_timesteps") as caught:
        result = train(
            run(
                algo="sac",
                env_id="Pendulum-v1",
                conf_file=None,
                n_timesteps=n_timesteps,
                hyperparams={"learning_starts": 100},
            )
        )
    assert [str(warning.message) for warning in caught if "learning_starts" in str(warning.message)][1:] == []
    assert result.model_path.is_file()


def test_a_run_that_fails_at_once_leaves_no_agent(run, logs):
    with pytest.raises(ValueError, match="no robot there"):
        train(run(hyperparams={"callback": "callbacks_of_a_user.RefusesToBegin"}))
    assert not logs.exists()


def test_an_environment_without_masks_is_no_start_for_masked_ppo(run, logs):
    with pytest.raises(UserError, match=r"ppo_mask needs .*CartPole-v1 has no action_masks\(\) method"):
        train(run(algo="ppo_mask"))
    assert not (logs / "ppo_mask").exists()


def test_the_configuration_is_not_changed(run):
    config = run(hyperparams={"normalize": {"norm_obs": True}}, env_id="Pendulum-v1", n_timesteps=40)
    copy = dataclasses.replace(config, hyperparams={"normalize": {"norm_obs": True}})
    train(config)
    assert config == copy


def test_tensorboard_files_are_sorted_by_environment(run, tmp_path):
    train(run(tensorboard_log=str(tmp_path / "tb"), n_timesteps=80))
    (event_file,) = (tmp_path / "tb").rglob("events.*")
    assert event_file.parent.relative_to(tmp_path / "tb").as_posix() == "CartPole-v1/PPO_1"


def test_tracking_needs_the_extra_and_uses_it(run, monkeypatch, tmp_path, logs):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"\[wandb\]"):
        train(run(track=True))
    assert not logs.exists()
    made = train(run(n_timesteps=40)).folder
    with pytest.raises(UserError, match=r"\[wandb\]"):
        resume(made, track=True, n_timesteps=80)
    calls = {}

    class Tracked:
        def finish(self):
            calls["finished"] = True

    def init(**arguments):
        calls.update(arguments)
        return Tracked()

    module = types.ModuleType("wandb")
    module.__spec__ = types.SimpleNamespace()
    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    train(run(track=True, wandb_tags=("a",), n_timesteps=40))
    assert calls["project"] == "rlzoo"
    assert calls["tags"] == ["a"]
    assert calls["config"]["hyperparams"]["n_steps"] == 20
    assert calls["finished"]

    class NoAccount(Exception):
        pass

    def refuse(**arguments):
        raise NoAccount("No API key configured.")

    module.init, module.errors = refuse, types.SimpleNamespace(Error=NoAccount)
    with pytest.raises(UserError, match="--track: Weights & Biases: No API key"):
        train(run(track=True, n_timesteps=40))


def test_a_user_defined_network_travels_with_its_run(run, monkeypatch):
    class Extractor(rlzoo.FlattenExtractor):
        pass

    Extractor.__module__, Extractor.__qualname__ = "networks_of_a_user", "Extractor"
    module = types.ModuleType("networks_of_a_user")
    module.Extractor = Extractor
    monkeypatch.setitem(sys.modules, "networks_of_a_user", module)
    values = {
        "policy_kwargs": {
            "features_extractor_class": rlzoo.config.values_as_text.Name("networks_of_a_user.Extractor")
        }
    }
    result = train(run(hyperparams=values, n_timesteps=40))
    with pytest.raises(CheckpointError, match="networks_of_a_user"):
        PPO.load(result.model_path)
    assert resume(result.folder, n_timesteps=80).num_timesteps == 80


def test_atari_starts_with_its_wrapper_and_frames(run, logs):
    pytest.importorskip("ale_py")
    values = {
        "policy": "CnnPolicy",
        "env_wrapper": ["rlzoo.AtariWrapper"],
        "frame_stack": 4,
        "policy_kwargs": {},
    }
    session = create_run(run(env_id="PongNoFrameskip-v4", hyperparams=values, eval_freq=100))
    with session.resources:
        assert session.venv.observation_space == gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        assert session.callbacks[0].eval_env.observation_space == session.venv.observation_space


def test_run_config_fields_are_the_flags_of_the_command_line():
    from rlzoo.cli.main import build, load_command

    parsed = vars(build("train", load_command("train")).parse_args([]))
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    searching = vars(build("optimize", load_command("optimize")).parse_args([])).keys() - fields
    not_of_a_run = {"env", "resume", "optimize_hyperparameters", "trust", "n_procs", "seeds"}
    assert set(parsed) - searching - not_of_a_run == fields - {"env_id", "functions"}


def test_a_folder_is_trained_in_by_one_process_at_a_time(run, logs):
    session = create_run(run())
    with pytest.raises(UserError, match=f"is being trained by process {os.getpid()}$"):
        reopen_run(session.folder, {})
    session.model.save(session.model_path)
    session.resources.close()
    reopen_run(session.folder, {}).resources.close()


def test_a_folder_that_could_not_be_reopened_is_free(run):
    session = create_run(run())
    session.resources.close()
    for _ in range(2):
        with pytest.raises(UserError, match="no agent to continue from"):
            reopen_run(session.folder, {})


def test_a_function_of_a_python_file_is_found_again(run, tmp_path):
    conf = tmp_path / "functions.py"
    conf.write_text(
        "hyperparams = {'default': dict(policy='MlpPolicy', n_timesteps=40, n_envs=2, n_steps=20,"
        " batch_size=20,"
        " learning_rate=lambda progress: 1e-4 + 1e-3 * progress)}"
    )
    folder = train(run(conf_file=str(conf))).folder
    assert "learning_rate" not in read_yaml(run_folder.config_path(folder, "CartPole-v1"))
    session = reopen_run(folder, {"n_timesteps": 80, "conf_file": str(conf)})
    session.resources.close()
    assert session.model.schedules["learning_rate"](0.5) == pytest.approx(6e-4)
    play = PlayConfig(algo="ppo", env_id="CartPole-v1", folder=run().log_folder)
    assert run_folder.find_agent(play).path == session.model_path
    conf.unlink()
    with pytest.raises(UserError, match=r"functions\.py: no such file"):
        reopen_run(folder, {"n_timesteps": 80, "conf_file": str(conf)})


def test_a_folder_does_not_run_the_python_file_that_it_names(run, tmp_path):
    conf = tmp_path / "functions.py"
    conf.write_text(
        "hyperparams = {'default': dict(policy='MlpPolicy', n_timesteps=40, n_envs=2, n_steps=20,"
        " batch_size=20, learning_rate=lambda progress: 1e-3)}"
    )
    folder = train(run(conf_file=str(conf))).folder
    conf.write_text("raise SystemExit('run')")
    with pytest.raises(UserError, match=r"does not hold \(learning_rate\).*-conf .*functions"):
        reopen_run(folder, {"n_timesteps": 80})
    conf.write_text("hyperparams = {'default': dict(policy='MlpPolicy', n_timesteps=40)}")
    with pytest.raises(UserError, match="has no function learning_rate"):
        reopen_run(folder, {"n_timesteps": 80, "conf_file": str(conf)})


def test_an_environment_that_names_its_package(run, tmp_path, monkeypatch):
    (tmp_path / "package_of_a_user.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('Own-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        result = train(run(env_id="package_of_a_user:Own-v0"))
    finally:
        gym.registry.pop("Own-v0", None)
    assert result.model_path.name == "package_of_a_user-Own-v0.zip"
    assert result.model_path.is_file()


class Refusing(gym.Env):
    def __init__(self, licence: str = "") -> None:
        raise OSError(f"no licence\nin {licence!r}")


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({}, RunFailed, "cannot make Refusing-v0: OSError: no licence"),
        ({"env_kwargs": {"license": "x"}}, UserError, "'license'; did you mean 'licence'"),
        ({"eval_env_kwargs": {"license": "x"}}, UserError, "'license'; did you mean 'licence'"),
    ],
)
def test_an_environment_that_cannot_be_made(run, logs, fields, error, message):
    gym.register("Refusing-v0", entry_point=Refusing)
    try:
        with pytest.raises(error, match=message):
            create_run(run(env_id="Refusing-v0", **fields))
    finally:
        del gym.registry["Refusing-v0"]
    assert not logs.exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"policy_kwargs": {"features_extractor_kwargs": {"foo": 1}}}, "policy_kwargs: .*'foo'"),
        ({"callback": "rlzoo.CheckpointCallback"}, "callback rlzoo.CheckpointCallback needs save_freq"),
        ({"vec_env_wrapper": "json.dumps"}, "'json.dumps' is a function, not a class derived from"),
        ({"monitor_kwargs": {"info_keyword": ["x"]}}, "info_keywords"),
    ],
)
def test_arguments_that_a_class_does_not_take(run, logs, values, message):
    with pytest.raises(UserError, match=message):
        create_run(run(hyperparams=values))
    assert not logs.exists()


def test_an_unwritable_place_for_tensorboard(run, logs, conf):
    with pytest.raises(UserError, match="cannot write TensorBoard files"):
        create_run(run(tensorboard_log=str(conf)))
    assert not logs.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env_id": "Pendulum-v1", "hyperparams": {"use_sde": True}}, "agent for another environment"),
        ({"hyperparams": {"policy_kwargs": {"net_arch": [5]}}}, "policy_kwargs cannot be given"),
    ],
)
def test_what_cannot_be_changed_about_an_agent(run, fields, message):
    agent = train(run()).model_path
    with pytest.raises(UserError, match=message):
        create_run(run(trained_agent=str(agent), **fields))
    assert len(list(agent.parents[1].iterdir())) == 1


def test_a_description_of_the_wrong_type(run):
    folder = train(run()).folder
    args = folder / "CartPole-v1" / "args.yml"
    args.write_text(args.read_text().replace("seed: 0", "seed: abc"))
    with pytest.raises(UserError, match="seed must be a whole number, not 'abc'"):
        reopen_run(folder, {})


@pytest.mark.parametrize("new_run", [True, False])
def test_callbacks_of_an_old_run_stay_with_it(run, new_run):
    path = train(run(eval_freq=100, eval_episodes=1)).model_path
    model = PPO.load(path, env="CartPole-v1", device="cpu")
    callback = EvalCallback(rlzoo.make_vec_env("CartPole-v1"), eval_freq=10**6, verbose=0)
    model.learn(1, callback=[callback], reset_num_timesteps=new_run)
    assert (callback.best_mean_reward == -np.inf) is new_run


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"callback": "rlzoo.core.running_statistics.RunningMeanStd"}, "callback"),
        ({"monitor_kwargs": {"info_keywords": ["nope"]}}, "has no 'nope'|lacks 'nope'"),
    ],
)
def test_mistake_that_shows_late_leaves_no_folder(run, logs, values, message):
    with pytest.raises(UserError, match=message):
        train(run(hyperparams=values))
    assert not logs.exists()
