"""`cignn info`: versions and devices."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from cignn import __version__
from cignn.cli import options as opt
from cignn.cli.app import command
from cignn.cli.screen import say_json, show_facts

PACKAGES = ("torch", "torch-geometric", "numpy", "scikit-learn", "nilearn")


@command()
def info(as_json: opt.Json = False) -> None:
    """Show versions and devices.

    Example: [bold]cignn info[/]
    """
    import torch

    facts = {"python": platform.python_version(), "cignn": __version__}
    facts |= {package: _version(package) for package in PACKAGES}
    facts["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    facts["threads"] = str(torch.get_num_threads())
    if as_json:
        say_json(facts)
    else:
        show_facts(facts, "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
