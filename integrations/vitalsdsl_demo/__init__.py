"""A small real training run that goes wrong, is noticed, tagged and alerted on: `vitals demo`."""
