"""What a plan is made of: nodes, each with its two forms, a step at a time and whole columns at once."""
