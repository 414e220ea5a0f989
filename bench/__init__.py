"""Benches: how fast the parts are, beside what is known from elsewhere. See README.md."""
