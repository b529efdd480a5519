"""What only one chapter runs, a folder a chapter, and the commands that make its kept results."""
