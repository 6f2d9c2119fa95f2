"""The methods, a folder each, and what they are made of: see `graphdp.methods.card`."""
