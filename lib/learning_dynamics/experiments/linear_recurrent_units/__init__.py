"""The experiments of the chapter linear_recurrent_units."""
