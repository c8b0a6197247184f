"""Files beside a report: its methods paragraph, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cignn._files import write_text
from cignn.report.methods_text import methods_text
from cignn.report.paper_figures import write_figures
from cignn.report.paper_tables import paper_tables, write_tables
from cignn.report.report_data import ReportData


class PaperFile(NamedTuple):
    """A table or figure in several formats, with the addresses of its files from the page."""

    name: str
    links: list[tuple[str, str]]  # format, address


def write_paper_files(folder: str | Path, data: ReportData) -> list[Path]:
    """Write what a paper takes from a report: the methods paragraph, tables and figures.

    Parameters
    ----------
    folder : str or Path
        Folder to write to; files of the same names in it are replaced.
    data : ReportData
        Result of `report_of`.

    Returns
    -------
    list of Path
        The files: ``methods.md``, ``tables/*.csv`` (all digits), ``tables/*.tex`` and ``figures/*.svg`` and
        ``.pdf``. There are those that the report has data for.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from cignn.datasets import make_ba2motifs
    >>> from cignn.estimators import make_estimator
    >>> from cignn.report import report_of, write_paper_files
    >>> graphs = make_ba2motifs(8, random_state=0)
    >>> model = make_estimator("dir", epochs=1, random_state=0).fit(graphs)
    >>> files = write_paper_files(mkdtemp(), report_of(model, graphs))
    >>> sorted({file.suffix for file in files})
    ['.csv', '.md', '.pdf', '.svg', '.tex']
    """
    folder = Path(folder)
    if folder.is_file():
        raise ValueError(f"{folder} is a file; pass the name of a folder.")
    text = methods_text(data).markdown(data.title)
    write_text(folder / "methods.md", text)
    tables = write_tables(folder / "tables", paper_tables(data))
    return [folder / "methods.md", *tables, *write_figures(folder / "figures", data)]


def linked(files: Sequence[Path], page: Path) -> dict[str, list[PaperFile]]:
    """Group files by their folder and name, with addresses relative to the page."""
    out: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for file in files:
        address = quote(file.resolve().relative_to(page.resolve().parent).as_posix())
        kind = file.parent.name if file.suffix != ".md" else "text"
        out.setdefault(kind, {}).setdefault(file.stem, []).append((file.suffix[1:].upper(), address))
    return {kind: [PaperFile(name, links) for name, links in some.items()] for kind, some in out.items()}
