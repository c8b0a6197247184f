"""Values that readers stumble over, by where they are put."""

# fmt: off
from __future__ import annotations

from typing import Any

DEEP = 10_000  # levels of nesting: more than any recursive reader survives

# anywhere in a file
TOKENS = [
    b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"-9999", b"1e999", b"-1e400", b"1e-999", b"0x10",
    b"1_000", b"9" * 400, b"18446744073709551616", b"-9223372036854775809", b"2000000000", b"1,5", b"1.5",
    b"-1", b"0", b"", b" ", b"=", b"=1+1", b"@x", b"n/a", b"None", b"null", b"true", b"TRUE", b"#", b"%",
    b'"', b"'", b'""', b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3\x28",
    b"\xf4\x90\x80\x80", b"\x85", b"\x1a", b"\r\n", b"\r", b"\n", b"\n\n", b"\t", b",", b";", b"\x0b",
    b"\x0c", b"\x1c", "\u2028".encode(), b"\\", b"\\ud800", "ä".encode(), "٣".encode(), "½".encode(),
    "−1".encode(), b"[" * 300, b"{" * 300, b"a" * 5000, b"../../x",
]

# numbers in JSON, as text
RAW_NUMBERS = [
    "NaN", "Infinity", "-Infinity", "1e400", "9" * 5000, "1" * 400, "-0", "1e-400", "0.1e1",
]

# values in JSON
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**7, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e308, 5e-324, "",
    "x", "0", "1", "nan", "none", "\u0000", "\ud800", "ä", "a" * 300, "../x", "0.5", "=1", [], {}, [None],
    [[]], {"": None}, [1, 2, 3], ["a", "b"], [True], {"a": 1}, [float("nan")], [0.5] * 4,
]

# values in TOML
LITERALS = [
    "true", "false", "0", "1", "-1", "1.5", "nan", "inf", "-inf", "1e400", "9" * 400,
    "10000000000000000000", "1_000", "2020-01-01", "10:00:00", "2020-01-01T10:00:00Z", "9999-99-99", '""',
    '"x"', "'none'", '"\\u0000"', '"\\ud800"', "[]", "[1, 2]", '["a", 1]', "[[1], [2]]", "{}", "{a = 1}",
    '{a = {b = "c"}}', "[nan]", "[1e999]", "0x10", "0b1", '"""\nx\n"""', '"abc', "abc", "", "=", '"../x"',
    '"/dev/null"', '"' + "a" * 300 + '"', "[" * DEEP + "]" * DEEP, '"{a = 1}"', '"raise"', '"drop_subject"',
    '"keep"', '"auto"', '"cpu"', '"ä"', '"=1+1"', "{a." + "a." * 3000 + "a = 1}",
]

# lines in TOML
LINES = [
    "[model]", "[load]", "[[model]]", "[[load]]", "[fit]", "[predict]", "[resolved]", "[model.x]", "[x]",
    "model = 1", "load = 1", "fit = 1", "config = 'x'", "json = true", "help = true", "a = 1", "'' = 1",
    "seed = 1", "epochs = 2", "[model]\nC = 1979-05-27", "[load]\nmin_length = 'abc'",
    "[load]\nn_rois = 1.5", "a" + ".a" * 5000 + " = 1",
]

# shapes in the header of an .npy
SHAPES = [
    "()", "(0,)", "(1,)", "(0, 4)", "(4, 0)", "(-1, 4)", "(2000000000, 4)", "(10**6, 10**6)",
    "(99999999999999, 9)", "(9223372036854775807,)", "(3.5, 4)", "(None,)", "('a',)", "4", "[4, 4]",
    "((4, 4),)", "(True, 4)", "(1,) * 40", "(" + "1, " * 70 + ")", "(4, 4, 4)", "(20,)", "(2, 10, 4)",
    "(" * 150 + ")" * 150,
]

# types in the header of an .npy
DTYPES = [
    "'<f8'", "'>f8'", "'<f2'", "'<i8'", "'|b1'", "'|u1'", "'<c16'", "'<M8[s]'", "'<m8[D]'", "'|O'", "'<U4'",
    "'|S8'", "'<U0'", "'|V8'", "'|V0'", "'x'", "''", "None", "3", "[('a', '<f4')]", "[('a', '|O')]",
    "'<f16'", "'<U999999999'", "[('a', '<f4', (2000000000,))]", "'<f4,<f4'",
    "{'names': ['a'], 'formats': ['<f4']}", "('<f4', (2, 2))", "'Float64'",
]

# types in the header of a safetensors file
TENSOR_TYPES = [
    "F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "I8", "F8_E4M3", "C64", "x",
]

# cells of a database
SQL: list[Any] = [
    None, 0, 1, -1, 2**62, 0.5, 1e308, float("inf"), "", "x", "nan", "[]", "{}", "null", "1e400", "NaN",
    '"', "[1, 2, 3]", b"\xff\xfe", b"", "9" * 5000, "[" * 5000, '{"cignn": 1}', '{"cignn": "1"}',
    "[0.2, 0.8, 0.1]", '["a"]', "[NaN, 1]", "\x00", "ä", "done", "failed", "control", '"control"', "[0.5]",
    '[["a"], {"b": 1}]', '{"a": ' * 3000,
]
