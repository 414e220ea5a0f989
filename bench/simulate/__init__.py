"""How a router fares with many nodes, sessions and blocks."""
