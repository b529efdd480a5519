"""What the chapters on implicit bias share: linear models, the hyperbolic entropy, sparse recovery, margins."""
