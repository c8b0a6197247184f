"""A group explanation in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from cignn.explanations.group import GroupExplanation

READINGS = {
    "pattern": "what goes along with the decision",
    "use": "what the decision is made from",
    "size": "what speaks for the true class, in whatever direction it moves",
}
OF_SCORES = {
    "pattern": "what goes along with the prediction",
    "use": "what the prediction is made from",
    "size": "what speaks for the true score, in whatever direction it moves",
}
SHOWN = 5  # connections and pairs of systems that are listed
ALLOWED = 1.0  # expected false ones among connections called stable


def paragraphs(group: GroupExplanation) -> Iterator[str]:
    """Yield the paragraphs of `GroupExplanation.summary`."""
    first, second = group.classes
    who, labels = (group.score, "scores") if group.score else (f"{second} against {first}", "labels")
    yield (
        f"{who}: {counted(group.n_subjects, 'subject')}, "
        f"{len(group.table)} connections of {len(group.map)} regions, "
        f"{counted(group.n_resamples, 'half-sample')}, "
        f"{counted(group.n_permutations, 'permutation')} of the {labels}."
    )
    known = READINGS | OF_SCORES if group.score else READINGS
    meaning = f" ({known[group.reading]})" if group.reading in known else ""
    yield f"Reading: {group.reading}{meaning}. {group.reason[:1].upper()}{group.reason[1:]}".rstrip()
    yield from _connections(group)
    yield from _stable(group)
    if len(group.systems):
        yield from _systems(group)
    yield from _components(group.components, "scores" if group.score else "labels")
    yield from _nuisances(group.nuisance, bool(group.score))


def _connections(group: GroupExplanation) -> Iterator[str]:
    """Say how many connections survive, in which direction, and name the first."""
    labels = "scores" if group.score else "labels"
    if not group.n_permutations:
        yield f"Connections: not tested, because no {labels} were permuted. The ranking alone is no finding."
        return
    found = group.table[group.table["selected"]]
    if found.empty:
        yield (
            f"Connections: nothing survives at q ≤ {group.alpha:g} "
            f"(smallest q {group.table['q'].min():.2g}). No connection differs "
            f"from what permuted {labels} give; the ranking is no finding."
        )
        return
    higher = int((found["direction"] == "higher").sum())
    survive = "connection survives" if len(found) == 1 else "connections survive"
    how = f"{higher} higher and {len(found) - higher} lower in {group.classes[1]}"
    if group.score:
        how = f"{higher} higher and {len(found) - higher} lower where {group.score} is higher"
    yield (
        f"Connections: {len(found)} {survive} at q ≤ {group.alpha:g}, {how}; "
        f"the map as a whole: p = {group.p:.2g}."
    )
    for row in found.head(SHOWN).to_dict("records"):
        effect = "r" if group.score else "effect"
        known = [] if pd.isna(row["effect"]) else [f"{effect} {row['effect']:+.2f}"]
        known += [f"q {row['q']:.2g}"]
        known += [] if pd.isna(row["selection"]) else [f"{row['selection']:.0%} of half-samples"]
        yield f"- {row['source']} – {row['target']}: {row['direction']} ({', '.join(known)})"


def _stable(group: GroupExplanation) -> Iterator[str]:
    """Say how many connections come back on half-samples so often that at most one false one is expected."""
    if not group.n_resamples:
        return
    often = group.table[group.table["bound"] <= ALLOWED]
    top = f"among the top {group.n_top} of half-samples"
    if often.empty:
        yield f"Stability: no connection is {top} so often that fewer than one false one is expected."
        return
    least = often["selection"].min()
    yield (
        f"Stability: {counted(len(often), 'connection')} {'is' if len(often) == 1 else 'are'} {top} "
        f"in at least {least:.0%} of them; at most {often['bound'].max():.2g} "
        "false are expected (Shah–Samworth)."
    )


def _systems(group: GroupExplanation) -> Iterator[str]:
    """Name the pairs of systems that survive, by size and by direction."""
    table, alpha = group.systems, group.alpha
    if not group.n_permutations:
        return
    signed = bool((group.map < 0).any())  # a map of sizes says nothing about directions
    enriched, shifted = table[table["q"] <= alpha], table[signed & (table["shift_q"] <= alpha)]
    if enriched.empty and shifted.empty:
        yield f"Systems: nothing survives at q ≤ {alpha:g}; no pair of systems is enriched."
    if len(enriched):
        named = [
            f"{_pair(row)} (z {row['enrichment']:.1f}, q {row['q']:.2g})" for row in _rows(enriched, "q")
        ]
        yield f"Systems in which the map concentrates: {_listed(named, len(enriched))}."
    for side, sign in (("higher", 1), ("lower", -1)):
        some = shifted[shifted["shift"] * sign > 0]
        if len(some):
            named = [
                f"{_pair(row)} (z {row['shift']:+.1f}, q {row['shift_q']:.2g})"
                for row in _rows(some, "shift_q")
            ]
            where = f"where {group.score} is higher" if group.score else f"in {group.classes[1]}"
            yield f"Systems {side} {where} as a whole: {_listed(named, len(some))}."


def _components(table: pd.DataFrame, labels: str) -> Iterator[str]:
    """Say how many networks the selected connections form, and how large the largest is."""
    if table.empty:
        return
    first = table.iloc[0]
    p = "" if pd.isna(first["p"]) else f" (p = {first['p']:.2g} against permuted {labels})"
    yield (
        f"Networks: the selected connections form {counted(len(table), 'component')}; the largest joins "
        f"{first['n_nodes']} regions by {counted(int(first['n_edges']), 'connection')}{p}."
    )


def _nuisances(table: pd.DataFrame, of_score: bool) -> Iterator[str]:
    """Say how much of the map is a nuisance, and warn above the limit."""
    if table.empty:
        return
    known = ", ".join(f"{row['nuisance']} {row['rho']:+.2f}" for row in table.to_dict("records"))
    yield f"Nuisances (rank correlation of the map with theirs): {known}."
    flagged = table[table["flag"]]["nuisance"].tolist()
    if flagged:
        yield (
            f"WARNING: the map resembles that of {' and '.join(map(str, flagged))} (above 0.3). "
            f"What looks like {'an effect of the score' if of_score else 'a difference between the classes'} "
            "may be that; regress it out (deconfound) and compare. Where it was regressed out, the "
            f"{'effect' if of_score else 'difference'} lies along the same connections."
        )


def counted(n: int, word: str) -> str:
    """Return a number with its word: 1 subject, 2 subjects."""
    return f"{n} {word}{'' if n == 1 else 's'}"


def _rows(table: pd.DataFrame, by: str) -> list[dict[str, object]]:
    return [dict(row) for row in table.sort_values(by, kind="stable").head(SHOWN).to_dict("records")]


def _pair(row: dict[str, object]) -> str:
    return f"{row['source_system']}–{row['target_system']}"


def _listed(named: list[str], count: int) -> str:
    more = count - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
