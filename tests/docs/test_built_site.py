"""The built site in a browser: `make docs-test`, after `make docs`.

Every page opens from its file without a network, its links lead somewhere, its images load, it fits a phone,
and the search finds things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.report.browser import CHROMIUM, Page, browser

HTML = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(HTML.rglob("*.html"))
SOURCES = [page for page in PAGES if page.is_relative_to(HTML / "source")]  # all made in one way
OPENED = [page for page in PAGES if page not in SOURCES[3:]]
DESKTOP, PHONE = 1280, 390  # width in pixels

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(not PAGES, reason="run `make docs` first"),
]


class Anchors(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if values.get("id"):
            self.ids.add(str(values["id"]))
        for key in ("href", "src"):
            if values.get(key) and tag != "base":
                self.links.append(str(values[key]))


@cache
def anchors(page: Path) -> Anchors:
    return Anchors(page.read_text(encoding="utf-8"))


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page into the site that lead nowhere."""
    for link in anchors(page).links:
        if re.match(r"[a-z]+:|//", link):
            continue
        path, _, fragment = unquote(link).partition("#")
        target = (page.parent / path.partition("?")[0]).resolve() if path else page
        target = target / "index.html" if target.is_dir() else target
        if not target.exists() or (
            fragment and target.suffix == ".html" and not has_anchor(target, fragment)
        ):
            yield link


def has_anchor(page: Path, fragment: str) -> bool:
    return fragment in anchors(page).ids or fragment in ("top", "")


def test_every_link_leads_somewhere() -> None:
    broken = {
        str(page.relative_to(HTML)): sorted(set(found)) for page in PAGES if (found := [*broken_links(page)])
    }
    assert not broken


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<p id="there">')
    text = '<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a><img src="d.png">'
    (tmp_path / "a.html").write_text(text)
    assert list(broken_links(tmp_path / "a.html")) == ["b.html#gone", "c.html", "d.png"]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with browser(tmp_path_factory.mktemp("browser") / "profile") as page:
        yield page


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """The browser; whatever it was asked to load was on the disk, and no script failed."""
    tab.errors.clear()
    tab.requests.clear()
    yield tab
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith(("file://", "data:", "blob:"))] == []


@pytest.mark.parametrize("path", OPENED, ids=lambda path: path.relative_to(HTML).as_posix())
def test_page_opens(page: Page, path: Path) -> None:
    page.open(path, width=DESKTOP)
    assert page.evaluate("document.querySelector('#furo-main-content') !== null")
    images = "[...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src)"
    page.evaluate("[...document.images].forEach(i => i.loading = 'eager')")
    page.wait_for(f"{images}.length === 0")
    page.open(path, width=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("word", ["clip_range", "VecNormalize", "--eval-freq"])
def test_search_finds(page: Page, word: str) -> None:
    page.open(HTML / "search.html", query=f"q={word}")
    page.wait_for("document.querySelectorAll('#search-results li a').length > 0")
    first = page.evaluate("document.querySelector('#search-results li a').href")
    assert Path(unquote(first.removeprefix("file://").partition("#")[0].partition("?")[0])).exists()
