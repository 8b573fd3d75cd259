"""Generated images of web scale: sparse bags of visual words with the papers' sizes."""
