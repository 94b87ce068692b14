"""Names inside the log folder."""

from __future__ import annotations

from rlzoo.config.run import (
    all_runs,
    checkpoint_name,
    checkpoint_steps,
    find_runs,
    latest_run_id,
    model_file,
    run_name,
)


def test_names():
    assert run_name("ALE/Pong-v5", 3) == "ALE-Pong-v5_3"
    assert model_file("my_package:MyEnv-v0") == "my_package-MyEnv-v0.zip"
    assert checkpoint_steps(checkpoint_name(2000)) == 2000
    assert checkpoint_steps("best_model.zip") is None


def test_runs_are_found_by_number_and_not_mixed_up(tmp_path):
    uuid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    for name in (
        "Env-v1_1",
        "Env-v1_10",
        f"Env-v1_9_{uuid}",
        "Env-v1_1_2",
        "MyEnv-v1_4",
        "Env-v1_x",
        "Env-v11_7",
    ):
        (tmp_path / "ppo" / name).mkdir(parents=True)
    (tmp_path / "ppo" / "Env-v1_99").write_text("a file, not a run")
    assert [number for number, _ in find_runs(tmp_path, "ppo", "Env-v1")] == [1, 9, 10]
    assert latest_run_id(tmp_path, "ppo", "Env-v1") == 10
    assert latest_run_id(tmp_path, "ppo", "Other-v0") == 0
    assert latest_run_id(tmp_path / "nowhere", "ppo", "Env-v1") == 0
    assert ("MyEnv-v1", 4) in [(name, number) for name, number, _ in all_runs(tmp_path, "ppo")]
