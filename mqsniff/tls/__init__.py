"""TLS inside connections: records and key logs in, plain bytes and what the handshakes said out.

It knows nothing of protocols inside. ``cryptography`` does the ciphers; it is imported when the first record is opened.
"""
