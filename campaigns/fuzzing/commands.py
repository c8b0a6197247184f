"""The command line, run in this process."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path


class CommandError(Exception):
    """A command of ours ended badly, and not with a line on bad input."""


class RefusedError(Exception):
    """What a command said of bad input, and the exception it was made of."""

    def __init__(self, said: str, cause: BaseException | None) -> None:
        super().__init__(said)
        self.cause = cause


def run_command(folder: Path, arguments: list[str]) -> str:
    """Run the command line in this process and this folder; what went wrong is raised."""
    from cignn.cli import main

    was, given, out, err = os.getcwd(), sys.argv, StringIO(), StringIO()
    os.chdir(folder)
    sys.argv = ["cignn", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as left:
        code, cause = left.code or 0, left.__context__
    finally:
        os.chdir(was)
        sys.argv = given
    said = " ".join(err.getvalue().split())
    if code == 0:
        return out.getvalue()
    if code == 2 and (said.startswith("error ") or "Usage:" in said):
        raise RefusedError(said, cause)
    if code == 1 and said.startswith("failed ") and isinstance(cause, OSError | FloatingPointError):
        raise RefusedError(said, cause)
    raise CommandError(f"exit code {code}: {said[:500]}") from cause
