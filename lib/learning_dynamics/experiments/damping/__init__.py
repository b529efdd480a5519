"""The experiments of the chapter damping."""
