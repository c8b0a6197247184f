"""Hold every exported name against numpydoc's rules; ``make lint`` runs it.

``python docs/validate_docstrings.py [prefix ...]`` looks at the names that begin so, all by default.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator

import cignn

ROOMS = ("graphs", "explanations", "information", "datasets", "connectome", "nn", "estimators", "explainers")
ROOMS += ("evaluation", "paper", "report")
# rules that do not hold here: the layout of pandas (GL01-03), sections not every name needs (ES01, SA01),
# capital letters at the start of descriptions (PR08, RT04), summaries that begin with a verb (SS05)
ALLOWED = {"GL01", "GL02", "GL03", "ES01", "SA01", "SA04", "PR08", "RT04", "SS05", "YD01"}
OF_METHODS = {"EX01"}  # the example of a class shows its methods


def exported() -> Iterator[tuple[str, object]]:
    """Yield every exported class and function of the package once, under the name of its home."""
    seen = set()
    for room in ("", *ROOMS):
        module = importlib.import_module(f"cignn.{room}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing not in seen:
                seen.add(thing)
                yield f"{thing.__module__}.{thing.__qualname__}", thing


def methods(path: str, thing: object) -> Iterator[str]:
    """Yield the public methods and properties that a class has from this package."""
    for name, value in vars(thing).items() if inspect.isclass(thing) else ():
        own = not name.startswith("_") and not name.endswith("_request")  # those scikit-learn writes
        if own and (inspect.isroutine(value) or isinstance(value, (property, classmethod))):
            yield f"{path}.{name}"


def complaints(prefixes: tuple[str, ...] = ("cignn",)) -> list[str]:
    """Return one line per broken rule."""
    from numpydoc.validate import validate  # here: the names alone can be asked for without numpydoc

    out = []
    for path, thing in exported():
        if not path.startswith(prefixes):
            continue
        for name in (path, *methods(path, thing)):
            allowed = ALLOWED | (OF_METHODS if name != path else set())
            errors = validate(name)["errors"]
            out += [f"{name}: {code} {words}" for code, words in errors if code not in allowed]
    return out


if __name__ == "__main__":
    found = complaints(tuple(sys.argv[1:]) or (cignn.__name__,))
    sys.stdout.write("\n".join(found or ["numpydoc reads the docstring of every exported name"]) + "\n")
    sys.exit(bool(found))
