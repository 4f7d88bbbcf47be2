"""The fixtures that we ship."""

from deadletter.testing import letterbox, letterbox_settings

__all__ = ["letterbox", "letterbox_settings"]
