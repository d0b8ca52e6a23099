"""What the build writes into the wheel."""

VERSION: str
"""The version of the package and of the library in it."""

PLATFORM: str
"""The platform that the files in `native/` are for, such as `x86_64-linux-gnu`."""
