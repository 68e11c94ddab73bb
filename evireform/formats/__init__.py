"""Readers and writers of the files that users bring and take: no database, no models.

`passages` reads corpora, `chunking` splits long texts, `extractions` reads ready-made propositions,
`questions` reads evaluation sets of ours, `datasets` published ones, `runs` writes rankings and qrels. `text`
holds what the readers share.
"""
