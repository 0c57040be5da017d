"""Advice on policies that mean something, but perhaps not what their author wants: one lint a file, found by being here."""
