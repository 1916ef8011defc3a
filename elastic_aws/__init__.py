"""Elastic PyTorch training on AWS spot instances. Importing this package imports nothing else."""

__version__ = "0.1.0"
