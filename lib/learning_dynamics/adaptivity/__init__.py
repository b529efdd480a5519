"""What the chapters on adaptive steps share: finite sums, the neural chain, and signals in deep random networks."""
