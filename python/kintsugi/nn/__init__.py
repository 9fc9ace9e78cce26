"""kt.nn: modules, as torch.nn names them. Parameters carry requires_grad as a flag; derivatives are not there yet."""
from . import functional, init  # noqa: F401
from .containers import ModuleDict, ModuleList, ParameterList, Sequential  # noqa: F401
from .layers import *  # noqa: F401,F403
from .module import Module  # noqa: F401
from .parameter import Parameter  # noqa: F401
