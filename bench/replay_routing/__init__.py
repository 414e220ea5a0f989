"""What routing keeps of recorded traffic on several nodes, beside one cache of the same size."""
