"""The mistakes that people make in a sentence, one kind a file; syntax.py has their order."""
