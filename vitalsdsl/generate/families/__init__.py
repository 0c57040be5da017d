"""The curves: a file for each family, found by being here. Each names its formula (t is the step) and where it is from."""
