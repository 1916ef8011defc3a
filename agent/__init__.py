"""What runs on the nodes: the node agent and the job controller."""
