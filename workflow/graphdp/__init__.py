"""graphdp: differentially private graph neural networks, reproduced, audited and corrected."""

__version__ = "0.1.0"
