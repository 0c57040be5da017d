"""A policy over runs that go on elsewhere."""
