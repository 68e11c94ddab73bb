"""Retrieval: questions in, rankings out (SPEC section 2).

`observation` makes the two choices (what is selected, what is asked next), `scoring` ranks the passages
that the chosen seeds reach, `pipeline` joins both into a search, `replay` ranks a logged search again.
"""
