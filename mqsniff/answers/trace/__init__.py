"""Items of a run in, what happened to one record, group, connection or transaction out: steps and waits.

``finding`` looks for records and ``records`` gathers their steps; ``groups``, ``transactions`` and ``connections``
gather those of their own. ``acting`` asks dissectors; ``identities`` and ``about`` tell what is about the same record.
``finish`` completes a trace; ``text`` and ``document`` show it.
"""
