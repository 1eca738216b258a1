"""2WikiMultihopQA (Ho et al. 2020), ``{train,dev}.json`` and its Parquet form.

Its records are HotpotQA's, with the types ``comparison``, ``inference``, ``compositional`` and
``bridge_comparison`` and with sentences that do not begin with a space.
"""

from sglang_lazy.evaluate.convert.hotpotqa import hotpotqa as two_wiki

__all__ = ["two_wiki"]
