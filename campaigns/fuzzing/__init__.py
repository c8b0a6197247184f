"""Damaged inputs: samples of all that is read, ways to damage them, and judges of what comes of it."""
