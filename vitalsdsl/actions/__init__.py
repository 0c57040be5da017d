"""The actions of the language, one a file; adding one needs no edit anywhere else."""
