"""The experiments of the chapter vanishing_curvature."""
