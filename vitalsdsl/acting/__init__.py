"""What is done about transitions: who is told, what is asked of a training, and what has been done already."""
