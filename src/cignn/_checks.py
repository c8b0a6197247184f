"""Checks of parameters, and errors about data that carry their facts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LARGEST = 2**31 - 1  # of whole numbers: no loop ends that is longer
WIDEST = 2**16  # of layers: more is a slip, and would be asked for as memory


def choice(name: str, value: Any, options: Collection[Any]) -> Any:
    """Return the option that a value equals; refuse any other value."""
    try:
        hash(value)
    except TypeError:  # a list, an array: nothing that could be an option
        known = []
    else:
        known = [option for option in options if option == value]
    if not known:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}, got {shown(value)}.")
    return known[0]


def whole(name: str, value: Any, low: int, high: int = LARGEST) -> int:
    """Return a whole number of Python's from ``low`` to ``high``; refuse any other value.

    Examples
    --------
    >>> whole("epochs", 50, 1)
    50
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        most = "" if high == LARGEST and not _is_huge(value) else f" and at most {high}"
        raise ValueError(f"{name} must be a whole number of at least {low}{most}, got {shown(value)}.")
    return int(value)


def number(
    name: str, value: Any, low: float, high: float, include_low: bool = False, include_high: bool = False
) -> float:
    """Return a number of Python's that lies in the interval; refuse any other value.

    Examples
    --------
    >>> number("dropout", 0.5, 0, 1, include_low=True)
    0.5
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    above = is_number and (low < value or (include_low and value == low))
    if above and not _is_huge(value) and (value < high or (include_high and value == high)):
        return float(value)
    left, right = "[" if include_low else "(", "]" if include_high else ")"
    what = "lie" if is_number else "be a number"
    raise ValueError(f"{name} must {what} in {left}{low}, {high}{right}, got {shown(value)}.")


def jobs(name: str, value: Any) -> int:
    """Return a number of processes; negative ones count from all cores, as joblib does."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not value or abs(int(value)) > LARGEST:
        raise ValueError(f"{name} must be a number of processes, or -1 for all cores, got {shown(value)}.")
    return int(value)


def widths(name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    """Return a sequence of at least that many layer widths, positive whole numbers, as a tuple."""
    sizes = value.tolist() if isinstance(value, np.ndarray) else value
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, (str, bytes)) and len(sizes) >= least
    try:
        return tuple(whole(name, size, 1, WIDEST) for size in sizes) if is_list else (whole(name, 0, 1),)
    except ValueError:
        some = "" if least == 0 else f", {least} or more,"
        raise ValueError(
            f"{name} must be positive layer widths{some} such as (64, 64), got {shown(value)}."
        ) from None


def shown(value: Any) -> str:
    """Return a value as a message shows it, on one line and not for pages."""
    if _is_huge(value):
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # a huge number inside, or a list a thousand deep
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _is_huge(value: Any) -> bool:
    """Whether a whole number is too large for a float, and for Python to write down."""
    return isinstance(value, int) and value.bit_length() > 1023


MOST = 5  # names in a message
LONGEST = 120  # letters of each


def name_some(names: Iterable[Any], most: int = MOST) -> str:
    """Name the first few, then say how many more there are."""
    words = [word if len(word := str(name)) <= LONGEST else f"{word[:40]}…" for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def closest_name(name: Any, known: Iterable[str]) -> str | None:
    """Return the known name most like this one, or one that it is a part of; None where there is none.

    Capitals, and underscores or spaces for dashes, make no difference.
    """
    plain = {dashed(one): one for one in known}
    wanted = dashed(str(name))
    close = get_close_matches(wanted, plain, 1)
    close = close or [one for one in plain if len(wanted) > 2 and wanted in one]
    return plain[close[0]] if close else None


def nearest(name: Any, known: Iterable[str]) -> str:
    """End a complaint about an unknown name with the closest and all there are."""
    known = list(known)
    close = closest_name(name, known)
    hint = "." if close is None else f"; did you mean {close!r}?"
    return f"{hint} There are {', '.join(known)}."


def meant(name: Any, known: Iterable[str]) -> str:
    """Say in a few words what was meant, or all there is."""
    known = list(known)
    close = closest_name(name, known)
    return f"there are {', '.join(known) or 'none'}." if close is None else f"did you mean {close}?"


def dashed(name: str) -> str:
    """Return a name in small letters with dashes for underscores and spaces."""
    return name.lower().replace("_", "-").replace(" ", "-")


def letters(name: str) -> str:
    """Return the letters and digits of a name, small: what is left of it in every spelling."""
    return "".join(filter(str.isalnum, name)).casefold()


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
    """Error: the data of a cohort have problems.

    The error carries its facts, and its message is made of them: ``str(error)`` names parameters of Python,
    the command line words the same facts with its own options.

    Parameters
    ----------
    problem : str
        What is wrong, without what helps.
    subjects : iterable of str, default=()
        Ids of the subjects it is about, each once.
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
        self.subjects = tuple(dict.fromkeys(str(name) for name in subjects))
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
            subjects=[name for one in several for name in one.subjects],
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
