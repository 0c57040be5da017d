"""The commands, one a file: a file here is a command of its name."""
