"""From a checked policy to the nodes that are evaluated for one run: names are resolved here, once."""
