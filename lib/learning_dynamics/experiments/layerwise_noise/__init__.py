"""Experiments of the chapter layerwise_noise."""
