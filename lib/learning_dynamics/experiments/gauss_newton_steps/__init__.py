"""The experiments of the chapter gauss_newton_steps."""
