"""`rlzoo benchmark page`: a site that says what the scores say, and works without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlzoo.benchmark.score_table import TableRow
from rlzoo.benchmark.scores import SCORE, Score, digest, write_score
from rlzoo.benchmark.site.site import SiteOptions, write_site
from rlzoo.benchmark.site.site_figures import comparable
from rlzoo.benchmark.site.site_rows import SiteRow, site_rows
from rlzoo.benchmark.suites import suite_of
from rlzoo.cli.benchmark.benchmark_table import read_table
from rlzoo.cli.main import main
from rlzoo.config.benchmark import HELD_OUT, Row
from rlzoo.config.run import RunConfig
from rlzoo.experiment.training_run import train
from tests.report.browser import CHROMIUM, Page, browser

SMALL = {"policy": "MlpPolicy", "n_timesteps": 64, "n_envs": 1, "n_steps": 32}
NOTE = "an <i>italic</i> note"


def score(folder: Path, algo: str, env_id: str, seed: int, mean: float) -> Score:
    return Score(
        algo=algo,
        env_id=env_id,
        seed=seed,
        n_timesteps=64,
        episodes=100,
        mean=mean,
        std=1.0,
        median=mean,
        mean_length=10.0,
        success_rate=None,
        deterministic=True,
        evaluation_seed=HELD_OUT,
        training_seconds=2.5,
        sha256=digest(folder / f"{env_id}.zip"),
        trained_with={
            "versions": {"rlzoo": "0.1.0", "torch": "2.13.0"},
            "git_commit": "0123456789abcdef",
            "date": "2026-01-02T00:00:00Z",
        },
        versions={},
        date="2026-01-02T00:00:00Z",
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two algorithms on two environments, evaluated during the training and scored."""
    logs = tmp_path_factory.mktemp("runs")
    for algo, env_id, mean in (
        ("ppo", "CartPole-v1", 9.5),
        ("a2c", "CartPole-v1", 120.25),
        ("ppo", "Acrobot-v1", -80.0),
        ("a2c", "Acrobot-v1", -500.0),
    ):
        for seed in (0, 1) if algo == "ppo" else (0,):
            config = RunConfig(
                algo=algo,
                env_id=env_id,
                seed=seed,
                hyperparams=SMALL,
                log_folder=str(logs / f"seed{seed}"),
                eval_freq=32,
                eval_episodes=1,
                verbose=0,
            )
            folder = train(config).folder
            (folder / "command.txt").write_text(f"rlzoo train --algo {algo} --env {env_id}\n")
            write_score(folder / SCORE, score(folder, algo, env_id, seed, mean + seed))
    (logs / "list.yml").write_text(
        "seeds: [0, 1]\nrows:\n"
        f"  - {{algo: ppo, env: CartPole-v1, n_timesteps: 64, required: 5, note: '{NOTE}'}}\n"
        "  - {algo: a2c, env: CartPole-v1}\n"
        "  - {algo: [ppo, a2c], env: Acrobot-v1}\n"
    )
    return logs


@pytest.fixture(scope="module")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of these runs, away from the runs."""
    folder = tmp_path_factory.mktemp("site") / "site"
    made = main(
        ["benchmark", "page", str(runs), "--list", str(runs / "list.yml"), "-o", str(folder), "-n", "10"]
    )
    assert made == 0
    return folder


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with browser(tmp_path / "profile") as page:
        yield page
        assert page.errors == []
        assert all(url.startswith(("file://", "data:")) for url in page.requests)


def test_index_has_a_line_for_each_row(site):
    text = (site / "index.html").read_text()
    assert text.count('href="rows/') == 4
    assert (
        "10.0 [9.5, 10.5]" in text and "120.2" in text and ">reached<" in text and "Classic control" in text
    )


def test_row_page_shows_what_was_trained_and_how(site):
    text = (site / "rows" / "ppo-CartPole-v1.html").read_text()
    for shown in (
        "n_steps: 32",
        "rlzoo train --algo ppo --env CartPole-v1",
        "0123456789",
        "2 s",
        "0.1.0",
        "9.5 ± 1.0",
    ):
        assert shown in text
    assert "an &lt;i&gt;italic&lt;/i&gt; note" in text
    assert (site / "rows" / "ppo-CartPole-v1.svg").read_text().lstrip().startswith("<?xml")
    assert (site / "rows" / "ppo-CartPole-v1.mp4").stat().st_size > 1000
    assert "training seed 1" in text  # the better of the two
    assert "Mean over the training seeds" in text
    assert "the training with seed 0" in (site / "rows" / "a2c-CartPole-v1.html").read_text()


def test_suite_figures_compare_what_all_have(site):
    assert {path.name for path in site.glob("*.svg")} == {
        "classic-control-aggregates.svg",
        "classic-control-profiles.svg",
    }


def test_table_is_sorted_by_the_heading_that_is_clicked(site, page):
    page.open(site / "index.html")
    column = "[...document.querySelectorAll('tbody tr')].map(r => r.cells[INDEX].textContent)"
    headings = page.evaluate("[...document.querySelectorAll('th')].map(h => h.textContent)")
    median = headings.index("median")
    click = f"document.querySelectorAll('th button')[{median}].click()"
    page.evaluate(click)
    medians = [float(text) for text in page.evaluate(column.replace("INDEX", str(median)))]
    assert medians == sorted(medians, reverse=True) and len(medians) == 4
    page.evaluate(click)
    assert page.evaluate(column.replace("INDEX", str(median)))[0].startswith("-500")
    page.evaluate("document.querySelectorAll('th button')[0].click()")
    assert page.evaluate(column.replace("INDEX", "0")) == ["a2c", "a2c", "ppo", "ppo"]


def test_table_shows_only_rows_with_the_words_typed(site, page):
    page.open(site / "index.html")
    page.evaluate("filter = document.getElementById('filter'); filter.value = 'acro PPO'")
    page.evaluate("filter.dispatchEvent(new Event('input'))")
    assert page.evaluate("document.querySelectorAll('tbody tr:not([hidden])').length") == 1
    assert page.evaluate("document.getElementById('shown').textContent") == "1 of 4 rows"


def test_video_plays_in_a_browser(site, page):
    page.open(site / "rows" / "a2c-CartPole-v1.html")
    page.evaluate("document.querySelector('video').play()")
    page.wait_for("document.querySelector('video').currentTime > 0")
    assert page.evaluate("document.querySelector('video').videoWidth") == 600
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")


@pytest.mark.parametrize("path", ["index.html", "rows/ppo-Acrobot-v1.html"])
def test_pages_fit_a_phone(site, page, path):
    page.open(site / path, width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    heights = "[...document.querySelectorAll('td')].map(cell => cell.getBoundingClientRect().height)"
    assert max(page.evaluate(heights)) < 40  # one line, also of the cells that are scrolled to


def test_row_without_runs_shows_current_hyperparameters(runs, tmp_path, capsys):
    scores = tmp_path / "scores.json"
    (place,) = (runs / "seed0" / "ppo").glob("CartPole-v1_1")
    shutil.copyfile(place / SCORE, scores)
    assert main(["benchmark", "page", str(scores), "-o", str(tmp_path / "site")]) == 0
    text = (tmp_path / "site" / "rows" / "ppo-CartPole-v1.html").read_text()
    assert "No agent of these trainings is kept" in text and "No evaluations" in text
    assert "n_envs: 8" in text and "rlzoo train --algo ppo" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no nowhere"),
        (["."], "there is no score.json"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", "page", *arguments, "-o", "site"]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_site_is_kept(runs, tmp_path, capsys):
    (tmp_path / "site").write_text("mine")
    assert main(["benchmark", "page", str(runs), "--no-videos", "-o", str(tmp_path / "site")]) == 2
    assert "cannot write in" in capsys.readouterr().err and (tmp_path / "site").read_text() == "mine"


def test_long_title_fits_a_phone(runs, tmp_path, page):
    site, title = tmp_path / "site", "a/place/of/runs/that/is/long" * 5
    flags = ["--no-videos", "--title", title, "--rows", "ppo:CartPole-v1", "-o", str(site)]
    assert main(["benchmark", "page", str(runs), "--list", str(runs / "list.yml"), *flags]) == 0
    for path in ("index.html", "rows/ppo-CartPole-v1.html"):
        page.open(site / path, width=390, height=800)
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_suite_with_equal_scores_goes_without_figures(runs, tmp_path, monkeypatch):
    _, listed = read_table([str(runs)], str(runs / "list.yml"), [])
    equal = [replace(row, scores=tuple(replace(one, mean=7.0) for one in row.scores)) for row in listed]
    said: list[str] = []
    monkeypatch.setattr("rlzoo.plots.normalisation.best_reference", lambda env_id: None)
    options = SiteOptions(title="equal", videos=False)
    write_site(site_rows(equal, [runs]), tmp_path / "site", options, said.append)
    why = "all evaluations on CartPole-v1 are 7, so that they have no range"
    assert said == [f"no figures of Classic control: {why}"]
    assert "equal" in (tmp_path / "site" / "index.html").read_text()


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """A copy of the runs, to be damaged."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def make_page(runs: Path, *flags: str) -> int:
    site = runs.parent / "site"
    return main(["benchmark", "page", str(runs), "--list", str(runs / "list.yml"), "-o", str(site), *flags])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("evaluations.npz", b"junk", "is no .npz archive"),
        ("CartPole-v1/config.yml", b"\xff\xfe", "it is no UTF-8 text"),
        ("CartPole-v1/config.yml", None, "No such file"),
        ("command.txt", b"\xff", "it is no UTF-8 text"),
    ],
)
def test_damaged_run_is_one_line_and_leaves_no_site(file, content, message, copied, capsys):
    path = copied / "seed0" / "ppo" / "CartPole-v1_1" / file
    path.unlink() if content is None else path.write_bytes(content)
    assert make_page(copied, "--no-videos") == 2
    error = capsys.readouterr().err
    assert message in error and str(path) in error and "Traceback" not in error
    assert not (copied.parent / "site").exists()


def test_site_escapes_text_and_skips_foreign_origins(copied):
    for seed, origin in (
        (0, {"versions": ["a"], "git_commit": 7, "date": 5, "processor": {"a": 1}}),
        (1, {"versions": {"rlzoo": "</td><script>"}, "git_commit": "<img>", "processor": "<b>"}),
    ):
        place = copied / f"seed{seed}" / "ppo" / "CartPole-v1_1" / SCORE
        content = json.loads(place.read_text())
        place.write_text(json.dumps(content | {"trained_with": origin}))
    assert make_page(copied, "--no-videos") == 0
    text = (copied.parent / "site" / "rows" / "ppo-CartPole-v1.html").read_text()
    assert "not recorded" in text and "&lt;script&gt;" in text
    assert not any(tag in text for tag in ("<script", "<img>", "<b>"))


def test_package_of_an_environment_is_not_imported_for_a_video(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("deadly_page.py").write_text("open('executed', 'w')")
    env_id, name = "deadly_page:CartPole-v1", "deadly_page-CartPole-v1"
    run = Path(shutil.copytree(runs / "seed0" / "ppo" / "CartPole-v1_1", Path("logs", "ppo", f"{name}_1")))
    (run / "CartPole-v1").rename(run / name)
    (run / "CartPole-v1.zip").rename(run / f"{name}.zip")
    for file in (run / name / "args.yml", run / SCORE):
        file.write_text(file.read_text().replace("CartPole-v1", env_id))
    assert main(["benchmark", "page", "logs", "-o", "site", "-n", "5"]) == 0
    assert "add --trust deadly_page" in capsys.readouterr().out
    assert not Path("executed").exists()


def test_run_folder_without_number_goes_without_video(copied, capsys):
    for seed in (0, 1):
        folder = copied / f"seed{seed}" / "ppo"
        (folder / "CartPole-v1_1").rename(folder / "mine")
    assert make_page(copied, "-n", "5") == 0
    assert "no video of ppo on CartPole-v1" in capsys.readouterr().out
    text = (copied.parent / "site" / "rows" / "ppo-CartPole-v1.html").read_text()
    assert "No video was recorded" in text and "10.0 [9.5, 10.5]" in text


def test_pages_of_older_rows_go_and_other_files_stay(copied):
    rows = copied.parent / "site" / "rows"
    assert make_page(copied, "--no-videos") == 0
    (rows / "mine.html").write_text("<p>mine</p>")
    assert make_page(copied, "--no-videos", "--rows", "ppo:CartPole-v1") == 0
    assert {path.name for path in rows.iterdir()} == {
        "ppo-CartPole-v1.html",
        "ppo-CartPole-v1.svg",
        "mine.html",
    }


def test_rows_with_like_names_have_files_of_their_own():
    pairs = [("ppo", "A/B-v0"), ("ppo", "A-B-v0"), ("ppo-A", "B-v0"), ("PPO", "A-B-v0"), ("ppo", "a#?%-v0")]
    tables = [TableRow(Row(algo=algo, env=env), ()) for algo, env in pairs]
    assert [row.slug for row in site_rows(tables, [])] == [
        "ppo-A-B-v0",
        "ppo-A-B-v0-2",
        "ppo-A-B-v0-3",
        "PPO-A-B-v0-4",
        "ppo-a----v0",
    ]


@pytest.mark.parametrize(
    ("env_id", "suite"),
    [
        ("CartPole-v1", "Classic control"),
        ("LunarLander-v3", "Box2D"),
        ("Hopper-v5", "MuJoCo"),
        ("HopperBulletEnv-v0", "PyBullet"),
        ("ALE/Pong-v5", "Atari"),
        ("PongNoFrameskip-v4", "Atari"),
        ("MiniGrid-DoorKey-5x5-v0", "MiniGrid"),
        ("FetchReach-v4", "Robotics"),
        ("CartPoleNoVel-v1", "Without velocities"),
        ("Catch-v0", "Examples of rlzoo"),
        ("Unheard-v0", "Other environments"),
    ],
)
def test_suite_is_known_without_the_package(env_id, suite):
    assert suite_of(env_id) == suite


def test_comparable_rows_share_all_environments():
    def row(label: str, env: str) -> SiteRow:
        return SiteRow(TableRow(Row(algo=label, env=env), ()), {}, "")

    pairs = [("ppo", "A"), ("ppo", "B"), ("ppo", "C"), ("a2c", "A"), ("a2c", "B"), ("dqn", "A"), ("dqn", "C")]
    found = comparable([row(*pair) for pair in pairs])
    assert [(one.row.label, one.row.env) for one in found] == [
        ("ppo", "A"),
        ("ppo", "B"),
        ("a2c", "A"),
        ("a2c", "B"),
    ]
    assert comparable([row("ppo", "A"), row("a2c", "B")]) == []
