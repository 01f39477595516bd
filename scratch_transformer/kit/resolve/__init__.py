"""A learner's class or function -> a candidate with the canonical interface of its kind.

guess.py: which kinds it may be; corrections.py: what its name says wrongly. foreign.py: what is none of them.
trials/: all ways to build, call and load it, until one explains what it computes.

Something new to understand has one place:
names/settings.py: a name of a constructor's parameter. names/inputs.py: of a forward's. names/roles.py: of a weight.
build/: how classes are constructed; config.py: what configs look like.
call/: how forwards are called; masks.py: forms of masks.
weights/attention.py: where projections can be. weights/units.py: what the path of a module says.
functions/: what is no class. library/parts.py: the learner's own parts of a composite.
"""
