"""Figures that need time or a peer to compare with; run by `make bench`, never by the tests."""
