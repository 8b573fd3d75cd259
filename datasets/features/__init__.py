"""Features of pictures: blocks, visual words and their cache."""
