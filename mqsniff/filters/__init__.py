"""What a run lets through: which items, which of their parts, and how many matched."""
