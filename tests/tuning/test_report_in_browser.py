"""The page opened in headless Chromium without a network: every figure is drawn, the console is silent."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from studies import make_settings, make_study

from rlzoo.config.run import RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.tuning.pbt.population import first_generation, next_generation
from rlzoo.tuning.pbt.population_report import write_population_report
from rlzoo.tuning.pbt.population_study import Population
from rlzoo.tuning.report.figures import BLUE, ORANGE, RED
from rlzoo.tuning.report.study_report import write_report
from rlzoo.tuning.study.study import validate

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Plots(HTMLParser):
    """Of each element of the class `js-plotly-plot`: how many marks its drawing has."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[str, int] = {}
        self.placed: list[str] = []  # places for figures, drawn or not
        self.path: list[tuple[str, str]] = []  # (tag, plot that begins here)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name, classes = found.get("id") or "", (found.get("class") or "").split()
        inside = next((plot for _, plot in reversed(self.path) if plot), "")
        if not inside and re.fullmatch(r"[a-z_]+-\d+", name):
            self.placed.append(name)
        if inside and ((tag == "path" and found.get("d")) or tag == "canvas"):
            self.marks[inside] = self.marks.get(inside, 0) + 1
        if tag not in VOID:
            self.path.append((tag, name if "js-plotly-plot" in classes else ""))

    def handle_endtag(self, tag: str) -> None:
        while self.path and self.path.pop()[0] != tag:
            pass


def browse(page: Path, *arguments: str) -> tuple[str, list[str]]:
    """Open a page: what Chromium prints, and the lines of the console."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-unsafe-swiftshader",  # for WebGL, which draws the parallel coordinates
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--virtual-time-budget=20000",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={page.parent / 'browser'}",
        *arguments,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, [line for line in console if "GL Driver Message" not in line]


@pytest.mark.parametrize("two", [False, True])
def test_every_figure_is_drawn(two: bool, tmp_path: Path) -> None:
    study = make_study(20, 0 if two else 5, 2, two=two)
    write_report(study, make_settings(sampler="nsga2" if two else "tpe"), tmp_path)
    dom, console = browse(tmp_path / "report.html", "--dump-dom")
    assert console == []
    plots = Plots()
    plots.feed(dom)
    assert len(plots.placed) >= 10
    assert {name: plots.marks.get(name, 0) >= 5 for name in plots.placed} == dict.fromkeys(plots.placed, True)


def test_every_figure_of_a_population_is_drawn(tmp_path: Path) -> None:
    run = RunConfig(algo="ppo", env_id="CartPole-v1", n_timesteps=500, seed=3)
    settings, space = validate(TuneConfig(run=run))
    history = [first_generation(space, 8, seed=3)]
    for interval in range(5):
        if interval:
            history.append(next_generation(space, history[-1], 3))
        history[-1] = [replace(m, value=10.0 * interval + m.member % 5) for m in history[-1]]
    population = Population(tmp_path, settings, space, "pbt", 8, 100, 500, history)
    write_population_report(population)
    dom, console = browse(tmp_path / "report.html", "--dump-dom")
    assert console == []
    plots = Plots()
    plots.feed(dom)
    assert len(plots.placed) >= 9
    assert {name: plots.marks.get(name, 0) >= 5 for name in plots.placed} == dict.fromkeys(plots.placed, True)


def test_the_screenshot_has_the_colours_of_the_figures(tmp_path: Path) -> None:
    from matplotlib.image import imread

    write_report(make_study(20, 5, 2), make_settings(), tmp_path)
    picture = tmp_path / "screenshot.png"
    browse(tmp_path / "report.html", f"--screenshot={picture}", "--window-size=1200,4600")
    pixels = np.rint(imread(picture)[..., :3] * 255).astype(int)
    for color in (BLUE, ORANGE, RED):
        wanted = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
        assert (pixels == wanted).all(axis=-1).sum() > 200, color


def test_a_page_that_draws_nothing_would_be_seen(tmp_path: Path) -> None:
    write_report(make_study(5), make_settings(), tmp_path)
    page = tmp_path / "report.html"
    page.write_text(page.read_text().replace("Plotly.newPlot(place", "Plotly.noSuchThing(place"))
    dom, console = browse(page, "--dump-dom")
    assert any("noSuchThing" in line for line in console)
    plots = Plots()
    plots.feed(dom)
    assert plots.placed
    assert not plots.marks
