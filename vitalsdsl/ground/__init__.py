"""What everything else stands on: text and places in it, findings, errors, points of a run."""
