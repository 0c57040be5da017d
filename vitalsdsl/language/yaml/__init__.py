"""Policies and their tests as YAML: text to a tree, the tree to the same objects as a `.vitals` file, and back."""
