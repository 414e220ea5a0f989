"""The rows, one file for each kind of path, and the catalogue that lists them."""
