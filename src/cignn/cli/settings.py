"""Settings by TOML file, where flags win, and the settings of a run written beside its result."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from cignn import __version__
from cignn._checks import meant, shown
from cignn._files import write_text

FILE = "settings.toml"
SHORT = "short forms"  # where they are kept until the option they stand for is read
TASKS = "tasks.txt"  # keys of the tasks that the last evaluation in a folder is made of
TABLES = {"model": "set", "load": "load"}  # tables of the file → options that take NAME=VALUE
IGNORED = ("resolved",)  # tables that only tell
UNWRITTEN = ("config", "json", "help")
PLAIN = (str, bool, int, float)
DEEPEST = 20  # levels of tables and lists
# a key with so many dots that Python's parser, whose time grows with their square, would not come back
_DOTTED = re.compile(r"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""")
WORD, SWITCH, TABLE = (str, "a word"), (bool, "true or false"), (dict, "a table")
READ: dict[str, tuple[Any, str]] = {  # what commands read of the settings of others
    **dict.fromkeys(("data", "methods", "label", "atlas", "format", "device", "connectivity"), WORD),
    **dict.fromkeys(("covariates", "unseen_sites", "missing_covariates"), WORD),
    **dict.fromkeys(("deconfound", "deconfound_on", "combat_on", "repeated_scans"), WORD),
    **dict.fromkeys(("fisher", "combat"), SWITCH),
    **dict.fromkeys(TABLES, TABLE),
    "density": ((int, float), "a number"),
    "positive": (PLAIN, "a label"),
}


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take what a TOML file says as the defaults of this command's options.

    Keys are the names of options and arguments, at the top or in a table named after the command; the
    tables ``[model]`` and ``[load]`` hold what ``--set`` and ``--load`` take.
    """
    if path is None or context.resilient_parsing:
        return path
    try:
        content = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise typer.BadParameter(f"cannot read '{path}' ({reason}).", param_hint="'--config'") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"'{path}' is not text in UTF-8.", param_hint="'--config'") from None
    except ValueError as error:
        raise typer.BadParameter(f"'{path}' is not TOML ({error}).", param_hint="'--config'") from None
    name = context.command.name or ""
    commands = getattr(context.parent.command, "commands", {}) if context.parent else {}
    values = {k: v for k, v in content.items() if k not in commands and k not in IGNORED}
    own = content.get(name, {})
    if not isinstance(own, dict):
        raise typer.BadParameter(f"'{path}': {name} must be a table.", param_hint="'--config'")
    context.default_map = _defaults(context, {**values, **own}, path)
    return path


def _defaults(context: typer.Context, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    known = {name: param for name, param in public_names(context).items() if name not in UNWRITTEN}
    out: dict[str, Any] = {}
    for key, value in values.items():
        if key in TABLES and isinstance(value, dict) and TABLES[key] in known:
            context.meta[f"{FILE}.{TABLES[key]}"] = [f"{k}={_toml(v)}" for k, v in flat(value).items()]
            continue
        wanted = key.replace("-", "_")
        if wanted not in known:
            raise typer.BadParameter(
                f"'{path}': {context.command.name} has no setting {key!r}; {meant(wanted, known)}",
                param_hint="'--config'",
            )
        ones = value if isinstance(value, list) else [value]
        if not all(isinstance(one, PLAIN) and "\0" not in str(one) for one in ones):
            raise typer.BadParameter(
                f"'{path}': {key} must be a word, a number or a list of these, got {shown(value)}.",
                param_hint="'--config'",
            )
        typed = [_typed(one) for one in ones]
        if known[wanted] in _flags(context) and isinstance(value, bool):
            out[known[wanted]] = value
        elif isinstance(value, list) and known[wanted] in _lists(context):
            out[known[wanted]] = typed
        else:
            out[known[wanted]] = ",".join(typed)
    return out


def _typed(value: Any) -> str:
    """Return a value as a user would type it: options then check it as they check what is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_table(option: str) -> Callable[[typer.Context, list[str] | None], list[str]]:
    """Return a callback that puts the file's table before what the option says: flags win, one by one."""

    def merged(context: typer.Context, given: list[str] | None) -> list[str]:
        short = context.meta.get(f"{SHORT}.{option}", [])
        return [*context.meta.get(f"{FILE}.{option}", []), *short, *(given or [])]

    return merged


def for_table(option: str) -> Callable[[typer.Context, typer.CallbackParam, str | None], None]:
    """Return a callback for a short form of NAME=VALUE: it is kept where `with_table` finds it."""

    def keep(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(f"{SHORT}.{option}", []).append(f"{parameter.name}={json.dumps(value)}")

    return keep


def public_names(context: typer.Context) -> dict[str, str]:
    """Return name of each option, as a file writes it → name of the parameter."""
    out = {}
    for param in context.command.params:
        if param.name is None:
            continue
        long = [name for name in param.opts if name.startswith("--")]
        public = long[0].lstrip("-").replace("-", "_") if long else param.name
        out[public] = param.name
    return out


def _flags(context: typer.Context) -> set[str]:
    return {str(param.name) for param in context.command.params if getattr(param, "is_flag", False)}


def _lists(context: typer.Context) -> set[str]:
    return {str(param.name) for param in context.command.params if getattr(param, "multiple", False)}


def settings_of(context: typer.Context) -> dict[str, Any]:
    """Return every setting of a command, flags, file and defaults together."""
    values: dict[str, Any] = {}
    for public, name in public_names(context).items():
        value = context.params.get(name)
        if public in UNWRITTEN or value is None:
            continue
        table = next((table for table, option in TABLES.items() if option == public), None)
        if table is not None:
            values |= {table: assignments(value)} if value else {}
        else:
            values[public] = str(value) if isinstance(value, Path) else value
    return values


def write_settings(path: Path, context: typer.Context) -> None:
    """Write the settings of a command beside its result; ``--config`` reads the file again."""
    write_text(path, settings_text(context, path.name))


def settings_text(context: typer.Context, name: str = FILE, **resolved: Any) -> str:
    """Return the settings of a command as TOML, for a file of that name.

    resolved : what became of defaults that depend on the data, as a table of its own.
    """
    values = settings_of(context)
    if resolved:
        values["resolved"] = resolved
    head = f"# cignn {__version__}, {context.command.name}, {datetime.now():%Y-%m-%d %H:%M}\n"
    again = f"# again: cignn {context.command.name} --config {name}\n\n"
    return head + again + to_toml(values)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings beside a result; empty where there are none that can be read.

    Settings that other commands read are what those take them for: a wrong type is refused by name.
    """
    try:
        content = parse_toml((folder / FILE).read_text(encoding="utf-8")) if (folder / FILE).is_file() else {}
    except (OSError, ValueError):
        return {}
    for name, (expected, words) in READ.items():
        if name in content and (not isinstance(content[name], expected) or "\0" in str(content[name])):
            raise ValueError(
                f"{folder / FILE}: {name} must be {words}, got {shown(content[name])}; put it right."
            )
    for name in TABLES:
        if name in content:  # TOML has no None: it stands there as a word
            content[name] = {k: None if v == "none" else v for k, v in flat(content[name]).items()}
    return content


# -------------------------------------------------------------------------- values


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML; what is nested too deep, or has too many digits, is refused with a ValueError too."""
    try:
        content = None if _DOTTED.search(text) else tomllib.loads(text)
    except RecursionError:
        content = None
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        level = [one for value in level for one in _inside(value)]
    if content is None or level:
        raise ValueError(f"nested more than {DEEPEST} deep")
    return content


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def assignments(given: list[str] | None) -> dict[str, Any]:
    """Return NAME=VALUE words as a dict; values are read as TOML, what is none is a word."""
    out = {}
    for one in given or []:
        name, sign, text = one.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"expected NAME=VALUE, such as epochs=50, got {one!r}.")
        out[name.strip()] = as_value(text.strip())
    return out


def as_value(text: str) -> Any:
    """Read a value as TOML writes it; None and what is not TOML as Python and people do."""
    if text.lower() in ("none", "null"):
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text
    if isinstance(value, str) and value.lower() == "none":
        return None
    return value if isinstance(value, (bool, int, float, str, list)) else text


def names_in(text: str | None) -> list[str]:
    """Return the words of a list separated by commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return tables in tables as one, with dots between names."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        out |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return out


def to_toml(values: Mapping[str, Any]) -> str:
    """Write values, and one level of tables, as TOML; None, which it cannot hold, is left out of tables."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in plain.items() if value is not None]
    for key, value in values.items():
        if isinstance(value, dict):
            rows = [f"{_key(name)} = {_toml(one)}" for name, one in flat(value).items()]
            lines += ["", f"[{_key(key)}]", *rows]
    return "\n".join(lines) + "\n"


def _key(name: Any) -> str:
    word = str(name)
    bare = word.replace("_", "a").replace("-", "a")
    return word if bare.isascii() and bare.isalnum() else json.dumps(word)


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(one) for one in value)}]"
    # a path may hold bytes that are no text
    return json.dumps(str(value), ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
