"""Experiments of the chapter momentum_shadowing."""
