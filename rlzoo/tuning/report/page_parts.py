"""Parts of the self-contained pages about studies, plotly.js included."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence

from rlzoo.tuning.report.figures import Figure
from rlzoo.tuning.report.plotly_figures import PlotlySpec, plotly_specs

STYLE = """
:root { --ink: #1d2530; --soft: #5d6875; --line: #e2e6eb; --back: #f6f7f9; --accent: #2f6db5; --best: #d9731a;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); line-height: 1.5; font-size: 15px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main, header > div { max-width: 1120px; margin: 0 auto; padding: 0 24px; }
header { background: #fff; border-bottom: 1px solid var(--line); padding: 32px 0 0; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
header p, .caption { color: var(--soft); margin: 0; }
.caption { font-size: 14px; max-width: 90ch; margin-bottom: 12px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 18px 0 12px; font-size: 14px; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px;
  margin: 24px 0; }
.tile, section { background: #fff; border: 1px solid var(--line); border-radius: 8px; }
.tile { padding: 14px 18px; }
.tile b { display: block; font-size: 24px; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.best b { color: var(--best); }
section { padding: 20px 24px; margin: 0 0 20px; scroll-margin-top: 12px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { padding: 6px 12px 6px 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; border-bottom-width: 2px; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
tr.first td { font-weight: 600; }
td.error { font-family: var(--mono); font-size: 12.5px; overflow-wrap: anywhere; }
.bar { display: inline-block; height: 9px; border-radius: 2px; background: var(--accent); margin-right: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 24px; margin: 8px 0 0; font-size: 14px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px;
  margin: 12px 0 0; overflow-x: auto; font: 13px/1.5 var(--mono); }
details { margin-top: 14px; } summary { cursor: pointer; color: var(--accent); font-size: 14px; }
.panels { display: grid; gap: 8px 16px; grid-template-columns: 1fr; }
.panels.many { grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); }
.missing { color: var(--soft); font-style: italic; margin: 4px 0 0; }
footer { color: var(--soft); font-size: 13px; padding: 4px 0 40px; }
@media (max-width: 600px) { dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
@media print { nav { display: none; } section { break-inside: avoid; } }
"""
SCRIPT = """
const specs = JSON.parse(document.getElementById("specs").textContent);
for (const [name, spec] of Object.entries(specs)) {
  const place = document.getElementById(name);
  const small = place.parentElement.classList.contains("many");
  const settings = { responsive: true, displaylogo: false, displayModeBar: small ? false : "hover" };
  Plotly.newPlot(place, spec.data, spec.layout, settings);
}
"""


def document(
    title: str,
    study: str,
    links: Iterable[tuple[str, str]],
    body: Iterable[str],
    specs: Mapping[str, PlotlySpec],
    footer: str,
) -> str:
    """Return a page.

    :param links: ids of sections, and their titles
    :param body: sections in HTML
    :param specs: figures by the ids of their places
    :param footer: a sentence
    """
    from plotly.offline import get_plotlyjs

    nav = "".join(f'<a href="#{place}">{escape(name)}</a>' for place, name in links)
    data = json.dumps(specs, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}: {escape(study)}</title>
<style>{STYLE}</style>
</head>
<body>
<header><div><h1>{escape(title)}</h1><p>Study {escape(study)}</p><nav>{nav}</nav></div></header>
<main>
{"".join(body)}
<noscript><p class="missing">The figures need JavaScript; the PNG files show the same.</p></noscript>
<footer>{escape(footer)}</footer>
</main>
<script type="application/json" id="specs">{data}</script>
<script>{get_plotlyjs()}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def escape(value: object) -> str:
    """Return a value as text in HTML."""
    return html.escape(str(value))


def section(place: str, title: str, content: str) -> str:
    """Return a section with a title.

    :param place: its id
    :param content: in HTML
    """
    return f'<section id="{place}"><h2>{escape(title)}</h2>{content}</section>\n'


def missing_note(sentence: str) -> str:
    """Return the reason why something is not shown."""
    return f'<p class="missing">{escape(sentence)}</p>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]) -> str:
    """Return an HTML table.

    :param rows: cells in HTML
    """
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, header, strict=True))
    lines = ("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def tile_row(tiles: Iterable[tuple[str, str, str]]) -> str:
    """Return a row of tiles.

    :param tiles: class (best or empty), the large text, the small text
    """
    boxes = (
        f'<div class="tile {kind}"><b>{escape(big)}</b><span>{escape(small)}</span></div>'
        for kind, big, small in tiles
    )
    return f'<div class="tiles">{"".join(boxes)}</div>\n'


def _height(spec: PlotlySpec, many: bool) -> int:
    """Return the height in pixels: that of the layout, or a default for the number of columns."""
    height = spec["layout"].get("height")
    return height if isinstance(height, int) else 270 if many else 370


def figure_section(figure: Figure) -> tuple[str, dict[str, PlotlySpec]]:
    """Return the section of a figure, and the figures of its panels by the ids of their places."""
    specs = plotly_specs(figure)
    caption = " ".join([figure.caption, *figure.notes])
    if not figure.drawable:
        return section(figure.name, figure.title, missing_note(figure.missing)), {}
    plots = "".join(
        f'<div id="{figure.name}-{k}" style="height:{_height(spec, len(specs) > 2)}px"></div>'
        for k, spec in enumerate(specs)
    )
    many = " many" if len(specs) > 2 else ""
    content = f'<p class="caption">{escape(caption)}</p><div class="panels{many}">{plots}</div>'
    return (
        section(figure.name, figure.title, content),
        {f"{figure.name}-{k}": spec for k, spec in enumerate(specs)},
    )
