"""The language: text to frozen objects with their places, and back to text. Nothing here evaluates anything."""
