"""The roof: the command line, configuration, and the public library API of Pausetrace.

It ties the rooms below it together; nothing in those rooms imports it.
"""
