"""The tables: their columns, and the rows and Arrow blocks that items become."""
