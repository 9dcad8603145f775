"""The replay zone: pure and stable. A change here can reach runs that are already in flight."""
