"""What an audit returns: findings, worst first, as lines and as a table."""

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

    name : what; severity : "serious" (scores would mislead), "warning", "fine" or "unknown" (it could not be
    looked at, the message says why); size : how much, in terms of ``measure``; message : one line with the
    numbers; advice : what to do, empty where all is well; table : the details, or None.
    """

    name: str
    severity: str
    size: float
    measure: str
    message: str
    advice: str = ""
    table: pd.DataFrame | None = field(default=None, repr=False, compare=False)


class Audit(Sequence):
    """The findings of an audit, worst first, by number or name: ``audit(cohort)["site → label"]``."""

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
        """The severity of the worst finding."""
        return self.findings[0].severity if self.findings else "fine"

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: finding, severity, size, measure, message, what to do."""
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
