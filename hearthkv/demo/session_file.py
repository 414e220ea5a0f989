"""Reads the texts of the demo's session from the package's `session.toml`."""

from importlib import resources

from hearthkv.demo.session_texts import SessionTexts, parse_texts


def load_texts() -> SessionTexts:
    """Read the texts that come with the package."""
    source = resources.files("hearthkv.demo").joinpath("session.toml")
    return parse_texts(source.read_text(encoding="utf-8"))
