"""`rlzoo validate`."""

from __future__ import annotations

import pytest

from rlzoo.cli.main import main
from rlzoo.config.hyperparams import shipped_folder


def validate(tmp_path, text, name="ppo.yml", *arguments):
    (tmp_path / name).write_text(text)
    return main(["validate", *arguments, str(tmp_path / name)])


SHIPPED = sorted(
    str(path.relative_to(shipped_folder("hyperparams")))
    for path in shipped_folder("hyperparams").rglob("*.yml")
)


@pytest.mark.filterwarnings("ignore:ppo. is now ppo")
@pytest.mark.parametrize("file", SHIPPED)
def test_the_shipped_files_have_no_problems(capsys, file):
    assert main(["validate", str(shipped_folder("hyperparams") / file)]) == 0
    captured = capsys.readouterr()
    assert ", no problems" in captured.out
    assert all("is not installed" in line for line in captured.err.splitlines())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n_stepz: 8", "unknown hyperparameter 'n_stepz'; did you mean 'n_steps'?"),
        ("n_steps: many", "n_steps must be a whole number, not 'many'"),
        ("gamma: 1.5", "gamma must be at least 0 and at most 1"),
        ("learning_rate: line_3e-4", "did you mean 'lin_...'?"),
        ("clip_range: [1]", "clip_range must be"),
        ("n_envs: 0", "n_envs must be"),
        ("n_steps: 10", "batch_size 64 does not divide n_steps * n_envs = 10 * 8 = 80"),
        ("env_wrapper: rlzoo.AtariWraper", "'AtariWrapper'"),
        ("env_wrapper: no_such_package.Wrapper", "no_such_package"),
        ("env_wrapper: {rlzoo.TimeFeatureWrapper: {max_stepz: 3}}", "'max_steps'"),
        ("normalize: sometimes", "normalize must be"),
        ("normalize: {norm_obz: true}", "'norm_obs'"),
        ("policy_kwargs: 3", "policy_kwargs must be a mapping"),
        ("policy_kwargs: {net_arck: [64]}", "unknown policy keyword 'net_arck'; did you mean 'net_arch'?"),
        ("policy_kwargs: {activation_fn: rellu}", "unknown activation 'rellu'"),
        ("policy: MlpPolciy", "unknown policy 'MlpPolciy'; did you mean 'MlpPolicy'?"),
    ],
)
def test_a_wrong_line_is_found_with_its_number(capsys, tmp_path, line, message):
    text = f"default: {{policy: MlpPolicy}}\n\nMine-v0:\n  policy: MlpPolicy\n  n_envs: 8\n  {line}\n"
    if line.startswith("n_envs"):
        text = text.replace("  n_envs: 8\n", "")
    if line.startswith("policy:"):
        text = text.replace("  policy: MlpPolicy\n", "")
    assert validate(tmp_path, text) == 2
    captured = capsys.readouterr()
    (err,) = captured.err.splitlines()
    assert message in err and "Mine-v0: " in err
    assert f"{tmp_path / 'ppo.yml'}, line " in err
    number = int(err.split(", line ")[1].split(",")[0])
    assert text.splitlines()[number - 1].strip() in (line, "n_envs: 8", "Mine-v0:")
    assert "2 entries, 1 problem\n" in captured.out


def test_each_wrong_entry_is_reported(capsys, tmp_path):
    text = "A-v0: {policy: MlpPolicy, n_stepz: 1}\nB-v0: {policy: CnnPolicy}\nC-v0: {gamma: 9}\n"
    assert validate(tmp_path, text, "mine.yml", "--algo", "ppo") == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 2 and "line 1, A-v0" in err[0] and "line 3, C-v0" in err[1]


def test_a_whole_file_entry_and_a_python_file(capsys, tmp_path):
    assert validate(tmp_path, "policy: MlpPolicy\nn_steps: 3.5\n") == 2
    assert "line 2" in capsys.readouterr().err
    assert validate(tmp_path, "hyperparams = {'A-v0': dict(policy='MlpPolicy', n_steps='x')}", "ppo.py") == 2
    assert "ppo.py, A-v0: n_steps must be" in capsys.readouterr().err


def test_the_algorithm_must_be_known(capsys, tmp_path):
    assert validate(tmp_path, "default: {policy: MlpPolicy}", "mine.yml") == 2
    assert "say which with --algo" in capsys.readouterr().err


def test_malformed_yaml_names_file_and_line(capsys, tmp_path):
    assert validate(tmp_path, "default:\n  policy: [\n") == 2
    err = capsys.readouterr().err
    assert "ppo.yml, line 2" in err and err.count("\n") == 1


def test_a_wrapper_of_an_optional_package_is_noted(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("rlzoo.experiment.validate_hyperparams.find_spec", lambda name: None)
    text = "A-v0: {policy: MlpPolicy, env_wrapper: [{minigrid.wrappers.FlatObsWrapper: {}}]}"
    assert validate(tmp_path, text) == 0
    assert (
        "minigrid.wrappers.FlatObsWrapper is not checked: minigrid is not installed"
        in capsys.readouterr().err
    )


def test_a_file_that_is_not_there_is_said_to_be_missing(capsys):
    assert main(["validate", "nothing.yml"]) == 2
    assert "nothing.yml: No such file" in capsys.readouterr().err
