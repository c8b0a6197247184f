"""Advice that names arguments of Python, said in options of the command line."""

from __future__ import annotations

import re

# arguments of the readers, which --load takes
_LOAD = (
    "non_finite|constant_rois|short_series|min_length|asymmetric|duplicates|missing_labels|missing_sites|"
    "one_class|mixed_rois|missing|transpose|n_rois|participants|columns|phenotype|symmetrize|download"
)
_WORD = r"""["']\w+["']"""
_SAID = (
    (r"missing='mean'", "--missing-covariates mean"),
    (r"pass unseen='(\w+)'", r"fit with --unseen-sites \1"),
    (r"\bunseen='(\w+)'", r"--unseen-sites \1"),
    (r"\bcovariates=\(…\)", "--covariates"),
    (r"\bcovariates=\(\)", "--covariates none"),
    (r"\bout of covariates\b", "out of --covariates"),
    (r"pass kind='series' or kind='matrices'", "pass --load kind=series or --load kind=matrices"),
    (r"\bkind='(\w+)'(?: or '(\w+)')", r"--connectivity \1 or \2"),
    (r"\bfisher=True\b", "--fisher"),
    (r"\bn_splits=(\d+)", r"--folds \1"),
    (r"\bn_splits\b", "--folds"),
    (r"\bn_jobs\b", "--jobs"),
    (r"\blabel=, or pass label=None", "--label"),
    (r"\blabel='(\w+)'", r"--label \1"),
    (r"\bgive label= another column", "give --label another column"),
    (r"\bgive label= their column", "give their column as --label"),
    (rf"\b({_LOAD})=({_WORD}(?:(?:, | or ){_WORD})*)", lambda found: _load(found[1], found[2])),
    (rf"\b({_LOAD})=True\b", r"--load \1=true"),
    (rf"(?<!--load )\b({_LOAD})=(?=[ .,;]|$)", r"--load \1="),
)


def as_options(message: str) -> str:
    """Return a message of the package with its advice in words of the command line."""
    for pattern, words in _SAID:
        message = re.sub(pattern, words, message)
    return message


def _load(name: str, values: str) -> str:
    return f"--load {name}={re.sub(_WORD, lambda found: found[0][1:-1], values)}"
