"""Forming rounds: pure rules, and the loop that applies them."""
