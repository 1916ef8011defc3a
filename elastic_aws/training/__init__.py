"""For the user's training script: run, checkpoint, sampler."""
