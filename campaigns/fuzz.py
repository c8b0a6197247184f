"""Damage everything the package reads and count what comes of it: ``python -m campaigns.fuzz``.

Exit code 1 where a reader raised an exception that is not its own, died, hung or gave wrong data; each such
input is kept, with what is needed to read it again (``--replay FOLDER``).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from campaigns.fuzzing.cases import BAD, OUTCOMES, Case, Verdict, make_case
from campaigns.fuzzing.readers import Files, Reader
from campaigns.fuzzing.targets import TARGETS
from campaigns.fuzzing.workers import PATIENCE, Job, run

FINDING = "finding.json"
REGISTRY = "campaigns.fuzzing.targets"  # whose TARGETS are read


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many")
    parser.add_argument(
        "--seed", type=int, default=None, help="of all that is random; by default another every time"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help=f"targets, separated by commas: {', '.join(TARGETS)}")
    parser.add_argument("--findings", type=Path, default=Path("fuzz"), help="folder to keep inputs in")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="read kept inputs again instead")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the counts there too")
    given = parser.parse_args(arguments)
    wanted = [word for word in given.only.split(",") if word]
    chosen = {
        name: reader for name, reader in TARGETS.items() if not wanted or any(map(name.startswith, wanted))
    }
    if not chosen:
        parser.error(f"there is no target {given.only}; there are {', '.join(TARGETS)}")
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # the processes share the cores
        os.environ.setdefault(name, "1")
    with TemporaryDirectory(prefix="cignn-fuzz-") as folder:
        campaign = Campaign(chosen, seed, Path(folder), given.findings)
        if given.replay is not None:
            jobs: Iterable[Job] = list(kept_cases(given.replay, chosen))
            print(f"replaying {len(jobs)} inputs of {given.replay}", flush=True)
        else:
            print(f"seed {seed}, {given.inputs} inputs, {len(chosen)} targets", flush=True)
            jobs = drawn(chosen, given.inputs)
        campaign.run(jobs, given.jobs)
    print(campaign.report())
    if given.markdown is not None:
        given.markdown.write_text(campaign.markdown(), encoding="utf-8")
    return int(campaign.failed)


def drawn(readers: Mapping[str, Reader], inputs: int) -> Iterator[Job]:
    """Yield targets and numbers, each target by its weight, all of them side by side."""
    total = sum(reader.weight for reader in readers.values())
    done = dict.fromkeys(readers, 0)
    for k in range(1, inputs + 1):
        behind = {name: k * reader.weight / total - done[name] for name, reader in readers.items()}
        name = max(behind, key=lambda one: behind[one])
        yield name, done[name]
        done[name] += 1


class Campaign:
    """Counts outcomes and keeps what must not be."""

    def __init__(
        self, readers: Mapping[str, Reader], seed: int, folder: Path, findings: Path, registry: str = REGISTRY
    ) -> None:
        self.readers, self.seed, self.folder, self.findings = readers, seed, folder, findings
        self.registry = registry
        self.counts: Counter[tuple[str, str]] = Counter()
        self.places: dict[tuple[str, str, str], list[Path]] = {}
        self.warned = 0
        self.samples = {name: reader.samples(folder) for name, reader in readers.items()}

    def run(self, jobs: Iterable[Job], n_jobs: int = 1, patience: float = PATIENCE) -> None:
        """Read all, tell now and then how far it is."""
        started, told = time.monotonic(), time.monotonic()
        answers = run(
            jobs,
            seed=self.seed,
            registry=self.registry,
            samples=self.samples,
            folder=self.folder,
            n_jobs=n_jobs,
            patience=patience,
        )
        for k, (job, verdict) in enumerate(answers, 1):
            case = job if isinstance(job, Case) else None
            target = case.target if case is not None else job[0]  # type: ignore[index]
            self.counts[target, verdict.outcome] += 1
            self.warned += bool(verdict.warned)
            if verdict.outcome in BAD:
                case = case or make_case(self.seed, *job, self.readers[target], self.samples[target])  # type: ignore[misc]
                self._keep(case, verdict)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(
                    f"{k} inputs in {told - started:.0f} s, {self.n_bad} findings",
                    file=sys.stderr,
                    flush=True,
                )

    def _keep(self, case: Case, verdict: Verdict) -> None:
        place = self.findings / f"{case.target}-{verdict.outcome}-{self.seed}-{case.number}"
        place.mkdir(parents=True, exist_ok=True)
        content = {
            "target": case.target,
            "seed": self.seed,
            "number": case.number,
            "what": case.what,
            "sealed": verdict.sealed,
            "outcome": verdict.outcome,
            "where": verdict.where,
            "detail": verdict.detail,
            "original": _as_text(case.original),
            "files": _as_text(case.files),
        }
        (place / FINDING).write_text(json.dumps(content, indent=1))
        for name, data in case.files.items():
            if case.original.get(name) != data and not data.startswith(b"\0a "):
                safe = name.replace("/", "__").encode("utf-8", "backslashreplace").decode()[-100:]
                (place / safe).write_bytes(data)
        self.places.setdefault((case.target, verdict.outcome, verdict.where), []).append(place)

    @property
    def n_bad(self) -> int:
        """How many inputs must not have ended as they did."""
        return sum(count for (_, outcome), count in self.counts.items() if outcome in BAD)

    @property
    def failed(self) -> bool:
        """Whether there is any such."""
        return self.n_bad > 0

    def table(self) -> list[list[object]]:
        """Return counts by target and outcome, below a header and above their sums."""
        rows = [[self.counts[name, one] for one in OUTCOMES] for name in self.readers]
        rows.append([sum(column) for column in zip(*rows, strict=True)])
        named = zip([*self.readers, "all"], rows, strict=True)
        return [["target", *OUTCOMES, "inputs"], *([name, *row, sum(row)] for name, row in named)]

    def report(self) -> str:
        """Return the table as text, and where findings are kept."""
        lines = [f"{row[0]!s:<16}" + "".join(f"{cell!s:>9}" for cell in row[1:]) for row in self.table()]
        lines.append(f"seed {self.seed}; {self.warned} inputs made another package warn")
        for (target, outcome, where), places in sorted(self.places.items(), key=lambda item: -len(item[1])):
            lines.append(f"{len(places):5d} × {target}: {outcome} {where}, for instance {places[0]}")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the table for a page."""
        head, *rows = [f"| {' | '.join(map(str, row))} |" for row in self.table()]
        return "\n".join([f"Seed {self.seed}.\n", head, "| --- " + "| ---: " * 7 + "|", *rows]) + "\n"


def _as_text(files: Files) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def kept_cases(folder: Path, readers: Mapping[str, Reader]) -> Iterator[Case]:
    """Yield the cases kept in a folder, or in folders of it."""
    for path in sorted(folder.rglob(FINDING)):
        content = json.loads(path.read_text())
        if content["target"] in readers:
            original, files = (
                {name: base64.b64decode(text) for name, text in content[key].items()}
                for key in ("original", "files")
            )
            yield Case(
                content["target"], content["number"], original, files, content["what"], content["sealed"]
            )


if __name__ == "__main__":
    sys.exit(main())
