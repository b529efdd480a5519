"""The experiments of the chapter empirical_fisher."""
