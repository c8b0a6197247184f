"""`cignn audit`: what would make the scores of a cohort misleading."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cignn._files import write_csv
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import FailedWorkError, command, say_json, say_words
from cignn.cli.models import suggest_atlas
from cignn.cli.reading import check_file, format_of, read_data
from cignn.cli.scores import Target, refuse_target
from cignn.cli.settings import assignments, names_in, write_settings

COLOURS = {"serious": "red", "warning": "yellow", "fine": "green", "unknown": "dim"}


@command()
def audit(
    context: typer.Context,
    data: opt.Study,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write the findings to.", metavar="FILE")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a finding is serious.")
    ] = False,
    deconfound: opt.Deconfound = None,
    deconfound_on: opt.DeconfoundOn = "auto",
    label: opt.Label = "label",
    target: Target = None,
    atlas: opt.AtlasName = None,
    format: opt.Format = "auto",
    load: opt.Load = None,
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Check a cohort for problems that would make its scores misleading.

    Duplicates, sites and covariates that predict the label, connectivity that
    predicts the site, predictions of the label that follow motion, age, sex or
    site: each with its size and with advice. With --deconfound these predictions
    are made without the effects of the covariates named. With --target a score
    such as age takes the place of the label.

    Example: [bold]cignn audit my_study[/]
    """
    format_of(data, format)  # before the wait for imports
    refuse_target(target, deconfound, deconfound_on)
    from cignn import Cohort

    if out is not None:
        check_file(out, ".csv")
    options = assignments(load)
    if format_of(data, format) == "cohort":  # what the audit reports does not keep a cohort from being read
        options = dict.fromkeys(("duplicates", "non_finite", "constant_rois"), "keep") | options
    read: dict[str, Any] = {"format": format, "label": label, "atlas": atlas, "target": target}
    cohort = read_data(data, **read, load=options, new=True, quiet=as_json)
    if not isinstance(cohort, Cohort):
        raise ValueError(f"{data} holds graphs without subjects; an audit needs a cohort.")
    if target is not None and cohort.y is None:
        cohort.with_target(target)  # raises and names the columns that there are
    suggest_atlas(cohort.roi_names, as_json)
    from cignn.connectome import Deconfound
    from cignn.evaluation import audit as look

    step = None
    if deconfound is not None:
        step = Deconfound(names_in(deconfound), deconfound_on, unseen="pass")
    with working("looking for leaks", not as_json):
        findings = look(cohort, deconfound=step)
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
