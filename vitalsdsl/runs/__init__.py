"""Recorded runs: where they lie, and a policy over them."""
