"""The experiments of the chapter polyak_steps."""
