"""Position-independent KV reuse for SGLang."""

from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_lazy.frontend import document

__version__ = "0.1.0"

# In the root of a checkout, Python finds this folder before an installed wheel, but its
# subpackages `kernels` and `patches` lie elsewhere in the tree: take those from the wheel.
__path__ = extend_path(__path__, __name__)

__all__ = ["__version__", "document"]


def __getattr__(name: str) -> Any:
    # SGLang imports this package early in every process; the frontend language can wait.
    if name == "document":
        from sglang_lazy.frontend import document

        return document
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
