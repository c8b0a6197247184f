"""Errors about the content of a cohort, which carry the facts that their messages are made of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Option(NamedTuple):
    """A parameter that deals with a problem; ``str(option)`` is what one writes in Python."""

    name: str
    values: tuple[Any, ...] = ()  # those that help; empty where any other may
    advice: str = "pass {}"  # what to do, with the option in braces
    step: str = ""  # whose parameter it is: "ComBat", …; "" for loaders and `check_cohort`

    def __str__(self) -> str:
        given = f"{self.name}={self.listed(_python)}" if self.values else self.name
        return f"check_cohort(cohort, {given})" if self.step == "check_cohort" else given

    def listed(self, word: Callable[[Any], str]) -> str:
        """Return the values as words: a, b or c."""
        *others, last = [word(value) for value in self.values] or [""]
        return f"{', '.join(others)} or {last}" if others else last


def _python(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


class DataError(ValueError):
    """The content of a cohort is refused.

    The error carries its facts, and its message is made of them: ``str(error)`` names parameters of Python,
    the command line words the same facts with its own options.

    Parameters
    ----------
    problem : str
        What is wrong, without what helps.
    subjects : iterable of str, default=()
        Ids of the subjects it is about.
    values : iterable, default=()
        What was found: labels, sites, ROIs, numbers.
    options : iterable of Option, default=()
        Parameters that help, with the values that do: ``option.name`` and ``option.values``.
    remedy : str, default=""
        What else helps, for instance "correct it".
    source : str or Path, default=""
        The file or folder it was found in.

    Attributes
    ----------
    errors : tuple of DataError
        Every single problem; the error itself where there is only one.

    Examples
    --------
    >>> import numpy as np
    >>> from cignn.datasets import Cohort, DataError, check_cohort
    >>> cohort = Cohort(np.zeros((2, 40, 3)), y=[0, 1])
    >>> try:
    ...     check_cohort(cohort)
    ... except DataError as error:
    ...     print(error.subjects, error.options[0].name, error.options[0].values)
    ('sub-0001', 'sub-0002') constant_rois ('drop_subject', 'drop_roi', 'zero')
    """

    def __init__(
        self,
        problem: str,
        *,
        subjects: Iterable[Any] = (),
        values: Iterable[Any] = (),
        options: Iterable[Option] = (),
        remedy: str = "",
        source: str | Path = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.subjects = tuple(str(name) for name in subjects)
        self.values = tuple(values)
        self.options = tuple(options)
        self.remedy = remedy
        self.source = str(source)
        self._several: tuple[DataError, ...] = ()

    @classmethod
    def together(cls, errors: Iterable[DataError]) -> DataError:
        """Make one error of several, with one line for each.

        Parameters
        ----------
        errors : iterable of DataError
            The problems, at least one.

        Returns
        -------
        DataError
            The error itself where there is only one.
        """
        several = tuple(one for error in errors for one in error.errors)
        if len(several) == 1:
            return several[0]
        whole = cls(
            "\n".join(one.problem for one in several),
            subjects=dict.fromkeys(name for one in several for name in one.subjects),
            values=[value for one in several for value in one.values],
            options=[option for one in several for option in one.options],
        )
        whole._several = several
        return whole

    @property
    def errors(self) -> tuple[DataError, ...]:
        """Every single problem; the error itself where there is only one.

        Returns
        -------
        tuple of DataError
            The problems, in the order of the message's lines.
        """
        return self._several or (self,)

    def at(self, source: str | Path) -> DataError:
        """Return the error with the name of the file or folder in front of every line.

        Parameters
        ----------
        source : str or Path
            Where the data come from.

        Returns
        -------
        DataError
            A new error.
        """
        if self._several:
            return DataError.together(one.at(source) for one in self._several)
        new = copy.copy(self)
        new.source = str(source)
        return new

    def described(self, word: Callable[[Option], str | None] = str) -> str:
        """Return the message, one line per problem.

        Parameters
        ----------
        word : callable, default=str
            Says how an option is written; None for one that cannot be given. By default as in Python.

        Returns
        -------
        str
            The message.
        """
        if self._several:
            return "\n".join(one.described(word) for one in self._several)
        words = [(option, word(option)) for option in self.options]
        helps = [option.advice.format(text) for option, text in words if text is not None]
        helps += [self.remedy] if self.remedy else []
        line = f"{self.source}: {self.problem}" if self.source else self.problem
        return f"{line}; {', or '.join(helps)}." if helps else f"{line}."

    def __str__(self) -> str:
        return self.described()
