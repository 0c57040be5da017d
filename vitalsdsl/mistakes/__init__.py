"""What people write instead of what the language accepts: one file a kind of mistake, each a list of recognisers."""
