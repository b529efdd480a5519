"""What the chapters on adaptive steps share: finite sums whose minibatches have minima that can be computed."""
