"""One run in one page: its curves, what the rules said and when, a reading of the log, the check-list, what to try."""
