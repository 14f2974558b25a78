"""From the bytes of files to typed objects: documents, quick ways through the usual ones, and what is said of the rest.

Enters: paths or text, YAML or JSON, several outputs joined too. Leaves: objects, where each was written, and notes.
"""
