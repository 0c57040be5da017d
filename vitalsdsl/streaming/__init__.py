"""A step at a time: points in, transitions out."""
