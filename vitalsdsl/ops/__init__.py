"""The functions of the language: one file each, found by being here."""
