"""The forms of the language that are no functions, each a page of text beside this file."""
