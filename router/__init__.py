"""The router: says which cache node serves a turn."""
