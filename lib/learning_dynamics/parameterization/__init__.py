"""What the chapters on parameterization share: fixed points, the column space of the Jacobian, decision processes."""
