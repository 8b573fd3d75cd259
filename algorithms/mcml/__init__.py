"""MCML, maximally collapsing metric learning."""
