"""What functions remember of a stream: windows that cost the same a step however long they are, and never drift.

Several functions share one kernel where they ask about the same stream and window.
"""
