"""What agents and engines call: sessions, routing and blocks."""
