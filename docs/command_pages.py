"""Write the options of every command as Markdown, from the commands themselves."""

from __future__ import annotations

import re
from typing import Any

import typer

from cignn.cli import app

ORDER = ("demo", "fit", "predict", "explain", "group", "evaluate", "audit", "report", "reproduce", "info")


def pages() -> dict[str, str]:
    """Path below docs → Markdown."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    file = "[settings file](command-line.md#settings-in-a-file)"
    parts = [
        "# Options of every command",
        f"These are the options that `cignn COMMAND --help` shows. They can also be set in a {file}.",
    ]
    names = sorted(commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    parts += [_command(name, commands[name]) for name in names]
    return {"commands.md": "\n\n".join(parts) + "\n"}


def _command(name: str, command: Any) -> str:
    text, _, example = re.sub(r"\[/?\w*\]", "", command.help or "").partition("Example: ")
    parts = [f"## cignn {name} {{ #{name} }}", _prose(text.strip())]
    if example:
        parts.append(f"```bash\n{example.strip()}\n```")
    lines = ["| option | meaning | default |", "|---|---|---|"]
    lines += [_line(one) for one in command.params if not getattr(one, "hidden", False)]
    return "\n\n".join([*parts, "\n".join(lines)])


def _line(one: Any) -> str:
    is_option = one.opts[0].startswith("-")
    words = [*one.opts, *one.secondary_opts] if is_option else [one.metavar or one.name]
    names = " ".join(f"`{word}`" for word in words)
    value = f" {one.metavar}" if is_option and one.metavar else ""
    default = one.default
    without = default is None or default is False or default == () or callable(default) or one.required
    shown = "" if without else f"`{default}`"
    return f"| {names}{_prose(value)} | {_prose(one.help or '')} | {shown} |"


def _prose(text: str) -> str:
    return re.sub(r"[\\*_<>\[\]$#|`]", lambda sign: f"&#{ord(sign[0])};", text)
