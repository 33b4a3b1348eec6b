"""Runs in the interpreter of an explored program, which may lack offbook: only the standard library is used.

It is loaded from its folder under the name `_offbook_guest`, with `offbook/virtual_time.py` and
`offbook/providers/first_use.py`.
"""
