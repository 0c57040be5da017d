"""A policy over many recorded runs: what it would have said, how often, and how right that would have been."""
