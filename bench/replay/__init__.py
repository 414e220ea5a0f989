"""What eviction policies keep of recorded traffic, beside the best that any could."""
