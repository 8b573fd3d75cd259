"""What learners learn from: rows and labels, their scaling, relevance and pictures."""
