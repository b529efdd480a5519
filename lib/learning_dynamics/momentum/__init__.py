"""What the chapters on momentum share: memories of past gradients, and what continuous time says about them."""
