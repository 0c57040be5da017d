"""A recorded run at once: the same transitions as a step at a time, from whole columns."""
