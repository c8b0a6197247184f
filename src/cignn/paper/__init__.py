"""Each table and figure of the paper on command, ours beside theirs."""

from cignn.paper.engine import Reproduction, reproduce
from cignn.paper.spec import Spec, load_spec, names

__all__ = ["Reproduction", "Spec", "load_spec", "names", "reproduce"]
