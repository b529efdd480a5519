"""What the chapters on adaptive steps share: finite sums, chains, signals in deep networks, tokens in attention."""
