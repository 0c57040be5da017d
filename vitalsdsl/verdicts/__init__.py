"""From conditions to levels, and to the transitions that are told."""
