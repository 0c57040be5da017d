"""A small real training run that goes wrong, is noticed, and is brought back or paused: `vitals demo`."""
