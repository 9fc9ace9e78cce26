"""kt.utils: pytree, the registry of classes that are containers."""
from . import _pytree
from . import _pytree as pytree

__all__ = ["_pytree", "pytree"]
