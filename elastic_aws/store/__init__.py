"""The store: what the rest asks of it, etcd behind it, and one in memory."""
