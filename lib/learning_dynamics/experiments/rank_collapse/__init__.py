"""The experiments of the chapter rank_collapse."""
