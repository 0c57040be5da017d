"""What is measured of a torch training: one collector a module, found by being here."""
