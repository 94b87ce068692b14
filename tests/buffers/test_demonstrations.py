from __future__ import annotations

import resource
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.buffers.demonstrations import (
    ExpertDataset,
    as_dataset,
    fit_actions,
    fit_observations,
    read_image,
    write_image,
)
from rlzoo.core.errors import UserError

LENGTHS = (4, 3, 5)


def demonstrations(**changes: Any) -> dict[str, np.ndarray]:
    """Three episodes, whose rows are numbered."""
    n_steps = sum(LENGTHS)
    starts = np.zeros(n_steps, bool)
    starts[[0, 4, 7]] = True
    numbers = np.arange(n_steps)
    data = {
        "obs": np.stack([numbers, -numbers], axis=1).astype(np.float32),
        "actions": (numbers % 2)[:, None],
        "rewards": np.ones(n_steps),
        "episode_returns": np.array(LENGTHS, float),
        "episode_starts": starts,
    }
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def dataset(**kwargs: Any) -> ExpertDataset:
    return ExpertDataset(**{"traj_data": demonstrations(), "verbose": 0, **kwargs})


def rows_of(obs: np.ndarray) -> list[int]:
    return [int(row[0]) for row in obs]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "expert.npz", **demonstrations())
    read = ExpertDataset(tmp_path / "expert.npz", verbose=0)
    assert (read.num_traj, read.num_transition, len(read)) == (3, 12, 12)
    assert (read.avg_ret, read.std_ret) == (4.0, pytest.approx(np.std(LENGTHS)))
    obs, actions = read.read(np.array([3, 0]))
    assert rows_of(obs) == [3, 0]
    assert actions.tolist() == [[1], [0]]


@pytest.mark.parametrize(("limit", "n_episodes", "n_steps"), [(1, 1, 4), (2, 2, 7), (9, 3, 12), (-1, 3, 12)])
def test_only_the_first_episodes_are_used(limit: int, n_episodes: int, n_steps: int) -> None:
    some = dataset(traj_limitation=limit)
    assert (some.num_traj, some.num_transition) == (n_episodes, n_steps)
    assert some.avg_ret == np.mean(LENGTHS[:n_episodes])


def test_rows_are_split_and_each_pass_hands_out_all_of_them() -> None:
    split = dataset(train_fraction=0.75, batch_size=4)
    train = [split.get_next_batch("train") for _ in range(len(split.train_loader))]
    assert [len(obs) for obs, _ in train] == [4, 4, 1]
    seen = sorted(row for obs, _ in train for row in rows_of(obs))
    held_out = sorted(rows_of(split.get_next_batch("val")[0]))
    assert sorted(seen + held_out) == list(range(12))
    again = sorted(row for _ in range(3) for row in rows_of(split.get_next_batch("train")[0]))
    assert again == seen
    assert sorted(dataset(train_fraction=0.75).train_rows) == seen  # the same split next time
    for obs, actions in train:
        assert (actions[:, 0] == obs[:, 0] % 2).all()


def test_without_randomize_rows_keep_their_order() -> None:
    ordered = dataset(randomize=False, train_fraction=0.5, batch_size=4)
    batches = [rows_of(ordered.get_next_batch("train")[0]) for _ in range(3)]
    assert batches == [[0, 1, 2, 3], [4, 5], [0, 1, 2, 3]]
    assert rows_of(ordered.get_next_batch("val")[0]) == [6, 7, 8, 9]


def test_a_loader_of_all_rows() -> None:
    whole = dataset(randomize=False, batch_size=5)
    assert len(whole.get_next_batch()[0]) == 5
    whole.init_dataloader(12)
    assert rows_of(whole.get_next_batch(None)[0]) == list(range(12))


def test_no_rows_to_validate_with_is_said() -> None:
    with pytest.raises(UserError, match="train_fraction leaves none"):
        dataset(train_fraction=1.0).get_next_batch("val")
    with pytest.raises(UserError, match="split must be"):
        dataset().get_next_batch("test")


def test_what_was_read_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    dataset(verbose=1)
    assert capsys.readouterr().out == "demonstrations: 3 episodes, 12 steps, return 4.00 +/- 0.82\n"


def test_the_histogram_has_every_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gca()))
    dataset().plot()
    assert sum(bar.get_height() for bar in shown[0].patches) == 3
    plt.close("all")


def test_dict_observations_have_a_key_for_each_part() -> None:
    data = demonstrations(obs=None)
    parts = {"obs/goal": np.zeros((12, 2), np.float32), "obs/here": np.arange(12.0)[:, None]}
    obs, _ = dataset(traj_data={**data, **parts}).read(np.array([5]))
    assert set(obs) == {"goal", "here"}
    assert obs["here"].tolist() == [[5.0]]
    space = spaces.Dict(goal=spaces.Box(-1, 1, (2,)), here=spaces.Box(0, 20, (1,)))
    assert fit_observations("x", obs, space)["goal"].shape == (1, 2)
    with pytest.raises(UserError, match="another environment: its observations are a Dict"):
        fit_observations("x", obs, spaces.Box(-1, 1, (2,)))


# Images


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 12])
def test_images_come_back_exactly(channels: int, tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (10, 8, channels), np.uint8)
    write_image(tmp_path / "0.png", image)
    read = read_image(tmp_path / "0.png")
    for shape, expected in (((10, 8, channels), image), ((channels, 10, 8), np.moveaxis(image, -1, 0))):
        space = spaces.Box(0, 255, shape, np.uint8)
        np.testing.assert_array_equal(fit_observations("x", read[None], space)[0], expected)
    with pytest.raises(UserError, match="are images of shape"):
        fit_observations("x", read[None], spaces.Box(0, 255, (3, 9, 9), np.uint8))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A file whose images, beside it, are of the colour of their row."""
    (tmp_path / "shots").mkdir()
    paths = [f"shots/{row}.png" for row in range(12)]
    for row, path in enumerate(paths):
        write_image(tmp_path / path, np.full((6, 6, 1), row, np.uint8))
    np.savez(tmp_path / "expert.npz", **demonstrations(obs=np.array(paths)))
    return tmp_path / "expert.npz"


@pytest.mark.parametrize("sequential", [True, False])
def test_images_are_read_where_the_file_is(images: Path, sequential: bool) -> None:
    before = threading.active_count()
    options = {"randomize": False, "batch_size": 4, "sequential_preprocessing": sequential}
    read = ExpertDataset(images, verbose=0, **options)
    firsts = [int(read.get_next_batch("train")[0][0, 0, 0, 0]) for _ in range(4)]
    assert firsts == [0, 4, 0, 4]
    assert threading.active_count() == before + (not sequential)
    read.prepare_pickling()
    assert threading.active_count() == before
    assert int(read.get_next_batch("train")[0][0, 0, 0, 0]) == 0


def test_a_missing_image_is_named(images: Path) -> None:
    (images.parent / "shots" / "3.png").unlink()
    (images.parent / "shots" / "4.png").write_text("no image")
    read = ExpertDataset(images, verbose=0)
    with pytest.raises(UserError, match=r"expert\.npz names the image shots/3\.png, which is not there"):
        read.read(np.array([3]))
    with pytest.raises(UserError, match=r"4\.png is no image"):
        read.read(np.array([4]))


def test_an_image_of_wrong_lengths_takes_no_memory(tmp_path: Path) -> None:
    write_image(tmp_path / "0.png", np.zeros((6, 6, 3), np.uint8))
    content = (tmp_path / "0.png").read_bytes()
    at = content.index(b"IDAT") - 4
    (tmp_path / "0.png").write_bytes(content[:at] + b"\x7f\xff\xff\xff" + content[at + 4 :])
    before = peak_memory()
    with pytest.raises(UserError, match=r"0\.png is no image, or damaged"):
        read_image(tmp_path / "0.png")
    assert peak_memory() < before + 2**28


def test_an_image_of_many_pixels_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "0.png", np.zeros((6000, 6000, 1), np.uint8))
    with pytest.raises(UserError, match=r"0\.png is an image of 6000 x 6000 pixels"):
        read_image(tmp_path / "0.png")


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Mistakes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"actions": None}, "holds no demonstrations: it lacks 'actions'"),
        ({"obs": None}, "lacks 'obs'"),
        ({"episode_returns": np.zeros(0)}, "holds no episodes"),
        ({"actions": np.zeros((0, 1))}, "holds no episodes"),
        ({"rewards": np.zeros(5)}, "'rewards' has 5 rows, but 'actions' has 12"),
        ({"obs": np.full((12, 2), np.nan)}, "'obs' holds NaN"),
        ({"obs": np.array([None] * 12)}, "'obs' holds Python objects"),
        ({"episode_returns": np.ones(2)}, "'episode_starts' tells 3 episodes, but there are 2 returns"),
        ({"episode_starts": np.eye(12)[5]}, "begins within one"),
    ],
)
def test_wrong_data_is_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text) as error:
        dataset(traj_data=demonstrations(**changes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"traj_data": None}, "either expert_path or traj_data"),
        ({"expert_path": "x.npz"}, "either expert_path or traj_data"),
        ({"train_fraction": 0.0}, "train_fraction must be above 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"traj_limitation": 0}, "traj_limitation must be at least 1, or -1"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        dataset(**kwargs)


class Bomb:
    """Would leave a file behind if it were ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    bombs = np.array([Bomb(trap)] * 12, dtype=object)
    np.savez(tmp_path / "bad.npz", **demonstrations(obs=bombs))
    with pytest.raises(UserError, match=r"bad\.npz: 'obs' holds pickled Python objects") as error:
        ExpertDataset(tmp_path / "bad.npz")
    assert "\n" not in str(error.value)
    assert not trap.exists()


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        ExpertDataset(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UserError, match=r"text\.npz is no \.npz archive"):
        ExpertDataset(tmp_path / "text.npz")
    np.savez(tmp_path / "good.npz", **demonstrations())
    content = bytearray((tmp_path / "good.npz").read_bytes())
    content[250] ^= 255
    (tmp_path / "flipped.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"flipped\.npz is damaged"):
        ExpertDataset(tmp_path / "flipped.npz")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("metadata.json", "{}")
    with pytest.raises(UserError, match=r"model\.zip holds no demonstrations: it lacks 'actions'"):
        ExpertDataset(tmp_path / "model.zip")


def test_what_expert_dataset_may_be(tmp_path: Path) -> None:
    np.savez(tmp_path / "expert.npz", **demonstrations())
    given = dataset()
    assert as_dataset(given) is given
    assert len(as_dataset(str(tmp_path / "expert.npz"))) == 12
    limited = as_dataset({"expert_path": tmp_path / "expert.npz", "traj_limitation": 1})
    assert len(limited) == 4
    with pytest.raises(UserError, match="did you mean 'traj_limitation'"):
        as_dataset({"expert_path": "x", "traj_limit": 1})
    with pytest.raises(UserError, match="must be an ExpertDataset or the path"):
        as_dataset(5)


# Other environments


@pytest.mark.parametrize(
    ("actions", "space", "text"),
    [
        (np.zeros((5, 2)), spaces.Box(-1, 1, (1,)), r"actions are of shape \(2,\)"),
        (np.full((5, 1), 3), spaces.Discrete(3), r"not all in Discrete\(3\)"),
        (np.full((5, 1), 0.5), spaces.Discrete(3), r"not all in Discrete\(3\)"),
        (np.ones((5, 1), int), spaces.Box(-1, 1, (1,)), "not all in Box"),
        (np.full((5, 1), 1.5), spaces.Box(-1, 1, (1,)), "not all in Box"),
        (np.zeros((5, 2)), spaces.MultiDiscrete([2, 2]), "for Box and Discrete actions"),
    ],
)
def test_actions_of_another_environment(actions: np.ndarray, space: spaces.Space[Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        fit_actions("file", actions, space)


def test_actions_in_the_form_of_the_environment() -> None:
    numbers = fit_actions("file", np.array([[5], [7]]), spaces.Discrete(3, start=5))
    assert numbers.tolist() == [5, 7] and numbers.dtype == np.int64
    box = fit_actions("file", np.full((2, 4), 1.00001), spaces.Box(-1, 1, (2, 2)))
    assert box.shape == (2, 2, 2) and box.dtype == np.float32 and box.max() == 1


def test_observations_in_the_form_of_the_environment() -> None:
    assert fit_observations("x", np.array([[1], [2]]), spaces.Discrete(3)).shape == (2,)
    with pytest.raises(UserError, match="not all in Discrete"):
        fit_observations("x", np.array([[3]]), spaces.Discrete(3))
    with pytest.raises(UserError, match=r"of shape \(2,\), those of the environment of shape \(3,\)"):
        fit_observations("x", np.zeros((5, 2)), spaces.Box(-1, 1, (3,)))
