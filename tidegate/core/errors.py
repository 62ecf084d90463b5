"""Every error Tidegate raises on purpose has `TidegateError` at its root."""


class TidegateError(Exception):
    """Something went wrong that an operator or a client can understand and act on."""


class InvalidInput(TidegateError):
    """The input breaks a rule; the message says which. Nothing was changed."""


class NotFound(TidegateError):
    """The named pool, key, bucket or user does not exist."""


class AlreadyExists(TidegateError):
    """The name is taken."""


class Conflict(TidegateError):
    """The state changed in the meantime, or forbids the operation; look again and retry."""


class Refused(TidegateError):
    """A server that is needed forbids it; the same call fails until something changes there."""


class Unavailable(TidegateError):
    """A server that is needed does not answer; the same call may succeed later."""


class Full(Unavailable):
    """There is no space for it, for nobody on this machine. What is there can still be read."""
