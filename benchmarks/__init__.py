"""How fast cignn is: ratios measured side by side in one run, printed by ``python -m benchmarks``."""
