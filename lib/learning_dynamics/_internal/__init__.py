"""What the library's modules share and no reader needs: arguments, files, checkpoints, display."""
