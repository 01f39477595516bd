"""A learner's class or function -> a candidate with the canonical interface of its kind.

synonyms.py: what names mean. kinds.py: which kinds a class may be. construct.py, config.py: building it. calling.py,
masks.py: calling it. layout.py, attention.py, align.py: where its weights are. search.py: trying what remains open.
"""
