"""A policy as a thing: where it is kept, which files it is made of, and what it comes to when all are read."""
