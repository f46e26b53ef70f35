"""What the loaders by LitData say of themselves."""

ORDER = "chunks in random order, items shuffled within a chunk"
