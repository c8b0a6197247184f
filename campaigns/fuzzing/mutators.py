"""Ways to damage bytes, tables of text, JSON and TOML; each takes a file's content and a generator."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from campaigns.fuzzing.oddities import DEEP, LINES, LITERALS, ODD, RAW_NUMBERS, TOKENS

Mutator = Callable[[bytes, Random], bytes]


# --------------------------------------------------------------------------------- bytes


def _place(data: bytes | bytearray, rng: Random) -> int:
    """Somewhere in the data; the first and the last bytes, where headers and directories are, more often."""
    n = len(data)
    if n == 0:
        return 0
    kind = rng.random()
    if kind < 0.3:
        return rng.randrange(min(n, 200))
    return n - 1 - rng.randrange(min(n, 200)) if kind < 0.4 else rng.randrange(n)


def flip_bit(data: bytes, rng: Random) -> bytes:
    """One bit."""
    out = bytearray(data or b"\0")
    out[_place(out, rng)] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwrite(data: bytes, rng: Random) -> bytes:
    """A few bytes become others, or extreme ones."""
    out, at = bytearray(data or b"\0"), _place(data, rng)
    width = rng.choice([1, 1, 2, 4, 8, 64])
    fill = rng.choice([b"\0" * width, b"\xff" * width, b"\x7f" * width, rng.randbytes(width)])
    out[at : at + width] = fill[: len(out) - at]
    return bytes(out)


def truncate(data: bytes, rng: Random) -> bytes:
    """The end is lost, sometimes all."""
    return data[: rng.choice([0, 1, _place(data, rng), _place(data, rng), max(len(data) - 1, 0)])]


def insert(data: bytes, rng: Random) -> bytes:
    """Random bytes in between."""
    at = _place(data, rng)
    return data[:at] + rng.randbytes(rng.choice([1, 2, 8, 100])) + data[at:]


def duplicate(data: bytes, rng: Random) -> bytes:
    """A slice stands there twice."""
    at, length = _place(data, rng), rng.choice([1, 4, 30, 500])
    return data[: at + length] + data[at:]


def remove(data: bytes, rng: Random) -> bytes:
    """A slice is lost."""
    at, length = _place(data, rng), rng.choice([1, 1, 2, 10, 200])
    return data[:at] + data[at + length :]


def insert_token(data: bytes, rng: Random) -> bytes:
    """A word that readers stumble over."""
    at, token = _place(data, rng), rng.choice(TOKENS)
    return data[:at] + token + data[at + rng.choice([0, 0, len(token), 1]) :]


RAW: dict[str, Mutator] = {
    function.__name__: function
    for function in (flip_bit, overwrite, truncate, insert, duplicate, remove, insert_token)
}


def splice(data: bytes, other: bytes, rng: Random) -> bytes:
    """Begin as one valid file and end as another."""
    return data[: _place(data, rng)] + other[_place(other, rng) :]


# --------------------------------------------------------------------------------- tables


def table(data: bytes, rng: Random) -> bytes:
    """Cells, rows and columns are lost, doubled, moved, quoted or filled with odd words."""
    text = data.decode("latin-1")
    mark = next((mark for mark in "\t,;" if mark in text), " ")
    rows = [line.split(mark) for line in text.split("\n") if line]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if rows:
            rng.choice(_TABLE)(rows, rng)
    ending = rng.choice(["\n"] * 8 + ["\r\n", "\r"])
    out = ending.join(mark.join(row) for row in rows) + rng.choice([ending] * 5 + [""])
    return _encoded(out, rng) if rng.random() < 0.1 else out.encode("latin-1", "replace")


def _encoded(text: str, rng: Random) -> bytes:
    how = rng.choice(["utf-8-sig", "utf-16", "utf-32", "utf-16-be", "cp500", "utf-7"])
    return text.encode(how, "replace")


def _cell(rows: list[list[str]], rng: Random) -> tuple[int, int]:
    i = rng.randrange(len(rows)) if rng.random() < 0.7 else 0
    return i, rng.randrange(max(len(rows[i]), 1))


def _lose_cell(rows: list[list[str]], rng: Random) -> None:
    i, j = _cell(rows, rng)
    del rows[i][j : j + 1]


def _add_cell(rows: list[list[str]], rng: Random) -> None:
    i, j = _cell(rows, rng)
    rows[i].insert(j + rng.randrange(2), rng.choice(["x", "1", "patient", "0.5", ""]))


def _odd_cell(rows: list[list[str]], rng: Random) -> None:
    i, j = _cell(rows, rng)
    rows[i][j : j + 1] = [rng.choice(TOKENS).decode("latin-1")]


def _quote_cell(rows: list[list[str]], rng: Random) -> None:
    i, j = _cell(rows, rng)
    word = "".join(rows[i][j : j + 1])
    rows[i][j : j + 1] = [rng.choice([f'"{word}"', f'"{word}', f'{word}"', f'"{word}""', f'"{word},\t;"'])]


def _lose_row(rows: list[list[str]], rng: Random) -> None:
    del rows[_cell(rows, rng)[0]]


def _double_row(rows: list[list[str]], rng: Random) -> None:
    rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))


def _swap_rows(rows: list[list[str]], rng: Random) -> None:
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    rows[i], rows[j] = rows[j], rows[i]


def _lose_column(rows: list[list[str]], rng: Random) -> None:
    j = _cell(rows, rng)[1]
    for row in rows:
        del row[j : j + 1]


def _double_column(rows: list[list[str]], rng: Random) -> None:
    j = _cell(rows, rng)[1]
    for row in rows:
        row[j:j] = row[j : j + 1]


def _odd_column(rows: list[list[str]], rng: Random) -> None:
    j, token = _cell(rows, rng)[1], rng.choice(TOKENS).decode("latin-1")
    for row in rows[1:]:
        row[j : j + 1] = [token]


def _swap_cells(rows: list[list[str]], rng: Random) -> None:
    (i, j), (k, m) = _cell(rows, rng), _cell(rows, rng)
    rows[i][j : j + 1], rows[k][m : m + 1] = rows[k][m : m + 1], rows[i][j : j + 1]


def _short_header(rows: list[list[str]], rng: Random) -> None:
    j = rng.randrange(max(len(rows[0]), 1))
    rows[0] = rows[0][:j] + rows[0][j + 1 :]


def _many_rows(rows: list[list[str]], rng: Random) -> None:
    rows += [list(rng.choice(rows)) for _ in range(300)]


_TABLE = (
    *(
        _lose_cell,
        _add_cell,
        _odd_cell,
        _odd_cell,
        _odd_cell,
        _quote_cell,
        _lose_row,
        _double_row,
        _swap_rows,
    ),
    *(_lose_column, _double_column, _odd_column, _swap_cells, _short_header, _many_rows),
)


# ----------------------------------------------------------------------------------- JSON


def json_values(data: bytes, rng: Random) -> bytes:
    """Values change, or their types; keys vanish, appear or change places."""
    return json_text(edited(json.loads(data), rng), rng)


def edited(value: Any, rng: Random, times: int | None = None) -> Any:
    """Change plain data in one to three places."""
    value = json.loads(json.dumps(value))
    for _ in range(times or rng.choice([1, 1, 1, 2, 3])):
        value = _edit_once(value, rng)
    return value


def _edit_once(value: Any, rng: Random) -> Any:
    """Walk down from the top and change what is met at the end of the walk."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value))
        how = rng.random()
        if how < 0.08:
            del value[key]
        elif how < 0.14:
            value[rng.choice(["x", "", "n_estimators", "n_rois", "epochs", "ä"])] = deepcopy(rng.choice(ODD))
        elif how < 0.2:
            other = rng.choice(sorted(value))
            value[key], value[other] = value[other], value[key]
        else:
            value[key] = _edit_once(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        how = rng.random()
        if how < 0.15:
            del value[i]
        elif how < 0.3:
            value.insert(i, deepcopy(value[i]))
        elif how < 0.35:
            value.reverse()
        else:
            value[i] = _edit_once(value[i], rng)
        return value
    return _odd_value(value, rng)


def _odd_value(value: Any, rng: Random) -> Any:
    how = rng.random()
    if how < 0.15:
        return [value]
    if how < 0.25:
        return {"x": value}
    if how < 0.35:
        return str(value)
    if how < 0.55 and isinstance(value, int | float):
        third = value // 3 if isinstance(value, int) else value / 3  # of a number of hundreds of digits too
        return rng.choice([value + 1, -value, value * 1000, third, 0, 6000, 10**7, 10**400, math.nan, 1e300])
    if how < 0.65 and isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value.upper(), value * 50, "LedoitWolf", "ComBat"])
    if how < 0.75:
        return rng.choice(["@raw:" + number for number in RAW_NUMBERS])
    return "@deep" if how < 0.78 else deepcopy(rng.choice(ODD))


def json_text(value: Any, rng: Random) -> bytes:
    """Write plain data as JSON, with what JSON's own writer would not write."""
    text = json.dumps(value, indent=rng.choice([None, 2]))
    for number in RAW_NUMBERS:
        text = text.replace(f'"@raw:{number}"', number)
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}")])
    text = text.replace('"@deep"', opening * DEEP + "1" + closing * DEEP)
    how = rng.random()
    if how < 0.03:
        text = text.replace("{", '{"format": 1, ', 1)  # a key twice
    elif how < 0.05:
        text = rng.choice(["", "null", "[]", "1", '"x"', "[" * DEEP, '{"a":' * DEEP])
    return text.encode("utf-8", "surrogatepass")


# ----------------------------------------------------------------------------------- TOML


def toml_values(data: bytes, rng: Random) -> bytes:
    """Values become others, of other types; lines vanish, appear, move or stand twice."""
    lines = data.decode("utf-8").split("\n")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _edit_toml(lines, rng)
    return "\n".join(lines).encode()


def _edit_toml(lines: list[str], rng: Random) -> None:
    at = rng.randrange(len(lines))
    how = rng.random()
    settings = [i for i, line in enumerate(lines) if " = " in line]
    if how < 0.6 and settings:
        at = rng.choice(settings)
        lines[at] = f"{lines[at].partition(' = ')[0]} = {rng.choice(LITERALS)}"
    elif how < 0.68:
        lines.insert(at, lines[at])
    elif how < 0.76:
        del lines[at]
        lines += [] if lines else [""]
    elif how < 0.9:
        lines.insert(at, rng.choice(LINES))
    elif settings:
        at = rng.choice(settings)
        name, _, value = lines[at].partition(" = ")
        lines[at] = f"{rng.choice([name + 'x', name.upper(), repr(name), name + '.a', ''])} = {value}"


# ---------------------------------------------------------------------------------- words


def words(data: bytes, rng: Random) -> bytes:
    """Change the words of a command line, kept as a JSON list: values of NAME=VALUE, or whole words."""
    given = json.loads(data)
    for _ in range(rng.choice([1, 1, 2])):
        assignments = [i for i, word in enumerate(given) if "=" in word]
        how = rng.random()
        if how < 0.75 and assignments:
            i = rng.choice(assignments)
            name = given[i].partition("=")[0]
            given[i] = f"{name}={_word(rng)}"
        elif how < 0.85 and assignments:
            i = rng.choice(assignments)
            given[i] = rng.choice(
                [given[i] + "=", given[i][1:], given[i].upper(), "=" + given[i], _word(rng)]
            )
        else:
            given.append(rng.choice(["--seed", "--label", "--positive", "--density", "--hold-out"]))
            given.append(_word(rng))
    return json.dumps(given).encode()


def _word(rng: Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(LITERALS)
    return rng.choice(TOKENS).decode("utf-8", "surrogateescape").replace("\0", "0")


def as_csv(rows: list[list[Any]], mark: str = ",") -> bytes:
    """Write rows as text."""
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
