"""The `hearthkv` command."""
