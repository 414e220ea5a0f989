"""Other people's caches, each run in an environment of its own."""
