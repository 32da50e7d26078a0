"""The protocols: each decodes one message queue's wire format, on the contract of ``mqsniff.dissector`` alone."""
