"""What an audit found: its findings, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

SEVERITIES = ("serious", "warning", "fine", "unknown")
MARKS = {"serious": "!!", "warning": " !", "fine": "ok", "unknown": " ?"}


@dataclass(frozen=True)
class Finding:
    """One thing the audit looked at.

    Parameters
    ----------
    name : str
        What was looked at.
    severity : {"serious", "warning", "fine", "unknown"}
        "serious" where scores would mislead; "unknown" where it could not be looked at, the message says why.
    size : float
        How much was found, in terms of ``measure``.
    measure : str
        What the size is, such as "AUC" or "pairs".
    message : str
        One line with the numbers.
    advice : str, default=""
        What to do, empty where all is well.
    table : DataFrame or None, default=None
        The details.

    Examples
    --------
    >>> from cignn.evaluation import Finding
    >>> Finding("repeated subjects", "fine", 0, "subjects", "every name once").severity
    'fine'
    """

    name: str
    severity: str
    size: float
    measure: str
    message: str
    advice: str = ""
    table: pd.DataFrame | None = field(default=None, repr=False, compare=False)


class Audit(Sequence):
    """The findings of an audit, worst first, by number or name.

    Parameters
    ----------
    findings : sequence of Finding
        What was found.
    subjects : int
        Number of subjects in the cohort.
    scans : int or None, default=None
        Number of scans, by default one per subject.

    Examples
    --------
    >>> from cignn.evaluation import Audit, Finding
    >>> found = Audit([Finding("repeated subjects", "fine", 0, "subjects", "every name once")], subjects=20)
    >>> found.worst, found["repeated subjects"].message
    ('fine', 'every name once')
    """

    def __init__(self, findings: Sequence[Finding], subjects: int, scans: int | None = None) -> None:
        self.findings = sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
        self.subjects = subjects
        self.scans = subjects if scans is None else scans

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.findings[key]
        for finding in self.findings:
            if finding.name == key:
                return finding
        names = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"the audit has no finding {key!r}; there are {names}.")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def worst(self) -> str:
        """The severity of the worst finding.

        Returns
        -------
        str
            "serious", "warning", "fine" or "unknown".
        """
        return self.findings[0].severity if self.findings else "fine"

    def to_frame(self) -> pd.DataFrame:
        """Return the findings as a table.

        Returns
        -------
        DataFrame
            One row per finding: finding, severity, size, measure, message, what to do.
        """
        rows = [(f.name, f.severity, f.size, f.measure, f.message, f.advice) for f in self]
        columns = ["finding", "severity", "size", "measure", "message", "what to do"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        counts = pd.Series([f.severity for f in self]).value_counts()
        heads = [f"{counts[s]} {s}" for s in SEVERITIES if s in counts]
        more = f" ({self.scans} scans)" if self.scans != self.subjects else ""
        lines = [f"Audit of {self.subjects} subjects{more}: {', '.join(heads)}"]
        lines += [line for finding in self for line in _lines(finding)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, float_format="%.2f")


def brief(audit: Audit) -> str:
    """What matters of an audit, one or two lines per finding; empty when nothing does."""
    matters = [finding for finding in audit if finding.severity in ("serious", "warning")]
    return "\n".join(line for finding in matters for line in _lines(finding))


def _lines(finding: Finding) -> list[str]:
    lines = [f"{MARKS[finding.severity]} {finding.name}: {finding.message}"]
    return lines + ([f"   → {finding.advice}"] if finding.advice else [])
