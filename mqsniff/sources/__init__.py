"""The doors in: captures of any kind become PacketBatches."""
