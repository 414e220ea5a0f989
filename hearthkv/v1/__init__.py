"""Generated messages and stubs of the hearthkv.v1 contract. Never edited."""
