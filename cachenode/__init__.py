"""The cache node: keeps blocks in Redis and on the local disk, and gives them back."""
