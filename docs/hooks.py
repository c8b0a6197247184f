"""What happens to the pages while the site is built: API pages, links to them, and equations as MathML."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import api_pages
import command_pages
from api_pages import public_names
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

EQUATION = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)
BAR = re.compile("<mo>(&#x02016;|&#x0007C;)</mo>")
LOGARITHM = re.compile("(?<!<msub>)<mi>log</mi>(?=<m[^o])|<msub><mi>log</mi><mn>2</mn></msub>")
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
NOT_PROSE = re.compile(r"(<(h[1-6]|a|pre)\b.*?</\2>)", re.S)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from docstrings and commands."""
    for path, content in (api_pages.pages() | command_pages.pages()).items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Turn equations into MathML and the first mention of a public name into a link."""
    content = EQUATION.sub(lambda found: equation(found[2], found[1] == "div"), content)
    content = SPREAD.sub("\u00a0±\u00a0", content)
    source = page.file.src_uri
    return content if source.startswith("api/") else with_links(content, "../" * source.count("/"))


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


def with_links(content: str, up: str = "") -> str:
    """Link the first ``<code>name</code>`` of every public name to its place in the API, ``up`` from here."""
    linked: set[str] = set()

    def link(found: re.Match[str]) -> str:
        known = public_names().get(found[1])
        if known is None or known.name in linked:
            return found[0]
        linked.add(known.name)
        return f'<a href="{up}api/{known.page}.html#{known.anchor}">{found[0]}</a>'

    parts = NOT_PROSE.split(content)  # text, element, its tag, text, …
    parts[::3] = [re.sub(r"<code>(\w+)(?:\(.*?\))?</code>", link, part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)
