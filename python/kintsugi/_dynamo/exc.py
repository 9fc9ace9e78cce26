"""Exceptions of the tracer."""

AssertionError = AssertionError  # of forbidden callables: raised under this module's name for it


class TorchDynamoException(RuntimeError):
    """Base of what compiling raises by itself."""


class Unsupported(TorchDynamoException):
    """A place that cannot be compiled where breaks are errors. The text names it, says why, and what helps."""


class UserError(TorchDynamoException):
    """Fine in plain Python, impossible in this graph. The text says what to do."""


class TorchRuntimeError(TorchDynamoException):
    """An operation fails on placeholder tensors."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised: `backend_name` and `inner_exception` say which and what."""

    def __init__(self, backend_name, inner_exception):
        self.backend_name = backend_name
        self.inner_exception = inner_exception
        super().__init__(f"backend={backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class InvalidBackend(TorchDynamoException):
    """No backend has this name."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """cond, or an operator like it, could not be captured completely."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the tracer."""


class RecompileError(TorchDynamoException):
    """Under config.error_on_recompile: a second variant was wanted."""


class FailOnRecompileLimitHit(Exception):
    """One variant more than recompile_limit allows, where that is an error."""


class ConstraintViolationError(TorchDynamoException):
    """A size that was marked dynamic is a constant of the trace."""
