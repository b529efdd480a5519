"""The experiments of the chapter data_architecture_alignment."""
