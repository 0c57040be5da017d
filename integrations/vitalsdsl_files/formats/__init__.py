"""The formats that are read: one module each, found by being here. Each has one object `FORMAT`."""
