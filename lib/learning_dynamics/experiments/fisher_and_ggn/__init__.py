"""The experiments of the chapter fisher_and_ggn."""
