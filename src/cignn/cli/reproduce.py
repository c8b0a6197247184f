"""`cignn reproduce`: a table or figure of the paper, our numbers beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cignn.cli import options as opt
from cignn.cli.app import FailedWorkError, InterruptedWorkError, command, complain, say, say_json, show_table
from cignn.cli.reading import check_folder
from cignn.cli.settings import names_in, write_settings

if TYPE_CHECKING:
    import pandas as pd

    from cignn.paper import Reproduction

MOST = 60  # lines of a table on the screen


def _complete(incomplete: str) -> list[str]:
    from cignn.paper import names

    return [name for name in names() if name.startswith(incomplete)]


@command()
def reproduce(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Table or figure; without a name, all are listed.", metavar="NAME", autocompletion=_complete
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(help="smoke (a quick try on small data) or full (the paper's size).", metavar="SIZE"),
    ] = "smoke",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the data; by default that of the variable CIGNN_DATA.",
            metavar="FOLDER",
            file_okay=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for the results; an unfinished run there is resumed.", file_okay=False),
    ] = Path("results/paper"),
    rows: Annotated[
        str | None, typer.Option(help="Only these methods, separated by commas.", metavar="NAMES")
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Only these data sets, separated by commas.", metavar="NAMES")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of runs; 3 at full scale.", metavar="N")
    ] = None,
    jobs: opt.Jobs = 1,
    stack: opt.Stack = "auto",
    config: opt.Config = None,
    as_json: opt.Json = False,
) -> None:
    """Reproduce a table or figure of the paper and compare it with the paper's.

    Example: [bold]cignn reproduce explanation-accuracy --scale smoke[/]
    """
    from cignn.paper import reproduce as run

    if name is None:
        _list(as_json)
        return
    check_folder(out)
    try:
        result = run(
            name,
            data,
            scale,
            out,
            jobs,
            rows=names_in(rows) or None,
            sets=names_in(sets) or None,
            seeds=seeds,
            stack=stack,
            verbose=int(not as_json),
        )
    except KeyboardInterrupt:
        raise InterruptedWorkError(
            f"finished tasks are kept in {out}; the same command resumes them."
        ) from None
    assert result.markdown is not None and result.csv is not None
    write_settings(result.csv.with_suffix(".settings.toml"), context)
    measured = result.table["ours"].notna().any()
    if as_json:
        say_json(_content(result))
    else:
        _show(result)
    if result.failures or not measured:
        what = result.failures[0] if result.failures else "nothing could be measured; no data set is there."
        raise FailedWorkError(f"{len(result.failures)} tasks failed: {what}" if result.failures else what)


def _list(as_json: bool) -> None:
    import pandas as pd

    from cignn.paper import load_spec, names

    specs = [load_spec(name) for name in names()]
    table = pd.DataFrame({"name": [s.name for s in specs], "what": [s.title for s in specs]})
    if as_json:
        say_json({"names": table})
    else:
        show_table(table, "cignn reproduce NAME")


def _content(result: Reproduction) -> dict:
    return {
        "name": result.spec.name,
        "title": result.spec.title,
        "scale": result.scale,
        "table": result.table,
        "claims": result.claims,
        "missing": result.missing,
        "failures": result.failures,
        "markdown": result.markdown,
        "csv": result.csv,
    }


def _show(result: Reproduction) -> None:
    table: pd.DataFrame = result.table.drop(columns=["printed", "paper_std", "ours_std"], errors="ignore")
    if table["ours"].notna().any():  # what was asked for
        table = table[table["ours"].notna()]
    table = table.loc[:, [not (table[name].astype(str) == "").all() for name in table]]
    table = table.astype({"runs": int}) if "runs" in table and table["runs"].notna().all() else table
    show_table(table, result.spec.title, most=MOST)
    for claim, verdict in result.claims.items():
        say(f"“{claim}” {verdict}")
    if result.scale == "smoke":
        complain(
            "note",
            "smoke scale: a try on small made-up data, whose numbers mean nothing; see --scale full.",
        )
    for name, why in result.missing.items():
        complain("note", f"{name} is missing: {why}")
    say(f"our numbers beside the paper's: {result.markdown}")
    say(f"                                {result.csv}")
