"""A policy over a run that this process logs."""
