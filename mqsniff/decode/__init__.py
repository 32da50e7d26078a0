"""From reassembled connections to decoded messages and exchanges."""
