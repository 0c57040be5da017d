"""What differs between two policies, in words: from policies through statements down to expressions."""
