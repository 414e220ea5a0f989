"""The levels of a process's log, as settings name them. Pure."""

from hearthkv.core.errors import SettingsError

LOG_LEVELS = ("debug", "info", "warning", "error")


def check_log_level(log_level: str) -> str:
    """
    Return `log_level` if it is one of LOG_LEVELS.

    Raises:
        SettingsError: If it is not.
    """
    if log_level not in LOG_LEVELS:
        raise SettingsError(f"log_level is {log_level!r}, must be one of {', '.join(LOG_LEVELS)}")
    return log_level
