"""How the bytes of blocks get between a store and memory that the caller owns."""
