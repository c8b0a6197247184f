"""The command line, thin over the Python API: one module per group of commands."""

from cignn.cli import audit, demo, evaluate, explain, fit, info, predict, report, reproduce  # the commands
from cignn.cli.app import app, main

__all__ = [
    "app",
    "audit",
    "demo",
    "evaluate",
    "explain",
    "fit",
    "info",
    "main",
    "predict",
    "report",
    "reproduce",
]
