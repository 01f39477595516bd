"""A learner's class or function -> a candidate with the canonical interface of its kind.

match.py tries all of it in turn. synonyms.py: what names mean. guess.py: which kinds a class may be. construct.py,
config.py: building it. plan.py, calling.py: calling it. masks.py, mask_search.py: how it takes masks. layout.py,
attention.py, align.py, weight_search.py: where its weights are. trial.py: how well all this explains what it computes.
known.py, parts.py, library.py: what is known of the rest of the learner's code.
"""
