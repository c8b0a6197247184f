"""`cignn audit`: what in a cohort could pass for a diagnosis without being one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import FailedWorkError, command
from cignn.cli.reading import check_file, kind_of, read_data
from cignn.cli.screen import say_json, say_words
from cignn.cli.settings import assignments, write_settings

COLOURS = {"serious": "red", "warning": "yellow", "fine": "green", "unknown": "dim"}


@command()
def audit(
    context: typer.Context,
    data: opt.Study,
    out: Annotated[Path | None, typer.Option(help="CSV file for the findings.", metavar="FILE")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 where a finding is serious.")] = False,
    label: opt.Label = "label",
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Look for what would make scores on a cohort misleading.

    Duplicates, sites and covariates that tell the label, connectivity that
    tells the site; each with its size and what to do.

    Example: [bold]cignn audit my_study[/]
    """
    kind_of(data, format)  # before the wait for imports
    from cignn import Cohort
    from cignn.evaluation import audit as look

    if out is not None:
        check_file(out, ".csv")
    options = assignments(load)
    if kind_of(data, format) == "cohort":  # what the audit reports does not keep a cohort from being read
        options = {"duplicates": "keep"} | options
    cohort = read_data(data, format=format, label=label, load=options, new=True, quiet=as_json)
    if not isinstance(cohort, Cohort):
        raise ValueError(f"{data} holds graphs without subjects; an audit needs a cohort.")
    with working("looking for leaks", not as_json):
        findings = look(cohort)
    if out is not None:
        write_csv(out, findings.to_frame())
        write_settings(out.with_suffix(".settings.toml"), context)
    if as_json:
        counts = {"subjects": findings.subjects, "scans": findings.scans}
        say_json(counts | {"worst": findings.worst, "findings": findings.to_frame()})
    else:
        say_words("", bold=repr(cohort))
        for one in findings:
            say_words(f": {one.message}", f"{one.severity:>8}  ", COLOURS[one.severity], bold=one.name)
            if one.advice:
                say_words(one.advice, f"{'→':>10} ")
    if strict and findings.worst == "serious":
        raise FailedWorkError("the audit has serious findings.")
