"""Tables as Markdown and LaTeX text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def markdown_table(headings: Sequence[str], lines: Sequence[Sequence[str]], is_number: Sequence[bool]) -> str:
    """Return a Markdown table, without a line break at its end.

    :param is_number: of each column, which is aligned to the right
    """
    texts = [" | ".join(map(escape_markdown, line)) for line in (headings, *lines)]
    rule = "|".join("---:" if number else "---" for number in is_number)
    return "\n".join([f"| {texts[0]} |", f"|{rule}|", *(f"| {text} |" for text in texts[1:])])


def latex_table(headings: Sequence[str], lines: Sequence[Sequence[str]], is_number: Sequence[bool]) -> str:
    """Return a LaTeX tabular of the package booktabs, without a line break at its end."""
    texts = [" & ".join(map(escape_latex, line)) + r" \\" for line in (headings, *lines)]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in is_number)}}}",
            r"\toprule",
            texts[0],
            r"\midrule",
            *texts[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


TABLES: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]], Sequence[bool]], str]] = {
    "md": markdown_table,
    "tex": latex_table,
}
"""By the suffix of their files."""


def escape_markdown(text: str) -> str:
    """Return a cell of a Markdown table."""
    return text.replace("|", r"\|")


def escape_latex(text: str) -> str:
    """Return a cell of a LaTeX table; the minus of a number is one, not a hyphen."""
    if text == "-":
        return "--"
    text = re.sub(r"[&%$#_{}\\~^±]", lambda match: _SPECIAL[match[0]], text)
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", text)
