"""What the papers claim: each claim with the rule that decides it, and its verdict from runs."""
