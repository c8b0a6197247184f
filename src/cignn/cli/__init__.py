"""The command line, thin over the Python API: one module per group of commands."""

from cignn.cli import audit, demo, evaluate, fit, group, predict, report, reproduce, validate  # the commands
from cignn.cli.app import app, main

__all__ = [
    "app",
    "audit",
    "demo",
    "evaluate",
    "fit",
    "group",
    "main",
    "predict",
    "report",
    "reproduce",
    "validate",
]
