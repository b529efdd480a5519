"""The experiments of the chapter value_learning."""
