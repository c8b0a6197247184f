"""Write the API reference as Markdown: every public name with its signature and docstring.

Docstrings have sections "Parameters", "Attributes" and "Returns" whose entries read ``name : what it is``;
several short ones may share a paragraph, ``a : this; b : that``, also outside of sections.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple

ROOMS = {  # page → title, modules
    "graphs": ("Graphs and explanations", ("cignn.graphs", "cignn.explanations")),
    "datasets": ("Data sets and cohorts", ("cignn.datasets",)),
    "connectome": ("From scans to graphs", ("cignn.connectome",)),
    "estimators": ("Classifiers", ("cignn.estimators",)),
    "explainers": ("Explainers", ("cignn.explainers",)),
    "evaluation": ("Evaluation", ("cignn.evaluation",)),
    "paper": ("The paper", ("cignn.paper",)),
    "report": ("Figures and reports", ("cignn.report",)),
    "information": ("Information", ("cignn.information",)),
    "nn": ("Networks", ("cignn.nn",)),
}
SECTION = re.compile(r"^(Parameters|Attributes|Returns)\n-+\n", re.M)
ENTRY = re.compile(r"(?:^|[;.] )(\*{0,2}\w+(?:, \*{0,2}\w+)*) : ")
WIDTH = 88  # of a signature on one line


class Name(NamedTuple):
    """A public name: the module to import it from, the page it is on and its anchor there."""

    name: str
    module: str
    page: str
    value: Any

    @property
    def anchor(self) -> str:
        """Its full name."""
        return f"{self.module}.{self.name}"


@cache
def public_names() -> dict[str, Name]:
    """Every public name, once, in the order of the pages."""
    found: dict[str, Name] = {}
    for page, (_, modules) in ROOMS.items():
        for module in map(importlib.import_module, modules):
            for name in _names_of(module):
                found.setdefault(name, Name(name, module.__name__, page, getattr(module, name)))
    return found


def _names_of(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=lambda name: (not isinstance(getattr(module, name), type), name))
    own = (
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    )
    return [name for name in own if not name.startswith("_")]


def pages() -> dict[str, str]:
    """Path below docs → Markdown, for the overview and every room."""
    made = {"api/index.md": _overview()}
    for page, (title, modules) in ROOMS.items():
        parts = [f"# {title}"]
        for module in modules:
            parts += [f"`{module}`", prose(inspect.getdoc(importlib.import_module(module)) or "")]
        parts += [_entry(name) for name in public_names().values() if name.page == page]
        made[f"api/{page}.md"] = "\n\n".join(parts) + "\n"
    return made


def _overview() -> str:
    import cignn

    parts = ["# API reference", "Every public name, by the room it lives in."]
    shortcuts = ", ".join(f"`{name}`" for name in cignn.__all__)
    parts.append(prose(f"The most used can be imported from `cignn` itself: {shortcuts}."))
    for page, (title, modules) in ROOMS.items():
        parts.append(f"## [{title}]({page}.md)")
        where = " and ".join(f"`{module}`" for module in modules)
        lines = [f"In {where}:\n", "| name | what it is |", "|---|---|"]
        for name in public_names().values():
            if name.page == page:
                summary = prose(_summary(name.value)).replace("\n", " ").replace("|", r"\|")
                lines.append(f"| [`{name.name}`]({page}.md#{name.anchor}) | {summary} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


# -------------------------------------------------------------------- one name


def _entry(name: Name) -> str:
    parts = [f"## `{name.name}` {{ #{name.anchor} }}"]
    if isinstance(name.value, type):
        shown = "" if issubclass(name.value, Warning) else _code(name.name, name.value, "class ")
        parts += [shown, docstring(name.value), *_methods(name)]
    elif callable(name.value):
        parts += [_code(name.name, name.value), docstring(name.value)]
    else:
        parts.append(_summary(name.value))
    return "\n\n".join(part for part in parts if part)


def _methods(owner: Name) -> Iterator[str]:
    """Public methods and properties a class brings along; of public parents only their names."""
    for name, member in _own_members(owner.value):
        words = "property " if isinstance(member, (property, cached_property)) else ""
        function = _function(member)
        yield f"### `{name}` {{ #{owner.anchor}.{name} }}"
        if words:
            returned = _annotation(inspect.signature(function).return_annotation)
            yield f"```python\n{owner.name}.{name}" + (f": {returned}\n```" if returned else "\n```")
        else:
            yield _code(f"{owner.name}.{name}", function, skip_first=not isinstance(member, staticmethod))
        yield docstring(function)
    for parent in owner.value.__mro__[1:]:
        known = public_names().get(parent.__name__)
        if known is not None and known.value is parent:
            theirs = [f"`{name}`" for name, _ in _own_members(parent) if name not in vars(owner.value)]
            if theirs:
                yield f"From [`{known.name}`]({known.page}.md#{known.anchor}): {', '.join(theirs)}."


def _own_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public documented members of a class, with those of its private parents."""
    seen = set()
    for parent in owner.__mro__:
        known = public_names().get(parent.__name__)
        if not parent.__module__.startswith("cignn") or (parent is not owner and known is not None):
            continue
        for name, member in vars(parent).items():
            kinds = (property, cached_property, classmethod, staticmethod)
            shown = isinstance(member, kinds) or inspect.isfunction(member)
            if shown and not name.startswith("_") and name not in seen and _function(member).__doc__:
                seen.add(name)
                yield name, member


def _function(member: Any) -> Callable[..., Any]:
    if isinstance(member, property):
        assert member.fget is not None
        return member.fget
    return member.func if isinstance(member, cached_property) else getattr(member, "__func__", member)


def _summary(value: Any) -> str:
    """First sentence of a docstring; of a plain value, what it is."""
    if isinstance(value, dict):
        return f"A dict with the keys {', '.join(f'`{key!r}`' for key in value)}."
    if not callable(value):
        return f"`{value!r}`"
    return (inspect.getdoc(value) or "").split("\n\n")[0]


# ------------------------------------------------------------------ signatures


def _code(name: str, value: Any, before: str = "", skip_first: bool = False) -> str:
    """A signature as a block of code, over several lines where it is long."""
    signature = inspect.signature(value)
    given = list(signature.parameters.values())[1 if skip_first else 0 :]
    words = [_parameter(one) for one in given]
    first_keyword = next((i for i, one in enumerate(given) if one.kind is one.KEYWORD_ONLY), None)
    if first_keyword is not None and not any(one.kind is one.VAR_POSITIONAL for one in given):
        words.insert(first_keyword, "*")
    returned = "" if before else _annotation(signature.return_annotation)
    end = f") -> {returned}" if returned else ")"
    line = f"{before}{name}({', '.join(words)}{end}"
    if len(line) > WIDTH:
        line = f"{before}{name}(\n" + "".join(f"    {word},\n" for word in words) + end
    return f"```python\n{line}\n```"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    annotation = _annotation(one.annotation)
    typed = f": {annotation}" if annotation else ""
    if one.default is one.empty:
        return f"{stars}{one.name}{typed}"
    default = getattr(one.default, "__name__", None) or repr(one.default).replace("<factory>", "...")
    return f"{one.name}{typed}{' = ' if typed else '='}{default}"


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


# ------------------------------------------------------------------ docstrings


def docstring(value: Any) -> str:
    """A docstring as Markdown: its text, then its sections as definition lists."""
    text, *sections = SECTION.split(inspect.getdoc(value) or "")
    parts: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        listed = ENTRY.match(paragraph) is not None
        parts += [_definition(*one) for one in entries(paragraph)] if listed else [prose(paragraph)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f"**{title}**")
        if title == "Returns":
            parts.append(prose(body.strip()))
        else:
            parts += [_definition(names, words) for names, words in entries(body)]
    return "\n\n".join(parts)


def entries(body: str) -> Iterator[tuple[str, str]]:
    """Yield names and their text from a section: ``a : this; b, c : that`` are two entries."""
    for paragraph in re.split(r"\n\n|\n(?=\*{0,2}\w+(?:, \*{0,2}\w+)* : )", body.strip()):
        pieces = ENTRY.split(" ".join(paragraph.split()))
        if pieces[0]:  # no entry: a remark on those before
            yield "", pieces[0]
        yield from zip(pieces[1::2], pieces[2::2], strict=True)


def _definition(names: str, words: str) -> str:
    if not names:
        return prose(words)
    return ", ".join(f"`{name}`" for name in names.split(", ")) + f"\n:   {prose(words)}"


def prose(text: str) -> str:
    """Docstring text as Markdown: names in backticks become links, signs of Markdown stay signs."""
    parts = re.split(r"(``.+?``|`[^`]+`)", text, flags=re.S)
    for i, part in enumerate(parts):
        parts[i] = _linked(part) if i % 2 else re.sub(r"[\\*_<>\[\]$#|]", _escaped, part)
    return "".join(parts)


def _escaped(sign: re.Match[str]) -> str:
    return f"&#{ord(sign[0])};"


def _linked(code: str) -> str:
    name = code.strip("`")
    known = public_names().get(name)
    if code.startswith("``") or known is None:
        return code
    return f"[`{name}`]({known.page}.md#{known.anchor})"
