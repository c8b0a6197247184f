"""What happens to the pages while the site is built: options of commands, links to the API, equations."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

import command_pages
import gallery_pages
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from validate_docstrings import exported

EQUATION = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)
BAR = re.compile("<mo>(&#x02016;|&#x0007C;)</mo>")
LOGARITHM = re.compile("(?<!<msub>)<mi>log</mi>(?=<m[^o])|<msub><mi>log</mi><mn>2</mn></msub>")
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
NOT_PROSE = re.compile(r"(<(h[1-6]|a|pre)\b.*?</\2>)", re.S)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the commands and the examples."""
    for path, content in (command_pages.pages() | gallery_pages.pages()).items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Turn equations into MathML and the first mention of a public name into a link."""
    content = EQUATION.sub(lambda found: equation(found[2], found[1] == "div"), content)
    content = SPREAD.sub("\u00a0±\u00a0", content)
    return with_links(content)


def on_post_build(config: Any) -> None:
    """Leave the search index as a script too: pages opened by double click may load no data, but scripts."""
    folder = Path(config["site_dir"]) / "search"
    index = (folder / "search_index.json").read_text("utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", "utf-8")


def equation(latex: str, block: bool) -> str:
    r"""MathML of ``\(…\)`` or ``\[…\]``; browsers draw it by themselves, offline."""
    words = html.unescape(latex).strip()[2:-2].strip()
    mathml = convert(words, display="block" if block else "inline")
    if "\\" in mathml:
        raise ValueError(f"an equation has a command that cannot be drawn: {words}")
    mathml = BAR.sub(r'<mo stretchy="false">\1</mo>', mathml)  # else only the left one of a pair grows
    mathml = LOGARITHM.sub(r'\g<0><mspace width="0.17em" />', mathml)
    return f'<div class="equation" tabindex="0">{mathml}</div>' if block else mathml


@cache
def public_names() -> dict[str, str]:
    """Map every exported class and function to its full name, under which the API reference has it."""
    return {path.rpartition(".")[2]: path for path, _ in exported()}


def with_links(content: str) -> str:
    """Link the first ``<code>name</code>`` of every public name to the API reference."""
    linked: set[str] = set()

    def link(found: re.Match[str]) -> str:
        place = public_names().get(found[1])
        if place is None or place in linked:
            return found[0]
        linked.add(place)
        return f'<autoref identifier="{place}" optional>{found[0]}</autoref>'

    parts = NOT_PROSE.split(content)  # text, element, its tag, text, …
    parts[::3] = [re.sub(r"<code>(\w+)(?:\(.*?\))?</code>", link, part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)
