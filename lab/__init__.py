"""Real brokers and clients in a network namespace: takes captures, and what the clients know that they did.

``python -m lab list`` lists scenarios, ``run NAME`` plays one, ``all`` plays all; README.md says more.
"""
